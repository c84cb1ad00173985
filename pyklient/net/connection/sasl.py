"""Logs in to a broker by SASL, with the mechanism PLAIN or SCRAM."""

from collections.abc import Generator
from typing import Any

from pyklient.config import ClientConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import AuthenticationError, ConfigurationError, broker_error
from pyklient.net.connection.scram import ScramClient
from pyklient.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pyklient.protocol.schema import ApiMessage

__all__ = ["authentication", "no_sasl"]


def authentication(config: ClientConfig, peer: str) -> Generator[ApiMessage, Any, int]:
    """Log in to *peer* by SASL. This generator yields each request and is resumed with its response.

    Returns the lifetime of the session in milliseconds; 0 means no limit (KIP-368). Raises
    AuthenticationError.
    """
    mechanism = config.sasl_mechanism
    offer: SaslHandshakeResponse = yield SaslHandshakeRequest(mechanism=mechanism)
    if offer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"{peer} does not support sasl_mechanism {mechanism}; it supports "
            f"{', '.join(offer.mechanisms) or 'none'}"
        )
    if offer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise no_sasl(peer)
    if offer.error_code:
        raise broker_error(offer.error_code, f"the SASL handshake with {peer} failed")
    username, password = config.sasl_username or "", config.sasl_password or ""
    if mechanism == "PLAIN":
        steps = _plain(username, password)
    else:
        steps = _scram(ScramClient(mechanism, username, password))
    try:
        return (yield from steps)
    except AuthenticationError as error:
        raise AuthenticationError(
            f"cannot log in to {peer} as {username!r} by {mechanism}: {error}"
        ) from error


def no_sasl(peer: str) -> AuthenticationError:
    """Return the error for a broker *peer* that does not use SASL."""
    return AuthenticationError(
        f"{peer} does not use SASL on this listener; set security_protocol to PLAINTEXT or SSL, "
        "or use the port of its SASL listener"
    )


def _plain(username: str, password: str) -> Generator[ApiMessage, Any, int]:
    """Log in by the mechanism PLAIN (RFC 4616), which sends the password."""
    if "\0" in username or "\0" in password:
        raise ConfigurationError(
            "sasl_username and sasl_password must not contain a NUL character if sasl_mechanism is PLAIN"
        )
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
        raise AuthenticationError(
            f"the broker refused the login ({said}); check sasl_username, sasl_password and sasl_mechanism"
        )
    return answer
