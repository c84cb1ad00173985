"""SASL against a broker that checks the login: who is accepted, who is not, and the text of each error."""

import base64
import hashlib
import hmac
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pyklient.errors import AuthenticationError, ConfigurationError, UnsupportedVersionError
from pyklient.net.connection_pool import Purpose
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import (
    REQUESTS,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.net.scripted import ScriptedBroker, config_for

_USER, _PASSWORD = "alice", "correct,horse=battery"
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SALT = b"salt of the earth"


class SaslBroker(ScriptedBroker):
    """A broker that knows one user. *lies* makes its SCRAM signature wrong; *lifetime_ms* is the lifetime of
    its sessions."""

    def __init__(self, *mechanisms: str, lies: bool = False, lifetime_ms: int = 0) -> None:
        super().__init__()
        self._mechanisms = list(mechanisms or ("PLAIN", *_HASHES))
        self._lies = lies
        self._lifetime_ms = lifetime_ms
        self._mechanism = ""
        self._transcript: list[str] = []
        self.on(SaslHandshakeRequest, self._handshake)
        self.on(SaslAuthenticateRequest, self._authenticate)

    def _handshake(self, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        self._mechanism = request.mechanism
        self._transcript = []
        known = request.mechanism in self._mechanisms
        return SaslHandshakeResponse(error_code=0 if known else 33, mechanisms=self._mechanisms)

    def _authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        text = request.auth_bytes.decode()
        if self._mechanism == "PLAIN":
            return self._verdict(text == f"\0{_USER}\0{_PASSWORD}")
        if not self._transcript:
            bare = text.removeprefix("n,,")
            nonce = bare.partition(",r=")[2]
            first = f"r={nonce}server,s={base64.b64encode(_SALT).decode()},i=4096"
            self._transcript = [bare, first]
            return SaslAuthenticateResponse(auth_bytes=first.encode())
        return self._check_proof(text)

    def _check_proof(self, text: str) -> SaslAuthenticateResponse:
        digest = _HASHES[self._mechanism]
        without_proof, _, proof = text.partition(",p=")
        transcript = ",".join([*self._transcript, without_proof]).encode()
        salted = hashlib.pbkdf2_hmac(digest, _PASSWORD.encode(), _SALT, 4096)
        stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
        signature = hmac.digest(stored, transcript, digest)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key" if not self._lies else b"?", digest)
        verifier = base64.b64encode(hmac.digest(server_key, transcript, digest))
        return self._verdict(hashlib.new(digest, key).digest() == stored, b"v=" + verifier)

    def _verdict(self, right: bool, last: bytes = b"") -> SaslAuthenticateResponse:
        if not right:
            return SaslAuthenticateResponse(error_code=58, error_message="Authentication failed")
        return SaslAuthenticateResponse(auth_bytes=last, session_lifetime_ms=self._lifetime_ms)


def client_of(broker: ScriptedBroker, mechanism: str, **options: Any) -> NetworkClient:
    chosen = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": _USER,
        "sasl_password": _PASSWORD,
        **options,
    }
    return NetworkClient(config_for(broker, **chosen))


def connect(broker: ScriptedBroker, mechanism: str, **options: Any) -> None:
    client = client_of(broker, mechanism, **options)
    try:
        client.refresh_metadata((), 20)
    finally:
        client.close()


@pytest.fixture
def broker() -> Iterator[SaslBroker]:
    with SaslBroker() as broker:
        yield broker


@pytest.mark.parametrize("mechanism", ["PLAIN", *_HASHES])
def test_a_known_user_is_let_in(broker: SaslBroker, mechanism: str) -> None:
    connect(broker, mechanism)
    kinds = [type(message) for message in broker.requests]
    assert kinds[0] is SaslHandshakeRequest
    assert kinds[-1] is MetadataRequest, "nothing else is sent before the dialogue is over"
    assert broker.count(SaslAuthenticateRequest) == (1 if mechanism == "PLAIN" else 2)


@pytest.mark.parametrize("mechanism", ["PLAIN", *_HASHES])
def test_a_wrong_password_is_an_error_that_names_the_user_and_not_the_password(
    broker: SaslBroker, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyklient")
    with pytest.raises(
        AuthenticationError, match=f"{broker.address} as 'alice' by {mechanism}: the broker refused"
    ) as caught:
        connect(broker, mechanism, sasl_password="tr0ub4dor")
    assert "'alice'" in str(caught.value)
    assert "check sasl_username, sasl_password" in str(caught.value)
    assert "tr0ub4dor" not in str(caught.value) + caplog.text
    assert broker.count(MetadataRequest) == 0
    assert broker.count(SaslHandshakeRequest) == 1, "asking again with the same password is no use"


def test_a_server_that_does_not_know_the_password_is_not_trusted() -> None:
    with SaslBroker(lies=True) as broker:
        with pytest.raises(
            AuthenticationError,
            match=f"{broker.address} as 'alice' by SCRAM-SHA-256: .*the SCRAM server sent a wrong signature",
        ):
            connect(broker, "SCRAM-SHA-256")
        assert broker.count(MetadataRequest) == 0


def test_an_unsupported_mechanism_is_answered_with_those_on_offer() -> None:
    with (
        SaslBroker("SCRAM-SHA-512", "GSSAPI") as broker,
        pytest.raises(
            AuthenticationError, match=r"does not support .* PLAIN; it supports SCRAM-SHA-512, GSSAPI"
        ),
    ):
        connect(broker, "PLAIN")


def test_sasl_to_a_listener_without_it_says_so(broker: SaslBroker) -> None:
    broker.on(SaslHandshakeRequest, lambda request: SaslHandshakeResponse(error_code=34))
    with pytest.raises(AuthenticationError, match="does not use SASL on this listener"):
        connect(broker, "PLAIN")
    versions = {key: request.versions for key, request in REQUESTS.items()}
    for without in (SaslHandshakeRequest, SaslAuthenticateRequest):
        del versions[without.api_key]
    with (
        ScriptedBroker(versions=versions) as no_sasl,
        pytest.raises(AuthenticationError, match="does not use SASL on this listener"),
    ):
        connect(no_sasl, "PLAIN")


def test_a_broker_that_takes_only_raw_tokens_is_too_old() -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()}
    del versions[SaslAuthenticateRequest.api_key]
    with (
        ScriptedBroker(versions=versions) as broker,
        pytest.raises(UnsupportedVersionError, match=r"supports no version of SaslAuthenticate"),
    ):
        connect(broker, "PLAIN")


def test_a_nul_in_a_plain_password_is_refused_before_it_is_sent(broker: SaslBroker) -> None:
    with pytest.raises(ConfigurationError, match="NUL"):
        connect(broker, "PLAIN", sasl_password="a\0b")
    assert broker.count(SaslAuthenticateRequest) == 0


def test_a_session_is_replaced_before_the_broker_ends_it() -> None:
    with SaslBroker(lifetime_ms=1_000) as broker:
        client = client_of(broker, "SCRAM-SHA-256")
        client.refresh_metadata((), 20)
        first = client.connection(1, Purpose.OTHER, 20)
        assert not first.expired
        while not first.expired:
            client.pause(0.01)
        second = client.connection(1, Purpose.OTHER, 20)
        second.ask(MetadataRequest(topics=[]), 20)
        assert second is not first
        assert not first.alive
        client.close()
