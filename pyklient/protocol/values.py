"""Encoders and decoders of single values: numbers, strings, bytes, records, arrays."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from pyklient.errors import ProtocolError
from pyklient.protocol.declared import WireType
from pyklient.protocol.primitives import Reader, Writer

__all__ = ["Codec", "Put", "Take", "array", "scalar"]

Put: TypeAlias = Callable[[Writer, Any], None]
Take: TypeAlias = Callable[[Reader], Any]


@dataclass(frozen=True, slots=True)
class Codec:
    """Encoder and decoder of one class in one version; ``least`` is the size of its smallest value."""

    put: Put
    take: Take
    least: int


def scalar(kind: WireType, flexible: bool, nullable: bool) -> Codec:
    """One value of a wire type; *flexible* lengths are compact."""
    if kind.format:
        return _number(kind.format)
    if kind.name == "uuid":
        return Codec(Writer.uuid, Reader.uuid, 16)
    put_length, take_length, least = _length(flexible, wide=kind.name != "string")
    if kind.name == "string":
        return Codec(_put_string(put_length, nullable), _take_string(take_length, nullable), least)
    if kind.name == "bytes":
        return Codec(_put_bytes(put_length, nullable), _take_bytes(take_length, nullable), least)

    def put_records(writer: Writer, value: Any) -> None:
        if value is None and not nullable:
            _refuse_null()
        writer.records(value, put_length)

    def take_records(reader: Reader) -> memoryview | None:
        length = take_length(reader)
        return _null(reader, nullable) if length < 0 else reader.slice(length)

    return Codec(put_records, take_records, least)


def _length(flexible: bool, wide: bool) -> tuple[Callable[[Writer, int], None], Callable[[Reader], int], int]:
    """How a length is written and read, and its smallest size."""
    if flexible:
        return Writer.compact_length, Reader.compact_length, 1
    if wide:
        return Writer.length32, Reader.length32, 4
    return Writer.length16, Reader.length16, 2


def _number(form: str) -> Codec:
    one = struct.Struct(">" + form)
    pack = one.pack

    def put(writer: Writer, value: Any) -> None:
        writer.buf += pack(value)

    def take(reader: Reader) -> Any:
        return reader.number(one)

    return Codec(put, take, one.size)


def _put_string(put_length: Callable[[Writer, int], None], nullable: bool) -> Put:
    def put(writer: Writer, value: str | None) -> None:
        if value is None:
            if not nullable:
                _refuse_null()
            put_length(writer, -1)
        else:
            data = value.encode()
            put_length(writer, len(data))
            writer.buf += data

    return put


def _take_string(take_length: Callable[[Reader], int], nullable: bool) -> Take:
    def take(reader: Reader) -> str | None:
        length = take_length(reader)
        return _null(reader, nullable) if length < 0 else reader.string(length)

    return take


def _put_bytes(put_length: Callable[[Writer, int], None], nullable: bool) -> Put:
    def put(writer: Writer, value: bytes | None) -> None:
        if value is None:
            if not nullable:
                _refuse_null()
            put_length(writer, -1)
        else:
            put_length(writer, len(value))
            writer.buf += value

    return put


def _take_bytes(take_length: Callable[[Reader], int], nullable: bool) -> Take:
    def take(reader: Reader) -> bytes | None:
        length = take_length(reader)
        return _null(reader, nullable) if length < 0 else bytes(reader.slice(length))

    return take


def array(item: Codec, form: str, flexible: bool, nullable: bool) -> Codec:
    """Many of *item*; with a ``struct`` format *form* they are numbers, and read at once."""
    put_length, take_length, least = _length(flexible, wide=True)
    put_items, take_items = _numbers(form) if form else _items(item)

    def put(writer: Writer, value: Sequence[Any] | None) -> None:
        if value is None:
            if not nullable:
                _refuse_null()
            put_length(writer, -1)
        else:
            put_length(writer, len(value))
            put_items(writer, value)

    def take(reader: Reader) -> Any:
        length = take_length(reader)
        return _null(reader, nullable) if length < 0 else take_items(reader, length)

    return Codec(put, take, least)


def _numbers(form: str) -> tuple[Put, Callable[[Reader, int], list[Any]]]:
    def put(writer: Writer, value: Sequence[Any]) -> None:
        writer.buf += struct.pack(f">{len(value)}{form}", *value)

    def take(reader: Reader, length: int) -> list[Any]:
        return reader.numbers(length, form)

    return put, take


def _items(item: Codec) -> tuple[Put, Callable[[Reader, int], list[Any]]]:
    item_put, item_take, least = item.put, item.take, max(1, item.least)

    def put(writer: Writer, value: Sequence[Any]) -> None:
        for entry in value:
            item_put(writer, entry)

    def take(reader: Reader, length: int) -> list[Any]:
        return [item_take(reader) for _ in range(reader.count(length, least))]

    return put, take


def _null(reader: Reader, nullable: bool) -> Any:
    if not nullable:
        raise ProtocolError(f"null before byte {reader.pos}, where it is not allowed")
    return None


def _refuse_null() -> NoReturn:
    raise TypeError("None, where there is no null")
