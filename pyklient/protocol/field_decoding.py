"""Decodes structures field by field, without generated code.

This module makes the same objects, and raises the same errors, as the functions of
:mod:`pyklient.protocol.decoder_generation`. It is slower. However, in the time that it takes to generate one
function, this module decodes twenty to a hundred small responses. So it decodes the first responses of each
kind. It also decodes tagged fields, because brokers rarely send them.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from pyklient.errors import ProtocolError
from pyklient.protocol.message_fields import Field, Struct, WireType, layout_of
from pyklient.protocol.primitives import Reader

__all__ = ["Decode", "first_decoder", "least_size", "read_tagged", "reject_null"]

Decode: TypeAlias = Callable[[Reader], Any]

_NEW: Final = object.__new__


def first_decoder(cls: type[Struct], version: int, flexible: bool) -> Decode:
    """Return a decoder of *cls* in *version* that is not generated. If *flexible* is true, lengths are
    compact and there are tagged fields."""
    return lambda reader: _read_struct(reader, cls, version, flexible)


def _read_struct(reader: Reader, cls: type[Struct], version: int, flexible: bool) -> Any:
    value = _NEW(cls)
    layout = layout_of(cls, version)
    if layout.numbers is not None:
        for field, number in zip(
            layout.sent, layout.numbers.unpack_from(reader.data, reader.pos), strict=True
        ):
            setattr(value, field.name, number)
        reader.pos += layout.numbers.size
    else:
        for field in layout.sent:
            if (form := field.number) is not None:
                setattr(value, field.name, form.unpack_from(reader.data, reader.pos)[0])
                reader.pos += form.size
            else:
                setattr(value, field.name, _read_field(reader, field, version, flexible))
    for field in (*layout.tagged.values(), *layout.absent):
        setattr(value, field.name, field.make_default())
    if flexible:
        read_tagged(reader, value, cls, version)
    return value


def _read_field(reader: Reader, field: Field, version: int, flexible: bool) -> Any:
    """Read the value of *field* in *version*. If *flexible* is true, lengths are compact."""
    nullable = field.nullable_in(version)
    compact = flexible and field.compact
    if not field.is_array:
        value = _read_item(reader, field.kind, version, flexible, compact)
        if value is None and field.null_is_empty:
            return b""
        if value is None and not nullable:
            reject_null(reader.pos)
        return value
    length = _read_length(reader, compact, wide=True)
    if length < 0:
        return None if nullable else reject_null(reader.pos)
    if field.format:
        return reader.numbers(length, field.format)
    reader.count(length, max(1, least_size(field.kind, version, compact)))
    items = []
    for _ in range(length):
        item = _read_item(reader, field.kind, version, flexible, compact)
        items.append(reject_null(reader.pos) if item is None else item)
    return items


def _read_item(
    reader: Reader, kind: WireType | type[Struct], version: int, flexible: bool, compact: bool
) -> Any:
    """Read one value of the type *kind*, which is not an array. Return None if the value is null. If
    *compact* is true, its length is compact. If *flexible* is true, a structure has tagged fields."""
    if isinstance(kind, type):
        return _read_struct(reader, kind, version, flexible)
    if kind.number is not None:
        return reader.number(kind.number)
    name = kind.name
    if name == "uuid":
        return bytes(reader.slice(16))
    length = _read_length(reader, compact, wide=name != "string")
    if length < 0:
        return None
    if name == "string":
        return reader.string(length)
    return bytes(reader.slice(length)) if name == "bytes" else reader.slice(length)


def _read_length(reader: Reader, compact: bool, wide: bool) -> int:
    """Read a length; -1 means null. If *compact* is true, the length is compact. Otherwise, it has four bytes
    if *wide* is true, and two bytes if not."""
    if compact:
        return reader.compact_length()
    return reader.length32() if wide else reader.length16()


def read_tagged(reader: Reader, value: Any, cls: type[Struct], version: int) -> None:
    """Read the tagged fields at the position of *reader*, and set them in *value*, an object of *cls*. Tagged
    fields that *cls* does not know are skipped."""
    if reader.remaining and not reader.data[reader.pos]:
        reader.pos += 1
        return
    known = layout_of(cls, version).tagged
    for tag, size in reader.tagged_fields():
        field = known.get(tag)
        if field is None:
            reader.slice(size)
            continue
        stop = reader.pos + size
        setattr(value, field.name, _read_field(reader, field, version, True))
        if reader.pos != stop:
            raise ProtocolError(f"the value of tagged field {field.name} does not fill its {size} bytes")


def least_size(kind: WireType | type[Struct], version: int, compact: bool) -> int:
    """Return the size in bytes of the smallest value that *kind* can have in *version*. If *compact* is true,
    lengths are compact."""
    if isinstance(kind, WireType):
        if kind.number is not None:
            return kind.number.size
        classic = {"uuid": 16, "string": 2}.get(kind.name, 4)
        return 1 if compact and kind.name != "uuid" else classic
    fields = layout_of(kind, version).sent
    return compact + sum(_least_of_field(field, version, compact and field.compact) for field in fields)


def _least_of_field(field: Field, version: int, compact: bool) -> int:
    if field.is_array:
        return 1 if compact else 4
    return least_size(field.kind, version, compact)


def reject_null(pos: int) -> NoReturn:
    """Raise the error for a null in a field that does not allow null. *pos* is the position after the length
    that means null."""
    raise ProtocolError(f"the value before byte {pos} is null, which its field does not allow")
