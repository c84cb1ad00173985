"""Who we are and whom we trust: the TLS context and the SASL dialogue, from the options of a client."""

import ssl
from collections.abc import Callable, Generator
from typing import Any

from pyklient.config import ClientConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import AuthenticationError, ConfigurationError, broker_error
from pyklient.net.scram import ScramClient
from pyklient.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pyklient.protocol.schema import ApiMessage

__all__ = ["authentication", "tls_context"]


def tls_context(config: ClientConfig) -> ssl.SSLContext | None:
    """The TLS context that *config* asks for; None without TLS. Raises ConfigurationError for files that
    are missing or not what they should be."""
    if config.security_protocol not in ("SSL", "SASL_SSL"):
        return None
    if config.ssl_context is not None:
        return config.ssl_context
    trusted = config.ssl_truststore_location
    context = ssl.create_default_context() if trusted is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION  # the reader of a TlsTransport never sends
    if trusted is not None:
        _load("ssl_truststore_location", trusted, lambda: context.load_verify_locations(trusted))
    if config.ssl_keystore_location is not None:
        own = config.ssl_keystore_location
        # An empty password is an error with an encrypted key; none would ask on the terminal.
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
            "and a protected key needs ssl_key_password"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{option}={path!r} cannot be read: {error.strerror}") from error


def authentication(config: ClientConfig, peer: str) -> Generator[ApiMessage, Any, int]:
    """The SASL dialogue with *peer*: yields requests, takes their responses, and returns the session's
    lifetime in milliseconds, 0 for no limit (KIP-368). Raises AuthenticationError."""
    mechanism = config.sasl_mechanism
    offer: SaslHandshakeResponse = yield SaslHandshakeRequest(mechanism=mechanism)
    if offer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"{peer} does not offer sasl_mechanism {mechanism}, but: {', '.join(offer.mechanisms) or 'none'}"
        )
    if offer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationError(
            f"{peer} does not use SASL on this listener; set security_protocol to PLAINTEXT or SSL, "
            "or use the port of its SASL listener"
        )
    if offer.error_code:
        raise broker_error(offer.error_code, f"SASL handshake with {peer}")
    username, password = config.sasl_username or "", config.sasl_password or ""
    if mechanism == "PLAIN":
        steps = _plain(username, password)
    else:
        steps = _scram(ScramClient(mechanism, username, password))
    try:
        return (yield from steps)
    except AuthenticationError as error:
        raise AuthenticationError(f"logging {username!r} in to {peer} by {mechanism}: {error}") from error


def _plain(username: str, password: str) -> Generator[ApiMessage, Any, int]:
    """RFC 4616."""
    if "\0" in username or "\0" in password:
        raise ConfigurationError("sasl_username and sasl_password must not hold a NUL character with PLAIN")
    answer = yield SaslAuthenticateRequest(auth_bytes=f"\0{username}\0{password}".encode())
    return _accepted(answer).session_lifetime_ms


def _scram(exchange: ScramClient) -> Generator[ApiMessage, Any, int]:
    answer = yield SaslAuthenticateRequest(auth_bytes=exchange.first())
    proof = exchange.final(bytes(_accepted(answer).auth_bytes))
    answer = yield SaslAuthenticateRequest(auth_bytes=proof)
    accepted = _accepted(answer)
    exchange.verify(bytes(accepted.auth_bytes))
    return accepted.session_lifetime_ms


def _accepted(answer: SaslAuthenticateResponse) -> SaslAuthenticateResponse:
    if answer.error_code:
        said = answer.error_message or "no reason given"
        raise AuthenticationError(f"refused ({said}); check sasl_username, sasl_password and sasl_mechanism")
    return answer
