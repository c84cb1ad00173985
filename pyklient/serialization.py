"""Encoders and decoders. An encoder turns a value into bytes for a record, and a decoder turns such bytes
into a value.

An Encoder is a function ``(value) -> bytes | None``, or an object whose method ``encode`` is such a function.
A Decoder is a function ``(bytes | None) -> value``, or an object whose method ``decode`` is such a function.
This module has encoders and decoders for text and JSON.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
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
    """An encoder that is an object with a method ``encode``, instead of a function."""

    def encode(self, value: Any, /) -> bytes | None: ...


@runtime_checkable
class HasDecode(Protocol):
    """A decoder that is an object with a method ``decode``, instead of a function."""

    def decode(self, data: bytes | None, /) -> Any: ...


Encoder: TypeAlias = Callable[[Any], bytes | None] | HasEncode
Decoder: TypeAlias = Callable[[bytes | None], Any] | HasDecode


def as_encoder(encoder: Encoder | None, option: str = "encoder") -> Callable[[Any], bytes | None] | None:
    """Return *encoder* as a function, or None if it is None.

    Raises ConfigurationError if *encoder* is neither a function nor an object with a method ``encode``. The
    error names *option*, the option that *encoder* was given for.
    """
    if encoder is None:
        return None
    # str has a method encode() too, but is not an encoder.
    if not isinstance(encoder, type | str) and isinstance(encoder, HasEncode):
        return encoder.encode
    if callable(encoder):
        return encoder
    raise ConfigurationError(
        f"{option}={encoder!r} is not an encoder: pass a function (value) -> bytes | None, such as "
        "pyklient.serialization.encode_text, or an object with a method encode() that does the same"
    )


def as_decoder(decoder: Decoder | None, option: str = "decoder") -> Callable[[bytes | None], Any] | None:
    """Return *decoder* as a function, or None if it is None.

    Raises ConfigurationError if *decoder* is neither a function nor an object with a method ``decode``. The
    error names *option*, the option that *decoder* was given for.
    """
    if decoder is None:
        return None
    # bytes has a method decode() too, but is not a decoder.
    if not isinstance(decoder, type | bytes | bytearray) and isinstance(decoder, HasDecode):
        return decoder.decode
    if callable(decoder):
        return decoder
    raise ConfigurationError(
        f"{option}={decoder!r} is not a decoder: pass a function (bytes | None) -> value, such as "
        "pyklient.serialization.decode_text, or an object with a method decode() that does the same"
    )


def encode_text(value: str | None) -> bytes | None:
    """Return *value* encoded as UTF-8. None, the value of a tombstone, stays None."""
    try:
        return None if value is None else value.encode()
    except AttributeError:
        raise TypeError(f"encode_text takes a str or None, not {type(value).__name__}") from None


def decode_text(data: bytes | None) -> str | None:
    """Return *data* decoded from UTF-8. None, the value of a tombstone, stays None."""
    return None if data is None else data.decode()


def encode_json(value: Any) -> bytes:
    """Return *value* as compact JSON in UTF-8. None becomes ``null``, which is not a tombstone.

    The result is that of ``json.dumps``. ``msgspec.json.Encoder()`` is a faster encoder, but it writes NaN as
    ``null``, and some numbers in another way. It also writes dates, for which ``json.dumps`` raises an error.
    """
    return _json_encoder()(value).encode()


@cache
def _json_encoder() -> Callable[[Any], str]:
    """Return the method ``encode`` of a JSON encoder. ``json.dumps`` with options would make a new encoder in
    each call."""
    import json  # Most clients do not need it, and its import takes time.

    return json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def decode_json(data: bytes | None) -> Any:
    """Return the value that the JSON text in *data* describes. None, the value of a tombstone, stays None.

    With the extra ``json``, msgspec decodes it, which is faster and has the same result.
    """
    if data is None:
        return None
    try:
        return _json_decoder()(data)
    except ValueError:
        pass  # json.loads accepts more than msgspec, such as NaN and UTF-16, and has its own errors
    import json

    return json.loads(data)


@cache
def _json_decoder() -> Callable[[bytes], Any]:
    """Return msgspec's decoder if it is installed, and else ``json.loads``.

    The values that msgspec returns are those of ``json.loads``. orjson is as fast, but decodes integers of
    more than 64 bits to floats.
    """
    import json

    try:
        decode: Callable[[bytes], Any] = import_module("msgspec.json").Decoder().decode
    except ImportError:
        return json.loads
    return decode
