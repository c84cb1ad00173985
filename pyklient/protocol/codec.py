"""From a declaration to an encoder and a decoder for one version.

Each (class, version) is resolved once into a list of steps. Neighbouring numbers share one step, and one
call of ``struct``, whatever their number.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, TypeAlias

from pyklient.errors import ProtocolError, UnsupportedVersionError
from pyklient.protocol.primitives import Reader, Writer

__all__ = ["Codec", "Declared", "Put", "Struct", "Take", "WireType", "codec_of"]

Put: TypeAlias = Callable[[Writer, Any], None]
Take: TypeAlias = Callable[[Reader], Any]


@dataclass(frozen=True, slots=True)
class WireType:
    """A type of the wire: Kafka's name for it, its zero, and its ``struct`` format where it has one."""

    name: str
    zero: Any
    format: str = ""


class Struct:
    """Base of structures: fields that are sent one after the other. ``declared`` holds them in wire order."""

    __slots__ = ()

    declared: ClassVar[tuple["Declared", ...]] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """One field as declared.

    ``since`` and ``until`` bound the versions that carry it (None: to the newest), ``nullable_since`` those
    in which it may be null (None: never), ``tag`` is its number where it is a tagged field. A field that is
    ``ignorable`` is left out silently by the other versions. ``compact`` false keeps the classic form of a
    string in flexible versions too.
    """

    name: str
    kind: WireType | type[Struct]
    is_array: bool
    since: int
    until: int | None
    default: Any
    ignorable: bool
    nullable_since: int | None
    tag: int | None
    compact: bool

    def in_version(self, version: int) -> bool:
        """Whether *version* carries this field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Whether null may be sent in *version*."""
        return self.nullable_since is not None and version >= self.nullable_since

    @property
    def format(self) -> str:
        """The ``struct`` format of one value; empty where there is none."""
        return self.kind.format if isinstance(self.kind, WireType) else ""

    @property
    def is_number(self) -> bool:
        """Whether the field is one number, of a size that does not depend on it."""
        return not self.is_array and bool(self.format)

    def make_default(self) -> Any:
        """A value of its own for a new object."""
        if self.default is not None:
            if self.is_array:
                return []
            if isinstance(self.kind, type):
                return self.kind()
        return self.default


@dataclass(frozen=True, slots=True)
class Codec:
    """Encoder and decoder of one class in one version; ``least`` is the size of its smallest value."""

    put: Put
    take: Take
    least: int


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
            self.takes.append(_set_default(field, self.setter(field)))

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
        self.takes.extend(_set_default(field, self.setter(field)) for field in tagged)
        ordered = [(tag, *known[tag][:2]) for tag in sorted(known)]

        def put(writer: Writer, value: Any) -> None:
            sent = [
                (tag, codec.put, item)
                for tag, codec, field in ordered
                if (item := getattr(value, field.name)) != field.make_default()
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
    flexible = flexible and field.compact
    if field.is_array:
        return _array(field, version, flexible, nullable)
    if isinstance(field.kind, WireType):
        return _scalar(field.kind, flexible, nullable)
    return codec_of(field.kind, version, flexible)


def _scalar(kind: WireType, flexible: bool, nullable: bool) -> Codec:
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


def _array(field: Declared, version: int, flexible: bool, nullable: bool) -> Codec:
    put_length, take_length, least = _length(flexible, wide=True)
    if field.format:
        put_items, take_items = _numbers(field.format)
    else:
        item = field_codec(replace(field, is_array=False, nullable_since=None), version, flexible)
        put_items, take_items = _items(item)

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
    size = struct.calcsize(">" + form)

    def put(writer: Writer, value: Sequence[Any]) -> None:
        writer.buf += struct.pack(f">{len(value)}{form}", *value)

    def take(reader: Reader, length: int) -> list[Any]:
        count = reader.count(length, size)
        start = reader.pos
        reader.pos += count * size
        return list(struct.unpack_from(f">{count}{form}", reader.data, start))

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
    raise TypeError("None, where this version has no null")


def _refuse_unless_default(cls: type[Struct], field: Declared, version: int) -> Put:
    def check(writer: Writer, value: Any) -> None:
        if (item := getattr(value, field.name)) != field.make_default():
            raise UnsupportedVersionError(
                f"{cls.__qualname__} cannot carry {field.name}={item!r} in version {version}"
            )

    return check


def _set_default(field: Declared, store: Callable[[Any, Any], None]) -> Callable[[Reader, Any], None]:
    def set_default(reader: Reader, value: Any) -> None:
        store(value, field.make_default())

    return set_default


def _put_no_tagged(writer: Writer, value: Any) -> None:
    writer.buf.append(0)


def _skip_tagged(reader: Reader, value: Any) -> None:
    reader.skip_tagged_fields()
