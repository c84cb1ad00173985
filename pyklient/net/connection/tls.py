"""Encrypts and decrypts the bytes of a connection with TLS.

An SSLSocket has neither ``sendmsg`` nor MSG_WAITALL. Therefore OpenSSL works on buffers in memory
(``ssl.MemoryBIO``), and a TcpTransport sends and receives the encrypted bytes.

Only one thread at a time may use an object of OpenSSL, but a connection reads and writes at the same time. A
lock is held while OpenSSL encrypts or decrypts, and never while waiting for the network. The reader never
sends: if OpenSSL answers something that was read (a key update), the answer stays in the outgoing buffer
until a thread writes. TLS 1.3 permits this (RFC 8446, 4.6.3).
"""

import contextlib
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from pyklient.config import ClientConfig
from pyklient.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ConfigurationError,
    KafkaError,
    ProtocolError,
)
from pyklient.net.connection.locks import new_tls_lock
from pyklient.net.connection.transport import PeerClosedError, TcpTransport, TimeLeft
from pyklient.protocol.primitives import Buffer

__all__ = ["TlsTransport", "explain", "tls_context"]

_CHUNK = 256 * 1024
_NOTHING = (b"",)
"""The remainder that ``send_at_once`` returns if the whole request is encrypted, but the socket has not
accepted all encrypted bytes. It is not empty, so the caller calls ``send``, which sends those bytes."""


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """Return the TLS context that the options in *config* describe.

    Raises ConfigurationError if a file is missing or cannot be used.
    """
    if config.ssl_context is not None:
        return config.ssl_context
    trusted = config.ssl_truststore_location
    context = ssl.create_default_context() if trusted is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION  # the reader of a TlsTransport must not send
    if trusted is not None:
        _load("ssl_truststore_location", trusted, lambda: context.load_verify_locations(trusted))
    if config.ssl_keystore_location is not None:
        own = config.ssl_keystore_location
        # With None, OpenSSL would ask for the password on the terminal. Empty, it is an error.
        password = config.ssl_key_password or ""
        _load("ssl_keystore_location", own, lambda: context.load_cert_chain(own, password=password))
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    return context


def _load(option: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{option}={path!r} cannot be used ({error.reason or error}): it must be a PEM file "
            "(convert Java's key stores with keytool and openssl pkcs12), "
            "and an encrypted key needs ssl_key_password"
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"{option}={path!r} cannot be read ({error.strerror}); check the path"
        ) from error


class TlsTransport:
    """A Transport that encrypts the bytes, and sends them through *below*, another transport.

    *peer* names the broker in errors. Its certificate must be for *server_hostname*.
    """

    def __init__(self, below: TcpTransport, peer: str, context: ssl.SSLContext, server_hostname: str) -> None:
        self._below = below
        self._peer = peer
        self._lock = new_tls_lock()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self._left: Sequence[Buffer] = ()
        """The encrypted bytes that the socket has not accepted yet. They are sent before any other bytes."""

    def handshake(self, time_left: TimeLeft) -> None:
        """Do the TLS handshake: negotiate keys and check the certificate of the peer.

        Raises a KafkaError that says which option to change.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._exchange_handshake(time_left)
            except ssl.SSLError as error:
                raise explain(error, self._peer) from error
            else:
                self._flush(time_left)
                return

    def send(self, parts: Sequence[Buffer], time_left: TimeLeft) -> None:
        if self._left:
            self._flush(time_left)
        for chunk in _chunks(parts):
            self._encrypt(chunk)
            try:
                self._flush(time_left)
            except BrokerConnectionError:
                # A peer that refuses the certificate sends an alert and closes the connection. Sending fails
                # then, and the alert, which names the reason, is still in the receive buffer.
                with contextlib.suppress(BrokerConnectionError):
                    self._decrypt(memoryview(bytearray(1)), time_left)
                raise

    def send_at_once(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        if self._left or sum(map(len, parts)) > _CHUNK:
            return parts
        self._encrypt(b"".join(parts))
        with self._lock:
            data = self._outgoing.read()
        self._left = self._below.send_at_once((data,))
        return _NOTHING if self._left else ()

    def receive_some(self, limit: int, time_left: TimeLeft) -> bytes:
        buffer = bytearray(limit)
        with memoryview(buffer) as view:
            count = self._decrypt(view, time_left)
        return bytes(buffer[:count])

    def receive(self, size: int, time_left: TimeLeft, head: bytes = b"") -> memoryview:
        whole = memoryview(bytearray(size))
        have = len(head)
        whole[:have] = head
        while have < size:
            have += self._decrypt(whole[have:], time_left)
        return whole

    def is_quiet(self) -> bool:
        return self._below.is_quiet()

    def abort(self) -> None:
        self._below.abort()

    def close(self) -> None:
        self._below.close()

    def _decrypt(self, buffer: memoryview, time_left: TimeLeft) -> int:
        while True:
            with self._lock:
                try:
                    # With a buffer, read() returns a count. Its annotation has the other form only.
                    count = cast(int, self._tls.read(len(buffer), buffer))
                except ssl.SSLWantReadError:
                    count = -1
                except ssl.SSLZeroReturnError as error:
                    raise PeerClosedError(f"{self._peer} closed the connection") from error
                except ssl.SSLError as error:
                    raise explain(error, self._peer) from error
            if count > 0:
                return count
            if count == 0:
                raise PeerClosedError(f"{self._peer} closed the connection")
            self._feed(time_left)

    def _exchange_handshake(self, time_left: TimeLeft) -> None:
        """Send the bytes that OpenSSL has produced for the handshake, and receive the peer's answer."""
        try:
            self._flush(time_left)
            self._feed(time_left)
        except BrokerConnectionError as error:
            # A peer without TLS takes the handshake for a request that is too long. It closes the connection,
            # or resets it if it has not read everything.
            raise BrokerConnectionError(
                f"the TLS handshake with {self._peer} failed: {error}; check that this port uses TLS "
                "(security_protocol SSL or SASL_SSL)"
            ) from error

    def _feed(self, time_left: TimeLeft) -> None:
        data = self._below.receive_some(_CHUNK, time_left)
        with self._lock:
            self._incoming.write(data)

    def _encrypt(self, data: Buffer) -> None:
        with self._lock:
            try:
                done = 0
                while done < len(data):
                    done += self._tls.write(memoryview(data)[done:])
            except ssl.SSLError as error:
                raise explain(error, self._peer) from error

    def _flush(self, time_left: TimeLeft) -> None:
        with self._lock:
            data = self._outgoing.read()
        waiting = [*self._left, data] if data else self._left
        if waiting:
            self._below.send(waiting, time_left)
            self._left = ()


def _chunks(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of *parts* in chunks. Large parts are divided. Small parts are joined, because each
    chunk becomes at least one TLS record."""
    small = bytearray()
    for part in parts:
        if len(part) < _CHUNK // 8:
            small += part
            if len(small) < _CHUNK:
                continue
        if small:
            yield bytes(small)
            small.clear()
        if len(part) >= _CHUNK // 8:
            view = memoryview(part)
            yield from (view[start : start + _CHUNK] for start in range(0, len(view), _CHUNK))
    if small:
        yield bytes(small)


_NOT_TLS = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "RECORD_LAYER_FAILURE",
        "HTTP_REQUEST",
        "UNKNOWN_PROTOCOL",
        "PACKET_LENGTH_TOO_LONG",
    }
)
_NO_COMMON_GROUND = frozenset(
    {
        "NO_PROTOCOLS_AVAILABLE",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "UNSUPPORTED_PROTOCOL",
    }
)
_CERTIFICATE_REFUSED = frozenset(
    {
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_ACCESS_DENIED",
        "TLSV1_ALERT_UNKNOWN_CA",
    }
)
_EXPIRED, _NOT_YET_VALID = 10, 9
_WRONG_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


def explain(error: ssl.SSLError, peer: str) -> KafkaError:
    """Translate *error*, which OpenSSL has raised, into a KafkaError that says which option to change."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message.rstrip(".")
        return AuthenticationError(
            f"the certificate of {peer} is not accepted: {why}; {_advice(error.verify_code)}"
        )
    reason = error.reason or str(error)
    said = reason.replace("_", " ").lower()
    if reason in _NOT_TLS:
        return ProtocolError(
            f"{peer} does not use TLS on this port ({said}); use the port of its TLS listener, "
            "or set security_protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    if reason in _CERTIFICATE_REFUSED:
        return AuthenticationError(
            f"{peer} refuses the certificate of this client, or requires one ({said}); set "
            "ssl_keystore_location to a PEM file with a key, and a certificate signed by a certificate "
            "authority that the broker trusts"
        )
    if reason in _NO_COMMON_GROUND:
        return AuthenticationError(
            f"{peer} and this client have no TLS version or cipher in common, "
            f"or the broker requires a client certificate ({said}); set ssl_context or "
            "ssl_keystore_location"
        )
    return BrokerConnectionError(f"the TLS connection to {peer} failed: {said}")


def _advice(verify_code: int) -> str:
    if verify_code == _EXPIRED:
        return "the broker needs a new certificate, or the clock of this machine is wrong"
    if verify_code == _NOT_YET_VALID:
        return "check the clock of this machine"
    if verify_code in _WRONG_NAME:
        return (
            "connect by a name that is in the certificate, or, if you trust the network, "
            "set ssl_endpoint_identification_algorithm=''"
        )
    return "set ssl_truststore_location to a PEM file with the authority that signed the broker's certificate"
