"""From a declaration to an encoder and a decoder for one version.

Each (class, version) is resolved once into a list of steps. Neighbouring numbers share one step, and one
call of ``struct``, whatever their number.
"""

import reprlib
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

from pyklient.errors import ProtocolError, UnsupportedVersionError
from pyklient.protocol.declared import Declared, Struct, WireType
from pyklient.protocol.primitives import Reader, Writer
from pyklient.protocol.values import Codec, Put, Take, array, scalar

__all__ = ["UNENCODABLE", "codec_of", "culprit"]

UNENCODABLE: Final = (struct.error, TypeError, ValueError, AttributeError, OverflowError)
"""What a value of the wrong type or range raises on its way to bytes."""

_codecs: dict[tuple[type[Struct], int, bool], Codec] = {}


def codec_of(cls: type[Struct], version: int, flexible: bool) -> Codec:
    """The codec of *cls* in *version*; *flexible* versions have compact lengths and tagged fields."""
    key = (cls, version, flexible)
    codec = _codecs.get(key)
    if codec is None:
        codec = _codecs[key] = _Resolver(cls, version, flexible).resolve()
    return codec


class _Resolver:
    """Resolves one class in one version."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.puts: list[Put] = []
        self.takes: list[Callable[[Reader, Any], None]] = []
        self.least = 0

    def resolve(self) -> Codec:
        """Steps for all fields, in wire order, then the tagged fields."""
        present = [field for field in self.cls.declared if field.in_version(self.version)]
        absent = [field for field in self.cls.declared if not field.in_version(self.version)]
        run: list[Declared] = []
        for field in present:
            if field.tag is not None:
                continue
            if field.is_number:
                run.append(field)
                continue
            self.add_run(run)
            run = []
            self.add_single(field)
        self.add_run(run)
        if self.flexible:
            self.add_tagged([field for field in present if field.tag is not None])
        self.add_absent(absent)
        return Codec(self.put_all(), self.take_all(), self.least)

    def put_all(self) -> Put:
        """All encoding steps in a row."""
        puts = tuple(self.puts)

        def put(writer: Writer, value: Any) -> None:
            for step in puts:
                step(writer, value)

        return put

    def take_all(self) -> Take:
        """A new object, filled by all decoding steps in a row."""
        cls = self.cls
        takes = tuple(self.takes)

        def take(reader: Reader) -> Any:
            value = cls.__new__(cls)
            for step in takes:
                step(reader, value)
            return value

        return take

    def setter(self, field: Declared) -> Callable[[Any, Any], None]:
        """Stores into the field's slot."""
        store: Callable[[Any, Any], None] = getattr(self.cls, field.name).__set__
        return store

    def add_run(self, run: Sequence[Declared]) -> None:
        """Numbers next to each other."""
        if not run:
            return
        form = struct.Struct(">" + "".join(field.format for field in run))
        pack, unpack, size = form.pack, form.unpack_from, form.size
        names = [field.name for field in run]
        self.least += size
        if len(run) == 1:
            one, store = attrgetter(*names), self.setter(run[0])

            def put_one(writer: Writer, value: Any) -> None:
                writer.buf += pack(one(value))

            def take_one(reader: Reader, value: Any) -> None:
                store(value, unpack(reader.data, reader.pos)[0])
                reader.pos += size

            self.puts.append(put_one)
            self.takes.append(take_one)
            return
        several, stores = attrgetter(*names), tuple(self.setter(field) for field in run)

        def put_run(writer: Writer, value: Any) -> None:
            writer.buf += pack(*several(value))

        def take_run(reader: Reader, value: Any) -> None:
            for store, item in zip(stores, unpack(reader.data, reader.pos), strict=True):
                store(value, item)
            reader.pos += size

        self.puts.append(put_run)
        self.takes.append(take_run)

    def add_single(self, field: Declared) -> None:
        """Anything whose size depends on its value."""
        codec = field_codec(field, self.version, self.flexible)
        get, store = attrgetter(field.name), self.setter(field)
        field_put, field_take = codec.put, codec.take
        self.least += codec.least

        def put(writer: Writer, value: Any) -> None:
            field_put(writer, get(value))

        def take(reader: Reader, value: Any) -> None:
            store(value, field_take(reader))

        self.puts.append(put)
        self.takes.append(take)

    def add_absent(self, absent: Sequence[Declared]) -> None:
        """Fields that this version lacks: refused unless default or ignorable, and set to their default."""
        for field in absent:
            if not field.ignorable:
                self.puts.append(_refuse_unless_default(self.cls, field, self.version))
        self.add_defaults(absent)

    def add_defaults(self, fields: Sequence[Declared]) -> None:
        """Sets *fields* to their defaults: those that can be shared, then those made anew for each object."""
        shared = [(self.setter(field), field.default) for field in fields if not field.makes_defaults]
        made = [
            (self.setter(field), list if field.is_array else field.make_default)
            for field in fields
            if field.makes_defaults
        ]

        def take(reader: Reader, value: Any) -> None:
            for store, default in shared:
                store(value, default)
            for store, make in made:
                store(value, make())

        if fields:
            self.takes.append(take)

    def add_tagged(self, tagged: Sequence[Declared]) -> None:
        """The tagged fields at the end of a structure: sent where not default, and unknown ones skipped."""
        self.least += 1
        known = {
            field.tag: (field_codec(field, self.version, True), field, self.setter(field))
            for field in tagged
            if field.tag is not None
        }
        if not known:
            self.puts.append(_put_no_tagged)
            self.takes.append(_skip_tagged)
            return
        self.add_defaults(tagged)
        ordered = [
            (tag, codec.put, attrgetter(field.name), field.make_default())
            for tag, (codec, field, _) in sorted(known.items())
        ]

        def put(writer: Writer, value: Any) -> None:
            sent = [
                (tag, field_put, item)
                for tag, field_put, get, default in ordered
                if (item := get(value)) != default
            ]
            writer.unsigned_varint(len(sent))
            for tag, field_put, item in sent:
                inner = Writer()
                field_put(inner, item)
                writer.unsigned_varint(tag)
                writer.unsigned_varint(len(inner.buf))
                writer.buf += inner.buf

        def take(reader: Reader, value: Any) -> None:
            for tag, size in reader.tagged_fields():
                found = known.get(tag)
                if found is None:
                    reader.slice(size)
                    continue
                codec, field, store = found
                stop = reader.pos + size
                store(value, codec.take(reader))
                if reader.pos != stop:
                    raise ProtocolError(f"tagged field {field.name} does not fill its {size} bytes")

        self.puts.append(put)
        self.takes.append(take)


def field_codec(field: Declared, version: int, flexible: bool) -> Codec:
    """Encoder and decoder of the value of one field."""
    nullable = field.nullable_in(version)
    codec = _value_codec(field, version, flexible and field.compact, nullable)
    if nullable or field.nullable_since is None:
        return codec
    return Codec(_refuse_early_null(codec.put, field, version), codec.take, codec.least)


def _value_codec(field: Declared, version: int, flexible: bool, nullable: bool) -> Codec:
    kind = field.kind
    single = nullable and not field.is_array
    item = scalar(kind, flexible, single) if isinstance(kind, WireType) else codec_of(kind, version, flexible)
    return array(item, field.format, flexible, nullable) if field.is_array else item


def _refuse_unless_default(cls: type[Struct], field: Declared, version: int) -> Put:
    def check(writer: Writer, value: Any) -> None:
        if (item := getattr(value, field.name)) != field.make_default():
            raise UnsupportedVersionError(
                f"{cls.__qualname__} cannot carry {field.name}={item!r} in version {version}"
            )

    return check


def _refuse_early_null(field_put: Put, field: Declared, version: int) -> Put:
    def put(writer: Writer, value: Any) -> None:
        if value is None:
            raise UnsupportedVersionError(f"{field.name} cannot be None in version {version}")
        field_put(writer, value)

    return put


def _put_no_tagged(writer: Writer, value: Any) -> None:
    writer.buf.append(0)


def _skip_tagged(reader: Reader, value: Any) -> None:
    reader.skip_tagged_fields()


def culprit(cls: type[Struct], version: int, flexible: bool, value: Any) -> str:
    """Which field of *value* cannot be encoded, and why; asked for after it has failed."""
    for field in cls.declared:
        if not field.in_version(version):
            continue
        item = getattr(value, field.name, None)
        try:
            field_codec(field, version, flexible).put(Writer(), item)
        except UNENCODABLE as error:
            if isinstance(field.kind, type) and isinstance(item, list):
                inner = (culprit(field.kind, version, flexible, entry) for entry in item)
                return next(
                    (f"{field.name}[{index}].{found}" for index, found in enumerate(inner) if found),
                    f"{field.name}: {error}",
                )
            shown = "" if field.secret else f"={reprlib.repr(item)}"
            return f"{field.name}{shown}: {error}"
    return ""
