"""Encodes structures field by field, without generated code.

This module makes the same bytes, and raises the same errors, as the functions of
:mod:`pyklient.protocol.encoder_generation`. It is slower. However, in the time that it takes to generate one
function, this module encodes twenty to a hundred small requests. So it encodes the first requests of each
kind. It also encodes tagged fields that do not have their defaults, because such fields are rarely sent.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from pyklient.errors import UnsupportedVersionError
from pyklient.protocol.message_fields import Field, Struct, WireType, layout_of
from pyklient.protocol.primitives import Writer, encode_unsigned_varint, total_size

__all__ = [
    "LONGEST_CLASSIC_STRING",
    "Encode",
    "first_encoder",
    "reject_absent",
    "reject_early_null",
    "reject_null",
    "reject_string",
    "reject_uuid",
    "write_field",
    "write_tagged",
]

Encode: TypeAlias = Callable[[Writer, Any], None]

LONGEST_CLASSIC_STRING: Final = 0x7FFF

_BUFFERS: Final = (bytes, bytearray, memoryview)


def first_encoder(cls: type[Struct], version: int, flexible: bool) -> Encode:
    """Return an encoder of *cls* in *version* that is not generated. If *flexible* is true, lengths are
    compact and there are tagged fields."""
    return lambda writer, value: _write_struct(writer, cls, value, version, flexible)


def _write_struct(writer: Writer, cls: type[Struct], value: Any, version: int, flexible: bool) -> None:
    layout = layout_of(cls, version)
    for field in layout.sent:
        if (number := field.number) is not None:
            writer.buf += number.pack(getattr(value, field.name))
        else:
            write_field(writer, field, getattr(value, field.name), version, flexible)
    if flexible:
        write_tagged(writer, value, cls, version)
    for field in layout.absent:
        if not field.ignorable and getattr(value, field.name) != field.make_default():
            reject_absent(cls, field.name, value, version)


def write_field(writer: Writer, field: Field, value: Any, version: int, flexible: bool) -> None:
    """Write *value*, the value of *field*, in *version*. If *flexible* is true, lengths are compact."""
    nullable = field.nullable_in(version)
    compact = flexible and field.compact
    if value is None and not nullable and field.nullable_since is not None:
        reject_early_null(field.name, version)
    if not field.is_array:
        _write_item(writer, field.kind, value, version, flexible, compact, nullable)
        return
    if value is None:
        _write_null(writer, compact, True, nullable)
        return
    _write_length(writer, len(value), compact, wide=True)
    if field.format:
        writer.buf += struct.pack(f">{len(value)}{field.format}", *value)
        return
    for item in value:
        _write_item(writer, field.kind, item, version, flexible, compact, False)


def _write_item(
    writer: Writer,
    kind: WireType | type[Struct],
    value: Any,
    version: int,
    flexible: bool,
    compact: bool,
    nullable: bool,
) -> None:
    """Write *value*, one value of the type *kind*, which is not an array. It may be None if *nullable* is
    true. If *compact* is true, its length is compact. If *flexible* is true, a structure has tagged
    fields."""
    if isinstance(kind, type):
        _write_struct(writer, kind, value, version, flexible)
        return
    if kind.number is not None:
        writer.buf += kind.number.pack(value)
        return
    name = kind.name
    if name == "uuid":
        if len(value) != 16:
            reject_uuid(value)
        writer.buf += value
    elif value is None:
        _write_null(writer, compact, name != "string", nullable)
    elif name == "records":
        buffers = (value,) if isinstance(value, _BUFFERS) else value
        _write_length(writer, total_size(buffers), compact, wide=True)
        writer.parts.append(writer.buf)
        writer.parts.extend(buffers)
        writer.buf = bytearray()
    else:
        data = value.encode() if name == "string" else value
        _write_length(writer, len(data), compact, wide=name != "string")
        writer.buf += data


def _write_null(writer: Writer, compact: bool, wide: bool, nullable: bool) -> None:
    if not nullable:
        reject_null()
    writer.buf += b"\x00" if compact else b"\xff" * (4 if wide else 2)


def _write_length(writer: Writer, length: int, compact: bool, wide: bool) -> None:
    """Write *length*. If *compact* is true, the length is compact. Otherwise, it has four bytes if *wide* is
    true, and two bytes if not."""
    if compact:
        writer.buf += encode_unsigned_varint(length + 1)
    elif wide:
        writer.buf += struct.pack(">i", length)
    elif length > LONGEST_CLASSIC_STRING:
        reject_string(length)
    else:
        writer.buf += struct.pack(">h", length)


def write_tagged(writer: Writer, value: Any, cls: type[Struct], version: int) -> None:
    """Write the tagged fields of *value* that do not have their defaults, in the order of their tags."""
    sent = [
        (tag, field, item)
        for tag, field in layout_of(cls, version).tagged.items()
        if (item := getattr(value, field.name)) != field.make_default()
    ]
    writer.buf += encode_unsigned_varint(len(sent))
    for tag, field, item in sent:
        inner = Writer()
        write_field(inner, field, item, version, True)
        writer.buf += encode_unsigned_varint(tag) + encode_unsigned_varint(len(inner.buf)) + inner.buf


def reject_null() -> NoReturn:
    """Raise the error for a null that is not allowed in any version."""
    raise TypeError("None is not allowed, because the field is not nullable")


def reject_early_null(name: str, version: int) -> NoReturn:
    """Raise the error for a null in the field *name*, which *version* does not allow yet."""
    raise UnsupportedVersionError(f"the field {name} cannot be None in version {version}")


def reject_absent(cls: type[Struct], name: str, value: Any, version: int) -> NoReturn:
    """Raise the error for the field *name*, which is set in *value*, although *version* does not have this
    field."""
    item = getattr(value, name)
    raise UnsupportedVersionError(f"{cls.__qualname__} cannot carry {name}={item!r} in version {version}")


def reject_string(length: int) -> NoReturn:
    """Raise the error for a string of *length* bytes, because a length of two bytes cannot express this
    number."""
    raise ValueError(f"a string has {length} bytes; at most {LONGEST_CLASSIC_STRING} are allowed")


def reject_uuid(value: bytes) -> NoReturn:
    """Raise the error for *value*, which does not have the size of a UUID."""
    raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
