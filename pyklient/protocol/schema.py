"""Messages declared once, as data, for all their versions.

A message is a dataclass whose annotations are wire types, and whose fields say from when to when they exist::

    @message(key=12, versions=(0, 4), flexible=4)
    class HeartbeatRequest(ApiMessage):
        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: String | None = since(3, default=None)

Fields stand in the order of the wire. ``list[T]`` is an array, ``T | None`` may be null, and a nested class
under ``@struct`` is a structure. Every field has a default, the wire type's zero where none is given, so a
message is made with keywords and needs only what matters.
"""

import struct as binary
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from inspect import get_annotations
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, dataclass_transform, get_args, get_origin

from pyklient.errors import ProtocolError, UnsupportedVersionError
from pyklient.protocol.codec import UNENCODABLE, ByVersion, culprit
from pyklient.protocol.declared import Declared, Struct, WireType
from pyklient.protocol.decoding import Decode, decoder
from pyklient.protocol.encoding import Encode, encoder
from pyklient.protocol.primitives import ZERO_UUID, Buffer, Reader, Writer

__all__ = [
    "EMPTY",
    "Blob",
    "Boolean",
    "Bytes",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "ApiMessage",
    "Records",
    "String",
    "Struct",
    "Uint16",
    "Uint32",
    "Uuid",
    "always",
    "message",
    "since",
    "struct",
    "tagged",
    "until",
]

Boolean = Annotated[bool, WireType("bool", False, "?")]
Int8 = Annotated[int, WireType("int8", 0, "b")]
Int16 = Annotated[int, WireType("int16", 0, "h")]
Uint16 = Annotated[int, WireType("uint16", 0, "H")]
Int32 = Annotated[int, WireType("int32", 0, "i")]
Uint32 = Annotated[int, WireType("uint32", 0, "I")]
Int64 = Annotated[int, WireType("int64", 0, "q")]
Float64 = Annotated[float, WireType("float64", 0.0, "d")]
String = Annotated[str, WireType("string", "")]
Bytes = Annotated[bytes, WireType("bytes", b"")]
Uuid = Annotated[bytes, WireType("uuid", ZERO_UUID)]
Records = Annotated[Any, WireType("records", None)]
"""Record bytes. To send: a buffer, or a sequence of buffers in a row. Received: a memoryview of the frame."""

_F = TypeVar("_F")

_ZERO: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """What a declaration says of a field beside its type."""

    since: int = 0
    until: int | None = None
    default: Any = _ZERO
    ignorable: bool = False
    nullable_since: int = 0
    tag: int | None = None
    compact: bool = True
    secret: bool = False
    null_is_empty: bool = False


def always(
    default: Any = _ZERO, *, nullable_since: int = 0, secret: bool = False, null_is_empty: bool = False
) -> Any:
    """A field of all versions. Needed where there is more to say than a plain default says.

    ``nullable_since``: the first version in which None may be sent. ``secret``: shown neither by ``repr`` nor
    in errors. ``null_is_empty``: bytes that may not be null, and are read as empty where a peer sends null.
    """
    return _Span(default=default, nullable_since=nullable_since, secret=secret, null_is_empty=null_is_empty)


def since(
    version: int,
    *,
    until: int | None = None,
    default: Any = _ZERO,
    ignorable: bool = False,
    nullable_since: int = 0,
    compact: bool = True,
) -> Any:
    """A field from *version* on, up to and with ``until`` where given.

    ``ignorable``: versions without the field leave it out, where others refuse a value they cannot carry.
    ``compact=False``: the classic form of a string in flexible versions too.
    """
    return _Span(
        since=version,
        until=until,
        default=default,
        ignorable=ignorable,
        nullable_since=nullable_since,
        compact=compact,
    )


def until(version: int, *, default: Any = _ZERO, ignorable: bool = False, nullable_since: int = 0) -> Any:
    """A field up to and with *version*. The rest as in :func:`since`."""
    return _Span(until=version, default=default, ignorable=ignorable, nullable_since=nullable_since)


def tagged(tag: int, *, since: int, default: Any = _ZERO, ignorable: bool = False) -> Any:
    """A tagged field: sent with its number, and only where its value is not the default (KIP-482)."""
    return _Span(tag=tag, since=since, default=default, ignorable=ignorable)


EMPTY: Final[Any] = _Span()
"""The default of an array (empty), or of a structure (all fields default)."""


class ApiMessage(Struct):
    """A request, a response or a header: everything that has versions of its own.

    ``api_key`` is -1 for what is neither request nor response; ``versions`` is the first and the last version
    known; ``flexible`` is the first version with compact lengths and tagged fields, None where there is none.
    """

    __slots__ = ()

    api_key: ClassVar[int] = -1
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible: ClassVar[int | None] = None

    _encoders: ClassVar[ByVersion[Encode]]
    _decoders: ClassVar[ByVersion[Decode]]

    def __init_subclass__(cls) -> None:
        cls._encoders = ByVersion(lambda version: cls._for_version(encoder, version))
        cls._decoders = ByVersion(lambda version: cls._for_version(decoder, version))

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether *version* has compact lengths and tagged fields."""
        return cls.flexible is not None and version >= cls.flexible

    @classmethod
    def _for_version(cls, make: Callable[[type[Struct], int, bool], _F], version: int) -> _F:
        """An encoder or a decoder for *version*, if that is known."""
        first, last = cls.versions
        if not first <= version <= last:
            raise UnsupportedVersionError(f"{cls.__name__} has versions {first} to {last}, not {version}")
        return make(cls, version, cls.is_flexible(version))

    def encode(self, version: int) -> list[Buffer]:
        """The bytes in *version*, in parts that follow each other; record bytes are parts, uncopied.

        Raises UnsupportedVersionError where *version* cannot carry a field that is set, TypeError or
        ValueError where a value is not of the declared type.
        """
        writer = Writer()
        self.write(writer, version)
        return writer.finish()

    def write(self, writer: Writer, version: int) -> None:
        """:meth:`encode` behind what *writer* already holds."""
        encode = self._encoders[version]
        try:
            encode(writer, self)
        except UNENCODABLE as error:
            where = culprit(type(self), version, self.is_flexible(version), self)
            kind = TypeError if isinstance(error, TypeError | AttributeError) else ValueError
            raise kind(f"{type(self).__name__} v{version} cannot be encoded: {where}") from error

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """The message in *buffer*, which it must fill. Raises ProtocolError."""
        reader = Reader(buffer)
        value = cls.read(reader, version)
        if reader.remaining:
            raise ProtocolError(f"{cls.__name__} v{version}: {reader.remaining} bytes too many at the end")
        return value

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """:meth:`decode` from where *reader* stands, leaving it behind the message."""
        decode = cls._decoders[version]
        try:
            value: Self = decode(reader)
        except binary.error:
            raise ProtocolError(f"{cls.__name__} v{version} is cut off after {reader.end} bytes") from None
        except ProtocolError as error:
            raise ProtocolError(f"{cls.__name__} v{version}: {error}") from None
        return value


class Blob(ApiMessage):
    """A message that travels inside others, behind its version (the group protocols' metadata)."""

    __slots__ = ()

    def encode_blob(self, version: int | None = None) -> bytes:
        """The bytes with the version in front; without one, the newest."""
        chosen = self.versions[1] if version is None else version
        return b"".join([chosen.to_bytes(2, "big"), *self.encode(chosen)])

    @classmethod
    def decode_blob(cls, buffer: Buffer) -> Self:
        """The message in *buffer*. A version newer than ours is read as ours, and what follows is left."""
        reader = Reader(buffer)
        version = reader.int16()
        if version < cls.versions[0]:
            raise ProtocolError(f"{cls.__name__} of version {version}")
        return cls.read(reader, min(version, cls.versions[1]))


_S = TypeVar("_S", bound=Struct)
_M = TypeVar("_M", bound=ApiMessage)


@dataclass_transform(kw_only_default=True)
def struct(cls: type[_S]) -> type[_S]:
    """Declares a structure inside a message."""
    declared = tuple(_declared(cls, name, hint) for name, hint in get_annotations(cls).items())
    for field in declared:
        setattr(cls, field.name, _dataclass_default(field))
    if not cls.__doc__:
        # The dataclass would write one, and spend more time on that than on all the rest.
        cls.__doc__ = cls.__name__
    # What Struct has for all, is not made anew for each: importing the messages takes half as long so.
    made: type[_S] = dataclass(kw_only=True, slots=True, repr=False, eq=False)(cls)
    made.declared = declared
    return made


@dataclass_transform(kw_only_default=True)
def message(
    *, key: int = -1, versions: tuple[int, int], flexible: int | None = None
) -> Callable[[type[_M]], type[_M]]:
    """Declares a message: its API key, its first and last version, and the first flexible one."""

    def declare(cls: type[_M]) -> type[_M]:
        made = struct(cls)
        made.api_key = key
        made.versions = versions
        made.flexible = flexible
        return made

    return declare


def _declared(cls: type[Struct], name: str, hint: Any) -> Declared:
    """One field from its annotation and its default."""
    span = cls.__dict__[name]
    if not isinstance(span, _Span):
        span = _Span(default=span)
    options = get_args(hint)
    nullable = NoneType in options
    if nullable:
        (hint,) = (option for option in options if option is not NoneType)
    is_array = get_origin(hint) is list
    if is_array:
        (hint,) = get_args(hint)
    kind = hint if isinstance(hint, type) else get_args(hint)[1]
    default = span.default
    if default is _ZERO:
        default = [] if is_array else kind.zero if isinstance(kind, WireType) else kind()
    return Declared(
        name=name,
        kind=kind,
        is_array=is_array,
        since=span.since,
        until=span.until,
        default=default,
        ignorable=span.ignorable,
        nullable_since=max(span.since, span.nullable_since) if nullable else None,
        tag=span.tag,
        compact=span.compact,
        secret=span.secret,
        null_is_empty=span.null_is_empty,
    )


def _dataclass_default(field: Declared) -> Any:
    if field.makes_defaults:
        return dataclass_field(default_factory=field.make_default)
    return field.default
