"""Turning the user's values into record bytes and back.

An Encoder is any ``(value) -> bytes | None`` callable, or an object with such an ``encode`` method; a
Decoder is the reverse. The ones here are the common cases.
"""

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pyklient.errors import ConfigurationError

__all__ = [
    "Decoder",
    "Encoder",
    "as_decoder",
    "as_encoder",
    "decode_json",
    "decode_text",
    "encode_json",
    "encode_text",
]


@runtime_checkable
class HasEncode(Protocol):
    """An encoder written as an object."""

    def encode(self, value: Any, /) -> bytes | None: ...


@runtime_checkable
class HasDecode(Protocol):
    """A decoder written as an object."""

    def decode(self, data: bytes | None, /) -> Any: ...


Encoder: TypeAlias = Callable[[Any], bytes | None] | HasEncode
Decoder: TypeAlias = Callable[[bytes | None], Any] | HasDecode


def as_encoder(encoder: Encoder | None, option: str = "encoder") -> Callable[[Any], bytes | None] | None:
    """The encoder as a plain function; None stays None.

    Raises ConfigurationError for anything else, which names the *option* it was given as.
    """
    if encoder is None:
        return None
    # Text has an encode() of its own, which is not meant.
    if not isinstance(encoder, type | str) and isinstance(encoder, HasEncode):
        return encoder.encode
    if callable(encoder):
        return encoder
    raise ConfigurationError(
        f"{option}={encoder!r} is not an encoder: pass a function (value) -> bytes | None, such as "
        "pyklient.serialization.encode_text, or an object with such an encode()"
    )


def as_decoder(decoder: Decoder | None, option: str = "decoder") -> Callable[[bytes | None], Any] | None:
    """The decoder as a plain function; None stays None.

    Raises ConfigurationError for anything else, which names the *option* it was given as.
    """
    if decoder is None:
        return None
    # Bytes have a decode() of their own, which is not meant.
    if not isinstance(decoder, type | bytes | bytearray) and isinstance(decoder, HasDecode):
        return decoder.decode
    if callable(decoder):
        return decoder
    raise ConfigurationError(
        f"{option}={decoder!r} is not a decoder: pass a function (bytes | None) -> value, such as "
        "pyklient.serialization.decode_text, or an object with such a decode()"
    )


def encode_text(value: str | None) -> bytes | None:
    """UTF-8; None stays None (a tombstone)."""
    return None if value is None else value.encode()


def decode_text(data: bytes | None) -> str | None:
    """UTF-8; None stays None."""
    return None if data is None else data.decode()


def encode_json(value: Any) -> bytes:
    """Compact JSON as UTF-8. ``None`` becomes ``null``, not a tombstone."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes | None) -> Any:
    """The JSON value; None (a tombstone) stays None."""
    return None if data is None else json.loads(data)
