"""SCRAM (RFC 5802): the client and the server prove to each other that they know a password, without sending
it.

This module does no I/O. Like Kafka's servers, it does not normalize user names and passwords by SASLprep, and
uses no channel binding.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

from pyklient.errors import AuthenticationError

__all__ = ["ScramClient"]

_GS2_HEADER = "n,,"  # no channel binding, no other identity
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_MIN_ITERATIONS = 4096  # RFC 7677, 4: with fewer, passwords are found fast in a recorded exchange
_MAX_ITERATIONS = 1_000_000  # about a second of work; a server must not be able to cause more


class ScramClient:
    """One SCRAM login. Call ``first()``, ``final(answer)`` and ``verify(answer)`` in this order.

    All methods raise AuthenticationError if the server's answer is wrong. Tests set *nonce*, so that
    they can replay the example logins in the RFCs.
    """

    def __init__(self, mechanism: str, username: str, password: str, *, nonce: str | None = None) -> None:
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._first_bare = f"n={_escaped(username)},r={self._nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message that the client sends."""
        return (_GS2_HEADER + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the client's second message, which proves that the client knows the password.

        *server_first* is the answer to the first message. It has the server's nonce, salt and iteration
        count.
        """
        attributes = _attributes(server_first)
        nonce = attributes.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationError("the SCRAM server sent a nonce that does not belong to this login")
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, _base64(attributes.get("s", "")), _iterations(attributes.get("i", ""))
        )
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        transcript = b",".join((self._first_bare.encode(), server_first, without_proof.encode()))
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), transcript)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), transcript)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise AuthenticationError unless *server_final*, the server's last answer, proves that the server
        knows the password too."""
        attributes = _attributes(server_final)
        if "e" in attributes:
            raise AuthenticationError(
                f"the SCRAM server does not accept the user or the password (it says: {attributes['e']})"
            )
        signature = _base64(attributes.get("v", ""))
        if not self._server_signature or not hmac.compare_digest(signature, self._server_signature):
            raise AuthenticationError(
                "the SCRAM server sent a wrong signature, so it does not know the password; "
                "check that this is the right server"
            )

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _attributes(message: bytes) -> dict[str, str]:
    """Return the attributes of a SCRAM message, ``r=…,s=…``, as a dict.

    Raises AuthenticationError if the message has a mandatory extension (``m=``), as RFC 5802, 5.1 requires.
    """
    try:
        pairs = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError as error:
        raise AuthenticationError("the SCRAM server's message is not text") from error
    attributes = {name: value for name, _, value in pairs}
    if "m" in attributes:
        raise AuthenticationError("the SCRAM server requires an extension that this client does not support")
    return attributes


def _base64(text: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationError("the SCRAM server's message is malformed") from error
    if not decoded:
        raise AuthenticationError("the SCRAM server's message has an empty salt or signature")
    return decoded


def _iterations(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not _MIN_ITERATIONS <= count <= _MAX_ITERATIONS:
        raise AuthenticationError(
            f"the SCRAM server asks for {text[:20]!r} iterations; "
            f"this client accepts {_MIN_ITERATIONS} to {_MAX_ITERATIONS}"
        )
    return count
