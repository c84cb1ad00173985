"""Generates decoders, which are functions that make an object from bytes.

The decoder of a version is one function, ``decode(reader)``. It keeps the reader's position in a variable,
and stores it before it calls another function, so that errors name the right byte. It raises ProtocolError,
or ``struct.error`` if neighbouring numbers are cut off.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyklient.protocol.code_generation import FunctionSource
from pyklient.protocol.field_decoding import Decode, least_size, read_tagged, reject_null
from pyklient.protocol.message_fields import Field, Struct, WireType
from pyklient.protocol.primitives import Reader

__all__ = ["decoder"]


def decoder(cls: type[Struct], version: int, flexible: bool) -> Decode:
    """Return the decoder of *cls* in *version*. If *flexible* is true, lengths are compact and there are
    tagged fields (KIP-482)."""
    source = _DecoderSource("decode", version, flexible, _NAMES)
    decode: Decode = source.build(
        source.function_of(cls), f"decoder of {cls.__qualname__}", source.write_function
    )
    return decode


class _DecoderSource(FunctionSource):
    """The source text of decoders. The generated code reads the bytes ``data`` from the position ``pos`` on,
    up to ``end``."""

    def write_function(self, cls: type[Struct], name: str) -> None:
        """Generate the function *name*, which decodes the structure *cls*."""
        with self.function(name, "v0"):
            self.add(f"v0 = new({self.structure(cls)})")
            self.read_fields(cls)

    @contextmanager
    def function(self, name: str, result: str) -> Iterator[None]:
        """Generate the first and last lines of the function *name*. The ``with`` block generates the body.

        The generated function returns the variable *result*. If a string is not UTF-8, the function lets the
        reader raise a ProtocolError.
        """
        with self.block(f"def {name}(reader):"):
            self.add("data = reader.data", "pos = reader.pos", "end = reader.end")
            with self.block("try:"):
                yield
            with self.block("except UnicodeDecodeError:"):
                self.add("reader.pos = pos", "reader.string(stop - pos)", "raise")
            self.add("reader.pos = pos", f"return {result}")

    def read_fields(self, cls: type[Struct]) -> None:
        """Generate code that reads the fields of *cls* in the order in which they are sent, and then the
        tagged fields.

        Fields that this version lacks get their defaults.
        """
        with self.written_out(cls) as v:
            groups, tagged = self.layout(cls)
            for group in groups:
                if group[0].number:
                    self.read_run(group, v)
                else:
                    (field,) = group
                    self.read_value(field, f"{v}.{field.name}")
            self.set_defaults((each for each in cls.declared if not each.in_version(self.version)), v)
            if self.flexible:
                self.read_tagged(cls, tagged, v)

    def read_run(self, run: list[Field], v: str) -> None:
        """Generate code that reads the fields *run*, which are neighbouring numbers, into the structure in
        the variable *v*."""
        form = struct.Struct(">" + "".join(field.format for field in run))
        targets = "".join(f"{v}.{field.name}, " for field in run)
        self.add(f"{targets}= {self.unpacker(form.format)}(data, pos)", f"pos += {form.size}")

    def unpacker(self, form: str) -> str:
        """Return the name by which the generated code refers to ``unpack_from`` for numbers of the ``struct``
        format *form*."""
        return self.bind(form, lambda: struct.Struct(form).unpack_from, "unpack")

    def read_value(self, field: Field, target: str) -> None:
        """Generate code that assigns the value of *field* to the variable *target*."""
        nullable = field.nullable_in(self.version)
        compact = self.flexible and field.compact
        if field.is_array:
            self.read_array(field, target, compact, nullable)
        else:
            null = f"{target} = b''" if field.null_is_empty else self.null(target, nullable)
            self.read_item(field.kind, target, compact, null)

    def read_array(self, field: Field, target: str, compact: bool, nullable: bool) -> None:
        """Generate code that reads the array of *field* into the variable *target*. Its length is compact if
        *compact* is true, and null is an error unless *nullable* is true.

        Before the code makes an element, it checks that the remaining bytes can contain an array of this
        length.
        """
        self.read_length(compact, wide=True)
        if field.format:
            self.add(f"{target} = []")
            with self.block("if n > 0:"):
                self.call(target, f"reader.numbers(n, {field.format!r})")
        else:
            items = f"a{self.depth}"
            least = max(1, least_size(field.kind, self.version, compact))
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
        """Generate code that reads a single value of the type *kind* into the variable *target*. Its length
        is compact if *compact* is true. *null* is the line of code for a value that is null."""
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
        """Generate code that reads *size* bytes. *convert* is the line of code that turns these bytes into a
        value."""
        self.add(f"stop = pos + {size}", f"if stop > end: reject_size(reader, pos, {size})")
        self.add(convert, "pos = stop")

    def read_length(self, compact: bool, wide: bool) -> None:
        """Generate code that reads a length into ``n``; -1 means null. If *compact* is true, the length is
        compact. Otherwise, it has four bytes if *wide* is true, and two bytes if not."""
        if compact:
            self.add("if pos < end and (n := data[pos] - 1) < 127: pos += 1")
            self.add("else: n, pos = length_at(reader, pos, reader.compact_length)")
            return
        size, method = (4, "length32") if wide else (2, "length16")
        unpack = self.unpacker(">i" if wide else ">h")
        self.add(f"if pos + {size} <= end and (n := {unpack}(data, pos)[0]) >= -1: pos += {size}")
        self.add(f"else: n, pos = length_at(reader, pos, reader.{method})")

    def null(self, target: str, nullable: bool) -> str:
        """Return the line of code for a value that is null: it assigns None to the variable *target* if
        *nullable* is true, and raises an error otherwise."""
        return f"{target} = None" if nullable else "reject_null(pos)"

    def call(self, target: str, call: str) -> None:
        """Generate code that assigns the result of the expression *call* to *target*. *call* reads bytes and
        so changes the reader's position."""
        self.add("reader.pos = pos", f"{target} = {call}", "pos = reader.pos")

    def read_structure(self, cls: type[Struct], target: str) -> None:
        """Generate code that reads the structure *cls* into the variable *target*."""
        if self.must_call(cls):
            self.call(target, f"{self.function_of(cls)}(reader)")
        else:
            v = f"v{self.depth}"
            self.add(f"{v} = new({self.structure(cls)})")
            self.read_fields(cls)
            self.add(f"{target} = {v}")

    def read_tagged(self, cls: type[Struct], tagged: list[Field], v: str) -> None:
        """Generate code that reads the fields *tagged* at the end of a structure of *cls* into the variable
        *v*, which holds the structure. Tagged fields that are missing get their defaults."""
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
        """Generate code that sets *fields* of the structure in the variable *v* to their defaults. Each
        object gets its own copy of a default that can be changed."""
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


def _length_at(reader: Reader, pos: int, length: Callable[[], int]) -> tuple[int, int]:
    """Read a length at *pos* with the function *length*. Return the length and the position after it.

    The generated decoders read most lengths themselves. They call this function for a length that takes
    several bytes or is invalid.
    """
    reader.pos = pos
    return length(), reader.pos


def _reject_size(reader: Reader, pos: int, size: int) -> None:
    reader.pos = pos
    reader.slice(size)


def _reject_count(reader: Reader, pos: int, length: int, least: int) -> None:
    reader.pos = pos
    reader.allowance += length
    reader.count(length, least)


_NAMES: Final[dict[str, Any]] = {
    "length_at": _length_at,
    "new": object.__new__,
    "reject_count": _reject_count,
    "reject_null": reject_null,
    "reject_size": _reject_size,
    "read_tagged_fields": read_tagged,
}
