"""Random messages, each also as the JSON that Kafka's converters read."""

import base64
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from pyklient.protocol.message_fields import Field, Struct, WireType
from pyklient.protocol.schema import ApiMessage
from tests.protocol.definitions import json_name

__all__ = ["random_message"]

_M = TypeVar("_M", bound=ApiMessage)

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_LONG: Final = 200
"""A length that does not fit one byte of a varint."""


def random_message(cls: type[_M], version: int, random: Random) -> tuple[_M, dict[str, Any]]:
    """Return a message in which every field that *version* carries is random, and its JSON."""
    message, data = _random_struct(cls, version, random)
    assert isinstance(message, cls)
    return message, data


def _random_struct(cls: type[Struct], version: int, random: Random) -> tuple[Any, dict[str, Any]]:
    values: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for field in cls.declared:
        if field.in_version(version):
            name = json_name(field.name)
            value, data[name[0].lower() + name[1:]] = _random_field(field, version, random)
            values[field.name] = value
    return cls(**values), data


def _random_field(field: Field, version: int, random: Random) -> tuple[Any, Any]:
    if field.nullable_in(version) and random.random() < 0.2:
        return None, None
    if field.tag is not None and random.random() < 0.3:
        field_default = field.make_default()
        if isinstance(field_default, int | list) and not field_default:
            return field_default, field_default
    if not field.is_array:
        return _random_item(field.kind, version, random)
    if isinstance(field.kind, WireType):
        length = random.choice((0, 1, 3)) if random.random() < 0.98 else _LONG
    else:
        length = random.choice((0, 1, 1, 2))
    items = [_random_item(field.kind, version, random) for _ in range(length)]
    return [value for value, _ in items], [data for _, data in items]


def _random_item(kind: WireType | type[Struct], version: int, random: Random) -> tuple[Any, Any]:
    if isinstance(kind, type):
        return _random_struct(kind, version, random)
    if kind.name in _BITS:
        number = _random_number(_BITS[kind.name], random)
        return number, number
    return _MAKERS[kind.name](random)


def _random_number(bits: int, random: Random) -> int:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return random.choice((0, 1, -1, least, most, random.randint(least, most)))


def _random_text(random: Random) -> tuple[str, str]:
    length = random.choice((0, 1, 7)) if random.random() < 0.98 else _LONG
    text = "".join(random.choices('abc.-_09 é日𝄞\n"\\', k=length))
    return text, text


def _random_bytes(random: Random) -> tuple[bytes, str]:
    length = random.choice((0, 1, 20)) if random.random() < 0.98 else _LONG
    data = random.randbytes(length)
    return data, base64.b64encode(data).decode()


def _random_uuid(random: Random) -> tuple[bytes, str]:
    data = random.choice((bytes(16), random.randbytes(16)))
    return data, base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _random_boolean(random: Random) -> tuple[bool, bool]:
    value = random.random() < 0.5
    return value, value


_MAKERS: Final[dict[str, Callable[[Random], tuple[Any, Any]]]] = {
    "string": _random_text,
    "bytes": _random_bytes,
    "records": _random_bytes,
    "uuid": _random_uuid,
    "bool": _random_boolean,
}
