"""Sets up a connection to a broker: TCP, TLS handshake, API versions, SASL login.

Most mistakes in a configuration first show here, so the error of each step says what to change.
"""

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyklient.config import ClientConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    BrokerConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
    broker_error,
)
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.api_versions import api_versions_request
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.old_brokers import OldBrokers, Versions
from pyklient.net.connection.transport import (
    Deadline,
    Endpoint,
    PeerClosedError,
    TcpTransport,
    Transport,
    connect,
)
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

if TYPE_CHECKING:
    import ssl

__all__ = ["NoVersionsError", "connection_opener", "open_connection"]

log = logging.getLogger("pyklient.net")

_TIME_TO_ANSWER = 1.0
"""The number of seconds in which a broker must name the versions of requests that it supports. If a broker
does not answer in time, other requests probe its version, because Kafka 0.9 does not answer the request for
its versions."""
_LAST_CHECK = 0.5
"""The number of seconds that are reserved for finding out whether a peer that does not answer is a web
server."""
_NEEDS_TLS = "its listener uses TLS (set security_protocol to SSL or SASL_SSL)"
_NEEDS_CERTIFICATE = "it requires another certificate of this client (see ssl_keystore_location)"
_NEEDS_SASL = (
    "; if its listener uses SASL, set security_protocol to {}, and sasl_mechanism, sasl_username and "
    "sasl_password"
)


class NoVersionsError(BrokerConnectionError, UnsupportedVersionError):
    """The broker closed the connection instead of naming the versions that it supports.

    The error is retriable, because the broker may be starting or stopping. If it persists, the broker is too
    old.
    """


class _NoAnswerError(Exception):
    """The broker has not said in time which versions of requests it supports."""


def connection_opener(config: ClientConfig) -> Callable[..., Connection]:
    """Return :func:`open_connection` for one client, with its first three arguments already set.

    Raises ConfigurationError if a file of the TLS options is missing or cannot be used.
    """
    context = None
    if config.security_protocol in ("SSL", "SASL_SSL"):
        from pyklient.net.connection.tls import tls_context  # and OpenSSL, which takes time to load

        context = tls_context(config)
    return partial(open_connection, config, context, OldBrokers())


def open_connection(
    config: ClientConfig,
    context: "ssl.SSLContext | None",
    old_brokers: OldBrokers,
    endpoint: Endpoint,
    timeout: float,
    cancelled: Callable[[], KafkaError | None],
    traffic: Traffic,
) -> Connection:
    """Open a connection to *endpoint*, log in, and find out the broker's versions. Return the connection,
    which counts its requests in *traffic*.

    Takes at most *timeout* seconds. Raises BrokerConnectionError, AuthenticationError, ProtocolError or
    UnsupportedVersionError. If *cancelled* returns an error meanwhile, raises this error soon.
    """
    setup = _Setup(config, context, endpoint, timeout, cancelled, traffic)
    versions = old_brokers.versions_of(endpoint)
    if versions is None:
        try:
            return setup.open()
        except NoVersionsError as error:
            versions = setup.probe(error)
        except _NoAnswerError:
            versions = setup.probe(None)
    try:
        connection = setup.open(versions)
    except BrokerConnectionError:
        old_brokers.forget(endpoint)
        raise
    old_brokers.remember(endpoint, versions)
    return connection


class _Setup:
    """Sets up one connection, in steps that together take at most *timeout* seconds."""

    def __init__(
        self,
        config: ClientConfig,
        context: "ssl.SSLContext | None",
        endpoint: Endpoint,
        timeout: float,
        cancelled: Callable[[], KafkaError | None],
        traffic: Traffic,
    ) -> None:
        self._config = config
        self._context = context
        self._endpoint = endpoint
        self._timeout = timeout
        self._cancelled = cancelled
        self._traffic = traffic
        self._uses_sasl = config.security_protocol.startswith("SASL")
        self._deadline = self._within(timeout)

    def open(self, versions: Versions | None = None) -> Connection:
        """Return a connection that is set up. If *versions* is None, ask the broker for its versions.

        Raises NoVersionsError if the broker closes the connection when it is asked for its versions, and
        _NoAnswerError if it does not answer in time.
        """
        config = self._config
        connection = Connection(
            self._endpoint,
            self._connected(self._deadline),
            client_id=config.client_id,
            request_timeout=config.request_timeout_ms / 1000,
            max_idle=config.connections_max_idle_ms / 1000,
            max_response=config.receive_message_max_bytes,
            traffic=self._traffic,
        )
        try:
            if versions is None:
                versions = self._ask_versions(connection)
            lifetime = (
                _authenticate(connection, config, versions, self._deadline) if self._uses_sasl else None
            )
            protocol = "SASL_PLAINTEXT" if self._context is None else "SASL_SSL"
            hint = "" if self._uses_sasl else _NEEDS_SASL.format(protocol)
            connection.complete_setup(versions, lifetime, hint)
        except BaseException:
            connection.close()
            raise
        log.debug("connected to %s", self._endpoint)
        return connection

    def probe(self, closed: NoVersionsError | None) -> Versions:
        """Find out the versions of a broker that has not named them, and return them.

        *closed* is the error if the broker has closed the connection, or None if it has not answered. Raises
        NoVersionsError if the broker closes further connections, ProtocolError if it is a web server, and
        KafkaTimeoutError if it does not answer. If SASL is used, no versions are probed, because brokers
        before Kafka 0.10 do not support this client's SASL mechanisms.
        """
        # and the messages of all kinds of requests that these brokers support
        from pyklient.net.connection.version_probe import probe_versions

        try:
            if not self._uses_sasl:
                left = self._deadline.remaining()
                time_left = self._within(left - min(left / 2, _LAST_CHECK))
                versions = probe_versions(
                    lambda: self._connected(time_left), self._endpoint, self._config.client_id, time_left
                )
                if versions is None:
                    raise closed or self._no_versions("it closed the connection")
                return versions
        except KafkaTimeoutError:
            pass
        if closed is not None:
            raise closed
        if self._context is None:
            _raise_if_web_server(self._endpoint, self._deadline)
        raise self._expired()

    def _within(self, seconds: float) -> Deadline:
        return Deadline(seconds, self._expired, self._cancelled)

    def _expired(self) -> KafkaError:
        return KafkaTimeoutError(
            f"{self._endpoint} did not accept a connection within {self._timeout:.3g} s; check the address, "
            "the firewall, and that security_protocol fits the listener"
        )

    def _no_versions(self, problem: object) -> NoVersionsError:
        hint = _NEEDS_TLS if self._context is None else _NEEDS_CERTIFICATE
        return NoVersionsError(
            f"{self._endpoint} did not name its API versions ({problem}). Possible causes: it is starting or "
            f"stopping; it is not a Kafka broker; {hint}; it is older than Kafka 0.8.2 (not supported)"
        )

    def _connected(self, deadline: Deadline) -> Transport:
        endpoint = self._endpoint
        sock = connect(
            endpoint,
            deadline,
            send_buffer=self._config.send_buffer_bytes,
            receive_buffer=self._config.receive_buffer_bytes,
        )
        tcp = TcpTransport(sock, str(endpoint))
        if self._context is None:
            return tcp
        from pyklient.net.connection.tls import TlsTransport

        try:
            encrypted = TlsTransport(tcp, str(endpoint), self._context, endpoint.host)
            encrypted.handshake(deadline)
            return encrypted
        except BaseException:
            tcp.close()
            raise

    def _ask_versions(self, connection: Connection) -> Versions:
        left = self._deadline.remaining()
        seconds = left - min(left / 2, _LAST_CHECK) if self._uses_sasl else min(_TIME_TO_ANSWER, left / 3)
        try:
            return _negotiate(connection, self._within(seconds))
        except KafkaTimeoutError as error:
            raise _NoAnswerError from error
        except BrokerConnectionError as error:
            raise self._no_versions(error) from error


def _negotiate(connection: Connection, deadline: Deadline) -> Versions:
    """Return the first and the last version of each request that the broker supports, by API key.

    A broker that does not support this client's version of ApiVersions answers in version 0, and may name the
    versions that it supports (KIP-511).
    """
    version = ApiVersionsRequest.versions[1]
    request = api_versions_request()
    response: ApiVersionsResponse = connection.exchange(request, version, deadline)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        known = [api.max_version for api in response.api_keys if api.api_key == request.api_key]
        version = max(0, min(version - 1, known[0])) if known else 0
        response = connection.exchange(request, version, deadline)
    if response.error_code:
        raise broker_error(response.error_code, f"cannot get the API versions of {connection.endpoint}")
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def _raise_if_web_server(endpoint: Endpoint, deadline: Deadline) -> None:
    """Send an HTTP request to *endpoint*, and raise ProtocolError if the answer is HTTP.

    A web server may leave a Kafka request unanswered, because it waits for the end of a line. A broker reads
    the beginning of an HTTP request as a length that is too large, and closes the connection.
    """
    try:
        tcp = TcpTransport(connect(endpoint, deadline), str(endpoint))
    except KafkaError:
        return
    try:
        tcp.send([b"HEAD / HTTP/1.0\r\n\r\n"], deadline)
        answer = tcp.receive(4, deadline)
    except KafkaError:
        return
    finally:
        tcp.close()
    if bytes(answer) == b"HTTP":
        raise ProtocolError(
            f"{endpoint} answers in HTTP: this is the port of a web server, not of a Kafka broker; "
            "check the port (brokers usually listen on 9092)"
        )


def _authenticate(
    connection: Connection, config: ClientConfig, versions: Versions, deadline: Deadline
) -> float | None:
    """Log in by SASL. Return the seconds after which the connection should be replaced; None if there is no
    limit.

    The number is random, from 80 to 90 % of the session's lifetime (KIP-368). So a connection is
    replaced before the broker ends the session, and not all connections are replaced at once.
    """
    from pyklient.net.connection.sasl import authentication, no_sasl

    if SaslHandshakeRequest.api_key not in versions:
        raise no_sasl(str(connection.endpoint))
    connection.complete_setup(versions, None, "")
    connection.version_of(SaslAuthenticateRequest)
    dialogue = authentication(config, str(connection.endpoint))
    request = next(dialogue)
    try:
        while True:
            # SaslAuthenticate needs version 1 of the handshake (KIP-152).
            wanted = 1 if isinstance(request, SaslHandshakeRequest) else None
            version = connection.version_of(type(request), wanted)
            request = dialogue.send(connection.exchange(request, version, deadline))
    except StopIteration as end:
        lifetime_ms: int = end.value
    except PeerClosedError as error:
        raise BrokerConnectionError(f"the SASL login to {connection.endpoint} failed: {error}") from error
    return lifetime_ms / 1000 * random.uniform(0.80, 0.90) if lifetime_ms > 0 else None
