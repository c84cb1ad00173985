"""Generates decoders, which make an object from bytes.

The decoder of a version is one function, ``decode(reader)``. It keeps the reader's position in a variable,
and stores it before it calls another function, so that errors name the right byte. It raises ProtocolError,
or ``struct.error`` if neighbouring numbers are cut off.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeAlias

from pyklient.errors import ProtocolError
from pyklient.protocol.code_generation import FunctionSource
from pyklient.protocol.message_fields import Field, Struct, WireType
from pyklient.protocol.primitives import Reader

__all__ = ["Decode", "decoder"]

Decode: TypeAlias = Callable[[Reader], Any]


def decoder(cls: type[Struct], version: int, flexible: bool) -> Decode:
    """Return the decoder of *cls* in *version*. *flexible* versions have compact lengths and tagged
    fields."""
    source = _DecoderSource("decode", version, flexible, _NAMES)
    decode: Decode = source.build(
        source.function_of(cls), f"decoder of {cls.__qualname__}", source.write_function
    )
    return decode


def _field_decoder(cls: type[Struct], name: str, version: int) -> Decode:
    """Return the decoder of one tagged field of *cls*, generated once."""
    key = (cls, name, version)
    decode = _field_decoders.get(key)
    if decode is None:
        (field,) = (each for each in cls.declared if each.name == name)
        source = _DecoderSource("decode", version, True, _NAMES)
        source.write_field_function(field)
        title = f"decoder of {cls.__qualname__}.{name}"
        decode = _field_decoders[key] = source.build("decode_field", title, source.write_function)
    return decode


_field_decoders: Final[dict[tuple[type[Struct], str, int], Decode]] = {}


class _DecoderSource(FunctionSource):
    """A FunctionSource whose functions read ``data`` from ``pos`` on; ``end`` is the end of the data."""

    def write_function(self, cls: type[Struct], name: str) -> None:
        """Write the function for the structure *cls*."""
        with self.function(name, "v0"):
            self.add(f"v0 = new({self.structure(cls)})")
            self.read_fields(cls)

    def write_field_function(self, field: Field) -> None:
        """Write the function ``decode_field`` for the value of *field*."""
        with self.function("decode_field", "result"):
            self.read_value(field, "result")

    @contextmanager
    def function(self, name: str, result: str) -> Iterator[None]:
        """Write the function *name*, which returns the variable *result*; the lines of its body are added in
        the ``with`` block.

        For a string that is not UTF-8, the generated function calls the reader to raise the right error.
        """
        with self.block(f"def {name}(reader):"):
            self.add("data = reader.data", "pos = reader.pos", "end = reader.end")
            with self.block("try:"):
                yield
            with self.block("except UnicodeDecodeError:"):
                self.add("reader.pos = pos", "reader.string(stop - pos)", "raise")
            self.add("reader.pos = pos", f"return {result}")

    def read_fields(self, cls: type[Struct]) -> None:
        """Read all fields in the order in which they are sent, then tagged fields. Set the defaults of fields
        that this version lacks."""
        with self.written_out(cls) as v:
            groups, tagged = self.layout(cls)
            for group in groups:
                if group[0].is_number:
                    self.read_run(group, v)
                else:
                    (field,) = group
                    self.read_value(field, f"{v}.{field.name}")
            self.set_defaults((each for each in cls.declared if not each.in_version(self.version)), v)
            if self.flexible:
                self.read_tagged(cls, tagged, v)

    def read_run(self, run: list[Field], v: str) -> None:
        """Read neighbouring numbers."""
        form = struct.Struct(">" + "".join(field.format for field in run))
        targets = "".join(f"{v}.{field.name}, " for field in run)
        self.add(f"{targets}= {self.unpacker(form.format)}(data, pos)", f"pos += {form.size}")

    def unpacker(self, form: str) -> str:
        """Return the name of ``unpack_from`` for numbers of *form*."""
        return self.bind(form, lambda: struct.Struct(form).unpack_from, "unpack")

    def read_value(self, field: Field, target: str) -> None:
        """Assign the value of *field* to *target*."""
        nullable = field.nullable_in(self.version)
        compact = self.flexible and field.compact
        if field.is_array:
            self.read_array(field, target, compact, nullable)
        else:
            null = f"{target} = b''" if field.null_is_empty else self.null(target, nullable)
            self.read_item(field.kind, target, compact, null)

    def read_array(self, field: Field, target: str, compact: bool, nullable: bool) -> None:
        """Read an array. Its length is compared with the number of bytes left before an element is made."""
        self.read_length(compact, wide=True)
        if field.format:
            self.add(f"{target} = []")
            with self.block("if n > 0:"):
                self.call(target, f"reader.numbers(n, {field.format!r})")
        else:
            items = f"a{self.depth}"
            least = max(1, _least(field.kind, self.version, compact))
            self.add(f"{target} = {items} = []")
            with self.block("if n > 0:"):
                self.add("reader.allowance -= n")
                needed = "n" if least == 1 else f"n * {least}"
                self.add(
                    f"if {needed} > end - pos or reader.allowance < 0: reject_count(reader, pos, n, {least})"
                )
                with self.block("for _ in range(n):"):
                    self.read_item(field.kind, "x", compact, self.null("x", nullable=False))
                    self.add(f"{items}.append(x)")
        self.add(f"elif n < 0: {self.null(target, nullable)}")

    def read_item(self, kind: WireType | type[Struct], target: str, compact: bool, null: str) -> None:
        """Add lines that read a single value. *null* is the line for a value that is null."""
        if isinstance(kind, type):
            self.read_structure(kind, target)
        elif kind.format:
            form = self.bind((kind.format, "form"), lambda: struct.Struct(">" + kind.format), "form")
            self.call(target, f"reader.number({form})")
        elif kind.name == "uuid":
            self.read_bytes("16", f"{target} = bytes(data[pos:stop])")
        else:
            self.read_length(compact, wide=kind.name != "string")
            values = {"string": "str(data[pos:stop], 'utf-8')", "bytes": "bytes(data[pos:stop])"}
            with self.block("if n >= 0:"):
                self.read_bytes("n", f"{target} = {values.get(kind.name, 'data[pos:stop]')}")
            self.add(f"else: {null}")

    def read_bytes(self, size: str, convert: str) -> None:
        """Read *size* bytes. The line *convert* makes a value of them."""
        self.add(f"stop = pos + {size}", f"if stop > end: reject_size(reader, pos, {size})")
        self.add(convert, "pos = stop")

    def read_length(self, compact: bool, wide: bool) -> None:
        """Read the length ``n``: compact, or of two bytes, or of four if *wide*. -1 means null."""
        if compact:
            self.add("if pos < end and (n := data[pos] - 1) < 127: pos += 1")
            self.add("else: n, pos = length_at(reader, pos, reader.compact_length)")
            return
        size, method = (4, "length32") if wide else (2, "length16")
        unpack = self.unpacker(">i" if wide else ">h")
        self.add(f"if pos + {size} <= end and (n := {unpack}(data, pos)[0]) >= -1: pos += {size}")
        self.add(f"else: n, pos = length_at(reader, pos, reader.{method})")

    def null(self, target: str, nullable: bool) -> str:
        """Return the line that handles null."""
        return f"{target} = None" if nullable else "reject_null(pos)"

    def call(self, target: str, call: str) -> None:
        """Assign to *target* the result of a call that moves the reader."""
        self.add("reader.pos = pos", f"{target} = {call}", "pos = reader.pos")

    def read_structure(self, cls: type[Struct], target: str) -> None:
        """Read a structure."""
        if self.must_call(cls):
            self.call(target, f"{self.function_of(cls)}(reader)")
        else:
            v = f"v{self.depth}"
            self.add(f"{v} = new({self.structure(cls)})")
            self.read_fields(cls)
            self.add(f"{target} = {v}")

    def read_tagged(self, cls: type[Struct], tagged: list[Field], v: str) -> None:
        """Read the tagged fields at the end of a structure. Missing fields get their defaults."""
        self.set_defaults(tagged, v)
        self.add("if pos < end and not data[pos]: pos += 1")
        with self.block("else:"):
            self.add("reader.pos = pos")
            if tagged:
                self.add(f"read_tagged_fields(reader, {v}, {self.structure(cls)}, {self.version})")
            else:
                self.add("reader.skip_tagged_fields()")
            self.add("pos = reader.pos")

    def set_defaults(self, fields: Iterable[Field], v: str) -> None:
        """Set defaults. Each object gets its own copy of a default that can be changed."""
        for field in fields:
            kind, target = field.kind, f"{v}.{field.name}"
            if not field.makes_defaults:
                self.add(f"{target} = {self.default(field)}")
            elif field.is_array or not isinstance(kind, type):
                self.add(f"{target} = []")
            else:
                with self.written_out(kind) as inner:
                    self.add(f"{target} = {inner} = new({self.structure(kind)})")
                    self.set_defaults(kind.declared, inner)


def _least(kind: WireType | type[Struct], version: int, compact: bool) -> int:
    """Return the size in bytes of the smallest value of *kind*."""
    if isinstance(kind, WireType):
        if kind.format:
            return struct.calcsize(">" + kind.format)
        classic = {"uuid": 16, "string": 2}.get(kind.name, 4)
        return 1 if compact and kind.name != "uuid" else classic
    fields = (each for each in kind.declared if each.in_version(version) and each.tag is None)
    return compact + sum(_least_of_field(field, version, compact and field.compact) for field in fields)


def _least_of_field(field: Field, version: int, compact: bool) -> int:
    if field.is_array:
        return 1 if compact else 4
    return _least(field.kind, version, compact)


def _read_tagged(reader: Reader, value: Any, cls: type[Struct], version: int) -> None:
    """Set the tagged fields of *value* that are present. Unknown fields are skipped."""
    known = {field.tag: field.name for field in cls.declared if field.in_version(version)}
    for tag, size in reader.tagged_fields():
        name = known.get(tag)
        if name is None:
            reader.slice(size)
            continue
        stop = reader.pos + size
        setattr(value, name, _field_decoder(cls, name, version)(reader))
        if reader.pos != stop:
            raise ProtocolError(f"the value of tagged field {name} does not fill its {size} bytes")


def _length_at(reader: Reader, pos: int, length: Callable[[], int]) -> tuple[int, int]:
    """Return a length that is longer than one byte, or is invalid, and the position after it."""
    reader.pos = pos
    return length(), reader.pos


def _reject_size(reader: Reader, pos: int, size: int) -> None:
    reader.pos = pos
    reader.slice(size)


def _reject_count(reader: Reader, pos: int, length: int, least: int) -> None:
    reader.pos = pos
    reader.allowance += length
    reader.count(length, least)


def _reject_null(pos: int) -> NoReturn:
    raise ProtocolError(f"the value before byte {pos} is null, which its field does not allow")


_NAMES: Final[dict[str, Any]] = {
    "length_at": _length_at,
    "new": object.__new__,
    "reject_count": _reject_count,
    "reject_null": _reject_null,
    "reject_size": _reject_size,
    "read_tagged_fields": _read_tagged,
}
