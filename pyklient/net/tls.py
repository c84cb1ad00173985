"""TLS between a connection and its socket: plain bytes on one side, records of TLS on the other.

An SSLSocket has neither ``sendmsg`` nor MSG_WAITALL, so the encryption stands alone (``ssl.MemoryBIO``)
and the bytes still go through the TcpTransport.

OpenSSL's object may be used by one thread at a time, while a connection reads and writes at once: the
lock is held for the arithmetic only, never while waiting for the network. The reader never sends. What
OpenSSL wants sent because of something read (a key update) stays in the outgoing buffer, in order, for
the next writer; TLS 1.3 asks for no more than that (RFC 8446, 4.6.3).
"""

import contextlib
import ssl
import threading
from collections.abc import Iterator, Sequence
from typing import cast

from pyklient.errors import AuthenticationError, BrokerConnectionError, KafkaError, ProtocolError
from pyklient.net.transport import Patience, PeerClosedError, TcpTransport
from pyklient.protocol.primitives import Buffer

__all__ = ["TlsTransport", "explain"]

_CHUNK = 256 * 1024
_NOTHING = (b"",)
"""What is left to send where all of it waits encrypted in here."""


class TlsTransport:
    """A Transport that encrypts, over *below* to *peer*, whose certificate is for *server_hostname*."""

    def __init__(self, below: TcpTransport, peer: str, context: ssl.SSLContext, server_hostname: str) -> None:
        self._below = below
        self._peer = peer
        self._lock = threading.Lock()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self._left: Sequence[Buffer] = ()
        """Encrypted already, and not taken by the system at once."""

    def handshake(self, patience: Patience) -> None:
        """Agree on keys and check the certificate. Raises an error of ours that says what to do."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(patience)
                self._feed(patience, "during the TLS handshake")
            except ssl.SSLError as error:
                raise explain(error, self._peer) from error
            else:
                self._flush(patience)
                return

    def send(self, parts: Sequence[Buffer], patience: Patience) -> None:
        if self._left:
            self._flush(patience)
        for chunk in _chunks(parts):
            self._encrypt(chunk)
            try:
                self._flush(patience)
            except BrokerConnectionError:
                # A peer that refuses a certificate says so and hangs up at once; the alert lies in the
                # receive buffer while the bytes sent meanwhile already find a closed door.
                with contextlib.suppress(BrokerConnectionError):
                    self._decrypt(memoryview(bytearray(1)), patience)
                raise

    def send_at_once(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        if self._left or sum(map(len, parts)) > _CHUNK:
            return parts
        self._encrypt(b"".join(parts))
        with self._lock:
            data = self._outgoing.read()
        self._left = self._below.send_at_once((data,))
        return _NOTHING if self._left else ()

    def receive_some(self, limit: int, patience: Patience) -> bytes:
        room = bytearray(limit)
        with memoryview(room) as view:
            count = self._decrypt(view, patience)
        return bytes(room[:count])

    def receive(self, size: int, patience: Patience) -> memoryview:
        whole = memoryview(bytearray(size))
        have = 0
        while have < size:
            have += self._decrypt(whole[have:], patience)
        return whole

    def is_quiet(self) -> bool:
        return self._below.is_quiet()

    def abort(self) -> None:
        self._below.abort()

    def close(self) -> None:
        self._below.close()

    def _decrypt(self, room: memoryview, patience: Patience) -> int:
        while True:
            with self._lock:
                try:
                    # Into a buffer, read() returns a count; its annotation knows the other form only.
                    count = cast(int, self._tls.read(len(room), room))
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
            self._feed(patience, "")

    def _feed(self, patience: Patience, when: str) -> None:
        try:
            data = self._below.receive_some(_CHUNK, patience)
        except PeerClosedError as error:
            if not when:
                raise
            raise BrokerConnectionError(
                f"{self._peer} closed the connection {when}; does that port really speak TLS "
                "(security_protocol SSL or SASL_SSL)?"
            ) from error
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

    def _flush(self, patience: Patience) -> None:
        with self._lock:
            data = self._outgoing.read()
        waiting = [*self._left, data] if data else self._left
        if waiting:
            self._below.send(waiting, patience)
            self._left = ()


def _chunks(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """*parts* with the small ones put together, as each becomes a record of TLS, and the large ones cut."""
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
    """What *error* of OpenSSL's means for whoever configures the client."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message.rstrip(".")
        return AuthenticationError(f"{peer} is not who it should be: {why}; {_advice(error.verify_code)}")
    reason = error.reason or str(error)
    said = reason.replace("_", " ").lower()
    if reason in _NOT_TLS:
        return ProtocolError(
            f"{peer} does not answer in TLS ({said}); use the port of its TLS listener, "
            "or security_protocol PLAINTEXT or SASL_PLAINTEXT if this is the one you mean"
        )
    if reason in _CERTIFICATE_REFUSED:
        return AuthenticationError(
            f"{peer} refuses this client's certificate, or that there is none ({said}); "
            "ssl_keystore_location must hold a certificate, with its key, that the broker's authorities "
            "have signed"
        )
    if reason in _NO_COMMON_GROUND:
        return AuthenticationError(
            f"{peer} and this client have no TLS version or cipher in common, "
            f"or it wants a client certificate ({said}); see ssl_context and ssl_keystore_location"
        )
    return BrokerConnectionError(f"TLS with {peer} broke: {said}")


def _advice(verify_code: int) -> str:
    if verify_code == _EXPIRED:
        return "the broker needs a new certificate (or this machine's clock is wrong)"
    if verify_code == _NOT_YET_VALID:
        return "is this machine's clock right?"
    if verify_code in _WRONG_NAME:
        return (
            "connect by a name that the certificate holds, or, if you trust the network, "
            "set ssl_endpoint_identification_algorithm=''"
        )
    return "set ssl_truststore_location to a PEM file with the authority that signed the broker's certificate"
