"""SCRAM against published exchanges and against servers that misbehave (RFC 5802, RFC 7677)."""

import base64
import hashlib
import hmac

import pytest

from pyklient.errors import AuthenticationError
from pyklient.net.connection.scram import ScramClient

_NONCE = "rOprNGfwEbeRWgbNEkqO"
_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def exchange() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", nonce=_NONCE)


def test_the_exchange_of_rfc_7677_is_reproduced() -> None:
    client = exchange()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(_SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_sha_512_proves_the_password_to_a_server_that_knows_it() -> None:
    client = ScramClient("SCRAM-SHA-512", "user", "pencil", nonce="abc")
    first = b"r=abcdef,s=" + base64.b64encode(b"salt") + b",i=4096"
    final = client.final(first)
    without_proof, _, proof = final.rpartition(b",p=")
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 4096)
    key = hmac.digest(salted, b"Client Key", "sha512")
    transcript = b"n=user,r=abc," + first + b"," + without_proof
    signature = hmac.digest(hashlib.sha512(key).digest(), transcript, "sha512")
    assert bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) == key
    server_key = hmac.digest(salted, b"Server Key", "sha512")
    client.verify(b"v=" + base64.b64encode(hmac.digest(server_key, transcript, "sha512")))


def test_commas_and_equals_signs_in_a_user_name_are_escaped() -> None:
    client = ScramClient("SCRAM-SHA-256", "a=b,c", "secret", nonce="n")
    assert client.first() == b"n,,n=a=3Db=2Cc,r=n"


def test_two_exchanges_do_not_share_a_nonce() -> None:
    firsts = {ScramClient("SCRAM-SHA-256", "user", "pencil").first() for _ in range(20)}
    assert len(firsts) == 20


@pytest.mark.parametrize("signature", [b"", b"v=", b"v=" + base64.b64encode(bytes(32)), b"v=!!"])
def test_a_server_that_does_not_know_the_password_is_refused(signature: bytes) -> None:
    client = exchange()
    client.final(_SERVER_FIRST)
    with pytest.raises(AuthenticationError):
        client.verify(signature)


def test_a_signature_before_any_proof_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="the SCRAM server sent a wrong signature"):
        exchange().verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_an_error_of_the_server_is_passed_on() -> None:
    client = exchange()
    client.final(_SERVER_FIRST)
    with pytest.raises(AuthenticationError, match="invalid-proof"):
        client.verify(b"e=invalid-proof")


@pytest.mark.parametrize(
    ("server_first", "complaint"),
    [
        (b"r=somebodyelse,s=W22Z,i=4096", "nonce"),
        (f"r={_NONCE},s=W22Z,i=4096".encode(), "nonce"),
        (b"s=W22Z,i=4096", "nonce"),
        (f"r={_NONCE}x,s=W22Z,i=4095".encode(), "'4095' iterations"),
        (f"r={_NONCE}x,s=W22Z,i=1000001".encode(), "'1000001' iterations"),
        (f"r={_NONCE}x,s=W22Z,i={'9' * 5000}".encode(), "iterations"),
        (f"r={_NONCE}x,s=W22Z,i=-4096".encode(), "iterations"),
        (f"r={_NONCE}x,s=W22Z".encode(), "iterations"),
        (f"r={_NONCE}x,s=,i=4096".encode(), "salt"),
        (f"r={_NONCE}x,s=%%%,i=4096".encode(), "malformed"),
        (f"m=what,r={_NONCE}x,s=W22Z,i=4096".encode(), "extension"),
        (b"\xff\xfe", "not text"),
        (b"", "nonce"),
    ],
)
def test_a_server_that_breaks_the_rules_is_refused(server_first: bytes, complaint: str) -> None:
    with pytest.raises(AuthenticationError, match=complaint):
        exchange().final(server_first)
