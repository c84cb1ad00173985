"""From an endpoint to a connection that can be used: connect, TLS, versions, SASL.

Most things that are wrong with a configuration show here first, so each step says what the failure means.
"""

import logging
import random
import ssl
from collections.abc import Callable

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
from pyklient.net.connection import Connection
from pyklient.net.security import authentication
from pyklient.net.tls import TlsTransport
from pyklient.net.transport import Deadline, Endpoint, PeerClosedError, TcpTransport, Transport, connect
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from pyklient.version import VERSION

__all__ = ["NoVersionsError", "open_connection"]

log = logging.getLogger("pyklient.net")

_SOFTWARE_NAME = "pyklient"
_SOFTWARE_VERSION = VERSION.replace("+", "-")  # brokers refuse a plus (KIP-511)
_PROBE_TIME = 0.5
_WANTS_TLS = "its listener wants TLS (set security_protocol to SSL or SASL_SSL)"
_WANTS_CERTIFICATE = "it wants another certificate of this client (see ssl_keystore_location)"
_WANTS_SASL = (
    "; if its listener wants SASL, set security_protocol to {}, and sasl_mechanism, sasl_username and "
    "sasl_password"
)


class NoVersionsError(BrokerConnectionError, UnsupportedVersionError):
    """The broker hung up instead of naming its versions. It may pass, so it is retriable; if it does not,
    the broker is too old."""


def open_connection(
    config: ClientConfig,
    context: ssl.SSLContext | None,
    endpoint: Endpoint,
    timeout: float,
    cancelled: Callable[[], KafkaError | None],
) -> Connection:
    """A connection to *endpoint*, authenticated, its versions known. Takes *timeout* seconds at most.

    Raises BrokerConnectionError, AuthenticationError, ProtocolError or UnsupportedVersionError; and what
    *cancelled* returns, soon after it does.
    """

    def expired() -> KafkaError:
        return KafkaTimeoutError(
            f"{endpoint} took longer than {timeout:.3g} s to accept a connection; is the address right, "
            "does a firewall let it through, is security_protocol that of the listener?"
        )

    deadline = Deadline(timeout, expired, cancelled)
    transport = _connected(config, context, endpoint, deadline)
    connection = Connection(
        endpoint,
        transport,
        client_id=config.client_id,
        request_timeout=config.request_timeout_ms / 1000,
        max_idle=config.connections_max_idle_ms / 1000,
        max_response=config.receive_message_max_bytes,
    )
    try:
        left = deadline.remaining()
        try:
            patience = Deadline(left - min(left / 2, _PROBE_TIME), expired, cancelled)
            versions = _negotiate(connection, patience, _WANTS_TLS if context is None else _WANTS_CERTIFICATE)
        except KafkaTimeoutError:
            if context is None:
                _raise_if_web_server(endpoint, deadline)
            raise
        uses_sasl = config.security_protocol.startswith("SASL")
        lifetime = _authenticate(connection, config, versions, deadline) if uses_sasl else None
        wants = "SASL_PLAINTEXT" if context is None else "SASL_SSL"
        connection.settle(versions, lifetime, "" if uses_sasl else _WANTS_SASL.format(wants))
    except BaseException:
        connection.close()
        raise
    log.debug("connected to %s", endpoint)
    return connection


def _connected(
    config: ClientConfig, context: ssl.SSLContext | None, endpoint: Endpoint, deadline: Deadline
) -> Transport:
    sock = connect(
        endpoint,
        deadline,
        send_buffer=config.send_buffer_bytes,
        receive_buffer=config.receive_buffer_bytes,
    )
    tcp = TcpTransport(sock, str(endpoint))
    if context is None:
        return tcp
    try:
        encrypted = TlsTransport(tcp, str(endpoint), context, endpoint.host)
        encrypted.handshake(deadline)
        return encrypted
    except BaseException:
        tcp.close()
        raise


def _negotiate(connection: Connection, deadline: Deadline, hint: str) -> dict[int, tuple[int, int]]:
    """The broker's versions by API key. A broker that does not know our version of the question says
    which it knows (KIP-511), or answers in version 0. *hint* goes into the error if it hangs up."""
    version = ApiVersionsRequest.versions[1]
    request = ApiVersionsRequest(
        client_software_name=_SOFTWARE_NAME, client_software_version=_SOFTWARE_VERSION
    )
    try:
        response: ApiVersionsResponse = connection.exchange(request, version, deadline)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = [api.max_version for api in response.api_keys if api.api_key == request.api_key]
            version = max(0, min(version - 1, known[0])) if known else 0
            response = connection.exchange(request, version, deadline)
    except BrokerConnectionError as error:
        raise NoVersionsError(
            f"{error}, when asked for its versions: it is just starting or stopping, or it is not a Kafka "
            f"broker, or {hint}, or it is older than 0.10, which this client does not support"
        ) from error
    if response.error_code:
        raise broker_error(response.error_code, f"asking {connection.endpoint} for its versions")
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def _raise_if_web_server(endpoint: Endpoint, deadline: Deadline) -> None:
    """A web server may wait in silence for the end of what it takes for a line. One short question in its
    own language tells; a broker takes it for a length that is too large, and hangs up."""
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
            f"{endpoint} answers in HTTP: this is a web server's port, not a Kafka broker's; "
            "check the port (brokers usually listen on 9092)"
        )


def _authenticate(
    connection: Connection, config: ClientConfig, versions: dict[int, tuple[int, int]], deadline: Deadline
) -> float | None:
    """Plays the SASL dialogue. Returns the seconds after which the connection should be replaced: some way
    before the broker would end the session (KIP-368), and not the same for all connections."""
    connection.settle(versions, None, "")
    connection.version_of(SaslAuthenticateRequest)
    dialogue = authentication(config, str(connection.endpoint))
    request = next(dialogue)
    try:
        while True:
            # Version 1 of the handshake is what leads to SaslAuthenticate (KIP-152).
            wanted = 1 if isinstance(request, SaslHandshakeRequest) else None
            version = connection.version_of(type(request), wanted)
            request = dialogue.send(connection.exchange(request, version, deadline))
    except StopIteration as end:
        lifetime_ms: int = end.value
    except PeerClosedError as error:
        raise BrokerConnectionError(f"{error} in the middle of the SASL dialogue") from error
    return lifetime_ms / 1000 * random.uniform(0.80, 0.90) if lifetime_ms > 0 else None
