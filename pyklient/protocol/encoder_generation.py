"""Generates encoders, which are functions that make bytes from an object.

The encoder of a version is one function, ``encode(writer, value)``. Neighbouring numbers share one call of
``struct``, and the lengths of strings and arrays are written without a function call. An encoder raises
Python's own errors for a value of the wrong type or range, and UnsupportedVersionError for a value that the
version cannot carry.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyklient.protocol.code_generation import FunctionSource
from pyklient.protocol.field_encoding import (
    LONGEST_CLASSIC_STRING,
    Encode,
    reject_absent,
    reject_early_null,
    reject_null,
    reject_string,
    reject_uuid,
    write_tagged,
)
from pyklient.protocol.message_fields import Field, Struct, WireType
from pyklient.protocol.primitives import encode_unsigned_varint, total_size

__all__ = ["encoder"]


def encoder(cls: type[Struct], version: int, flexible: bool) -> Encode:
    """Return the encoder of *cls* in *version*. If *flexible* is true, lengths are compact and there are
    tagged fields (KIP-482)."""
    source = _EncoderSource("encode", version, flexible, _NAMES)
    encode: Encode = source.build(
        source.function_of(cls), f"encoder of {cls.__qualname__}", source.write_function
    )
    return encode


class _EncoderSource(FunctionSource):
    """The source text of encoders. The generated code appends to ``buf``, which is always ``writer.buf``."""

    def write_function(self, cls: type[Struct], name: str) -> None:
        """Generate the function *name*, which encodes the structure *cls*."""
        with self.block(f"def {name}(writer, v0):"):
            self.add("buf = writer.buf")
            self.write_fields(cls)

    def write_fields(self, cls: type[Struct]) -> None:
        """Generate code that writes the fields of *cls* in the order in which they are sent, and then the
        tagged fields.

        The code raises an error for a value that this version cannot carry.
        """
        with self.written_out(cls) as v:
            groups, tagged = self.layout(cls)
            for group in groups:
                if group[0].number:
                    self.write_run(group, v)
                else:
                    (field,) = group
                    self.add(f"x = {v}.{field.name}")
                    self.write_value(field)
            if self.flexible:
                self.write_tagged(cls, tagged, v)
            self.write_checks(cls, v)

    def write_run(self, run: Sequence[Field], v: str) -> None:
        """Generate code that writes the fields *run*, which are neighbouring numbers, from the structure in
        the variable *v*."""
        form = "".join(field.format for field in run)
        self.write_numbers(form, ", ".join(f"{v}.{field.name}" for field in run))

    def write_numbers(self, form: str, values: str) -> None:
        """Generate a line that writes *values*, numbers of the ``struct`` format *form*."""
        self.add(f"buf += {self.packer(form)}({values})")

    def packer(self, form: str) -> str:
        """Return the name by which the generated code refers to ``pack`` for numbers of the ``struct`` format
        *form*."""
        return self.bind(form, lambda: struct.Struct(">" + form).pack, "pack")

    def write_value(self, field: Field) -> None:
        """Generate code that writes the variable ``x``, which has the value of *field*."""
        nullable = field.nullable_in(self.version)
        compact = self.flexible and field.compact
        if not nullable and field.nullable_since is not None:
            self.add(f"if x is None: reject_early_null({field.name!r}, {self.version})")
        if field.is_array:
            self.write_array(field, compact, nullable)
        else:
            self.write_item(field.kind, compact, nullable)

    def write_array(self, field: Field, compact: bool, nullable: bool) -> None:
        """Generate code that writes the array in the variable ``x``. Its length is compact if *compact* is
        true, and None is an error unless *nullable* is true. An array of numbers is written with one call."""
        with self.unless_null(compact, True, nullable):
            self.add("n = len(x)")
            self.write_length(compact, wide=True)
            if field.format:
                self.add(f"if n: buf += pack(f'>{{n}}{field.format}', *x)")
            elif isinstance(field.kind, type) and not self.must_call(field.kind):
                with self.block(f"for v{self.depth} in x:"):
                    self.write_fields(field.kind)
            else:
                with self.block("for x in x:"):
                    self.write_item(field.kind, compact, nullable=False)

    def write_item(self, kind: WireType | type[Struct], compact: bool, nullable: bool) -> None:
        """Generate code that writes the single value of the type *kind* in the variable ``x``. Its length is
        compact if *compact* is true, and None is an error unless *nullable* is true."""
        if isinstance(kind, type):
            self.write_structure(kind)
        elif kind.format:
            self.write_numbers(kind.format, "x")
        elif kind.name == "uuid":
            self.add("if len(x) != 16: reject_uuid(x)", "buf += x")
        elif kind.name == "string":
            with self.unless_null(compact, False, nullable):
                self.add("x = x.encode()", "n = len(x)")
                self.write_length(compact, wide=False)
                self.add("buf += x")
        elif kind.name == "bytes":
            with self.unless_null(compact, True, nullable):
                self.add("n = len(x)")
                self.write_length(compact, wide=True)
                self.add("buf += x")
        else:
            with self.unless_null(compact, True, nullable):
                self.write_records(compact)

    def write_structure(self, cls: type[Struct]) -> None:
        """Generate code that writes the structure in the variable ``x``."""
        if self.must_call(cls):
            self.add(f"{self.function_of(cls)}(writer, x)", "buf = writer.buf")
        else:
            self.add(f"v{self.depth} = x")
            self.write_fields(cls)

    @contextmanager
    def unless_null(self, compact: bool, wide: bool, nullable: bool) -> Iterator[None]:
        """Generate code that checks if ``x`` is None. The ``with`` block generates the code that writes
        ``x`` if it is not None.

        The generated code encodes None as null if *nullable* is true, and raises an error if not. The length
        of null is compact if *compact* is true. Otherwise it has four bytes if *wide* is true, and two bytes
        if not.
        """
        if not nullable:
            self.add("if x is None: reject_null()")
            yield
            return
        if compact:
            self.add("if x is None: buf.append(0)")
        else:
            self.add(f"if x is None: buf += {bytes([255]) * (4 if wide else 2)!r}")
        with self.block("else:"):
            yield

    def write_length(self, compact: bool, wide: bool) -> None:
        """Generate code that writes the length ``n``. The length is compact if *compact* is true. Otherwise
        it has four bytes if *wide* is true, and two bytes if not."""
        if compact:
            self.add("if n < 127: buf.append(n + 1)", "else: buf += unsigned_varint(n + 1)")
            return
        if not wide:
            self.add(f"if n > {LONGEST_CLASSIC_STRING}: reject_string(n)")
        self.write_numbers("i" if wide else "h", "n")

    def write_records(self, compact: bool) -> None:
        """Generate code that writes the record bytes in the variable ``x``, which are one buffer or several.

        The code first writes the total length of the buffers. It then adds each buffer to the writer as a
        separate part, without a copy.
        """
        self.add("if isinstance(x, buffers): x = (x,)", "n = total_size(x)")
        self.write_length(compact, wide=True)
        self.add("writer.parts.append(buf)", "writer.parts.extend(x)", "buf = writer.buf = bytearray()")

    def write_tagged(self, cls: type[Struct], tagged: Sequence[Field], v: str) -> None:
        """Generate code that writes the fields *tagged* at the end of the structure in the variable *v*.
        Fields that have their defaults are left out."""
        if not tagged:
            self.add("buf.append(0)")
            return
        changed = " or ".join(self.is_changed(field, v) for field in tagged)
        self.add(
            f"if {changed}: put_tagged(writer, {v}, {self.structure(cls)}, {self.version})",
            "else: buf.append(0)",
        )

    def is_changed(self, field: Field, v: str) -> str:
        """Return the source of an expression that is true if *field* does not have its default. *v* is the
        name of the variable that refers to the structure with this field."""
        value, kind = f"{v}.{field.name}", field.kind
        if field.is_array or not isinstance(kind, type) or not all(map(_is_plain, kind.declared)):
            return f"{value} != {self.default(field)}"
        parts = [f"type(x := {value}) is not {self.structure(kind)}"]
        parts += [f"x.{inner.name} != {self.default(inner)}" for inner in kind.declared]
        return " or ".join(parts)

    def write_checks(self, cls: type[Struct], v: str) -> None:
        """Generate code that checks the fields that this version lacks. The code raises an error if one of
        them was set to another value than its default. Ignorable fields are not checked."""
        for field in cls.declared:
            if not field.in_version(self.version) and not field.ignorable:
                self.add(
                    f"if {v}.{field.name} != {self.default(field)}: "
                    f"reject_absent({self.structure(cls)}, {field.name!r}, {v}, {self.version})"
                )


def _is_plain(field: Field) -> bool:
    return isinstance(field.kind, WireType) and not field.is_array


_NAMES: Final[dict[str, Any]] = {
    "buffers": (bytes, bytearray, memoryview),
    "pack": struct.pack,
    "put_tagged": write_tagged,
    "reject_absent": reject_absent,
    "reject_early_null": reject_early_null,
    "reject_null": reject_null,
    "reject_string": reject_string,
    "reject_uuid": reject_uuid,
    "total_size": total_size,
    "unsigned_varint": encode_unsigned_varint,
}
