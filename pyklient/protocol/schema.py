"""Declares each request, response or other message of the protocol as one class for all its versions.

The annotation of a field is its type in the protocol; the default tells which versions have the field::

    @message(key=12, versions=(0, 4), flexible=4)
    class HeartbeatRequest(ApiMessage):
        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: String | None = since(3, default=None)

Fields are declared in the order in which they are sent. ``list[T]`` is an array, ``T | None`` may be null,
and a nested class with ``@struct`` is a structure. Every field has a default: the zero of its type, if no
other default is given. So an object of such a class is made with keyword arguments for only the fields that
matter.
"""

import struct as binary
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
)

from pyklient.errors import ProtocolError, UnsupportedVersionError
from pyklient.protocol.decoder_generation import decoder
from pyklient.protocol.encoder_generation import encoder
from pyklient.protocol.encoding_errors import ENCODING_ERRORS, find_unencodable
from pyklient.protocol.field_decoding import Decode, first_decoder
from pyklient.protocol.field_encoding import Encode, first_encoder
from pyklient.protocol.message_fields import DeclaredFields, Field, Struct, WireType, initialize
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
"""The type of record bytes: a buffer or a sequence of buffers when sent, a memoryview of the frame when
received."""

_F = TypeVar("_F")

_ZERO: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """The properties of a field except for its name and type, such as the versions that have the field."""

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
    """Declare a field that all versions of a request or response have, and that needs one of the properties
    below.

    *nullable_since* is the first version in which None may be sent. If *secret* is true, the value is shown
    neither by ``repr`` nor in errors. If *null_is_empty* is true, the field must not be null, but is read as
    empty bytes if a peer sends null.
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
    """Declare a field that exists from *version* on. If *until* is given, it is the last version with the
    field.

    If *ignorable* is true, other versions silently leave out a value that they cannot carry, instead of
    raising an error. *nullable_since* is the first version in which None may be sent. If *compact* is False,
    a string has its old form in flexible versions too, instead of the compact form.
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
    """Declare a field that exists up to and including *version*. If *ignorable* is true, later versions
    silently leave out a value that they cannot carry, instead of raising an error. *nullable_since* is the
    first version in which None may be sent."""
    return _Span(until=version, default=default, ignorable=ignorable, nullable_since=nullable_since)


def tagged(tag: int, *, since: int, default: Any = _ZERO, ignorable: bool = False) -> Any:
    """Declare a tagged field (KIP-482) that exists from the version *since* on. It is sent together with its
    number *tag*, and only if it does not have its default. If *ignorable* is true, earlier versions silently
    leave out a value that they cannot carry."""
    return _Span(tag=tag, since=since, default=default, ignorable=ignorable)


EMPTY: Final[Any] = _Span()
"""A default for fields: an empty array, or a structure whose fields all have their defaults."""


_FIRST_MESSAGES: Final = 20
"""The number of requests or responses of one kind and version that are encoded, or decoded, without a
generated function. A client that makes one request of a kind would spend more time on generating the function
than on the request."""

_LARGE: Final = 4096
"""The size in bytes above which a message is large. A function is generated for the first large response, and
for the request that follows the first large request."""


class _ByVersion(dict[int, _F]):
    """A table of functions by version. An entry is made when it is first used, because most versions are
    never used. *make* returns the function for a version, and raises UnsupportedVersionError for an unknown
    version."""

    def __init__(self, make: Callable[[int], _F]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, version: int) -> _F:
        function = self[version] = self._make(version)
        return function


class ApiMessage(Struct):
    """A message of Kafka's protocol: a request, a response, a header, or other data that has versions of its
    own.

    ``api_key`` is -1 if the message is neither a request nor a response. ``versions`` are the first and the
    last known version. ``flexible`` is the first version with compact lengths and tagged fields, or None if
    no version has them.
    """

    __slots__ = ()

    api_key: ClassVar[int] = -1
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible: ClassVar[int | None] = None

    _encoders: ClassVar[_ByVersion[Encode]]
    _decoders: ClassVar[_ByVersion[Decode]]
    _faster_encoder: ClassVar[Callable[[int, Encode], Encode | None] | None] = None
    _faster_decoder: ClassVar[Callable[[int, Decode], Decode | None] | None] = None

    def __init_subclass__(cls) -> None:
        cls._encoders = _ByVersion(cls._first_encoder)
        cls._decoders = _ByVersion(cls._first_decoder)

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return True if *version* of this request or response has compact lengths and tagged fields."""
        return cls.flexible is not None and version >= cls.flexible

    @classmethod
    def encode_with(cls, faster: Callable[[int, Encode], Encode | None]) -> None:
        """Encode objects of this class with a function that is faster than a generated one, from now on.

        *faster* is called with a version and an encoder for this version, which is slow. It returns an
        encoder that makes the same bytes, and may call the slow encoder for objects that are rare. It returns
        None for a version that it does not support.
        """
        if cls._faster_encoder is not faster:
            cls._faster_encoder = faster
            cls._encoders.clear()

    @classmethod
    def decode_with(cls, faster: Callable[[int, Decode], Decode | None]) -> None:
        """Decode objects of this class with a function that is faster than a generated one, from now on.
        *faster* is used as in ``encode_with``."""
        if cls._faster_decoder is not faster:
            cls._faster_decoder = faster
            cls._decoders.clear()

    @classmethod
    def _first_encoder(cls, version: int) -> Encode:
        """Return an encoder for *version* that needs no generated code. When it has encoded a few objects, it
        replaces itself with a generated encoder. If several threads generate an encoder at once, one of these
        encoders is kept."""
        cls._check_version(version)
        flexible = cls.is_flexible(version)
        encode = first_encoder(cls, version, flexible)
        if cls._faster_encoder is not None and (faster := cls._faster_encoder(version, encode)) is not None:
            return faster
        left = iter(range(_FIRST_MESSAGES))

        def encode_first(writer: Writer, value: Any) -> None:
            nonlocal left
            if next(left, None) is None:
                generated = cls._encoders[version] = encoder(cls, version, flexible)
                generated(writer, value)
                return
            size = len(writer.buf)
            encode(writer, value)
            if len(writer.buf) - size > _LARGE:
                left = iter(())

        return encode_first

    @classmethod
    def _first_decoder(cls, version: int) -> Decode:
        """Return a decoder for *version* that needs no generated code. When it has decoded a few objects, it
        replaces itself with a generated decoder. If several threads generate a decoder at once, one of these
        decoders is kept."""
        cls._check_version(version)
        flexible = cls.is_flexible(version)
        decode = first_decoder(cls, version, flexible)
        if cls._faster_decoder is not None and (faster := cls._faster_decoder(version, decode)) is not None:
            return faster
        left = iter(range(_FIRST_MESSAGES))

        def decode_first(reader: Reader) -> Any:
            if reader.remaining <= _LARGE and next(left, None) is not None:
                return decode(reader)
            generated = cls._decoders[version] = decoder(cls, version, flexible)
            return generated(reader)

        return decode_first

    @classmethod
    def _check_version(cls, version: int) -> None:
        """Raise UnsupportedVersionError if *version* is unknown."""
        first, last = cls.versions
        if not first <= version <= last:
            raise UnsupportedVersionError(f"{cls.__name__} has versions {first} to {last}, not {version}")

    def encode(self, version: int) -> list[Buffer]:
        """Return the bytes of this request or response in *version*, in parts. Record bytes are separate
        parts and are not copied.

        Raises UnsupportedVersionError if *version* cannot carry a field that is set, and TypeError or
        ValueError if a value does not have the declared type.
        """
        writer = Writer()
        self.write(writer, version)
        return writer.finish()

    def write(self, writer: Writer, version: int) -> None:
        """Append the bytes of this request or response in *version* to *writer*. Raises
        UnsupportedVersionError if *version* cannot carry a field that is set, and TypeError or ValueError if
        a value does not have the declared type."""
        encode = self._encoders[version]
        try:
            encode(writer, self)
        except ENCODING_ERRORS as error:
            where = find_unencodable(type(self), version, self.is_flexible(version), self)
            kind = TypeError if isinstance(error, TypeError | AttributeError) else ValueError
            raise kind(f"{type(self).__name__} v{version} cannot be encoded: {where}") from error

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """Return the object of this class whose bytes in *version* are *buffer*. Raises ProtocolError if
        *buffer* does not contain exactly one such object."""
        reader = Reader(buffer)
        value = cls.read(reader, version)
        if reader.remaining:
            raise ProtocolError(f"{cls.__name__} v{version} has {reader.remaining} bytes too many at its end")
        return value

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the object of this class that begins at the position of *reader*, in *version*. Raises
        ProtocolError if the bytes there are not such an object."""
        decode = cls._decoders[version]
        try:
            value: Self = decode(reader)
        except binary.error:
            raise ProtocolError(f"{cls.__name__} v{version} is cut off after {reader.end} bytes") from None
        except ProtocolError as error:
            raise ProtocolError(f"{cls.__name__} v{version} cannot be decoded: {error}") from None
        return value


class Blob(ApiMessage):
    """Data with its version in front, which is sent as bytes inside a request or response, or stored in a
    record: for example the subscription of a group member."""

    __slots__ = ()

    def encode_blob(self, version: int | None = None) -> bytes:
        """Return the bytes of this object, with the version in front. By default, the version is the
        newest."""
        chosen = self.versions[1] if version is None else version
        return b"".join([chosen.to_bytes(2, "big"), *self.encode(chosen)])

    @classmethod
    def decode_blob(cls, buffer: Buffer) -> Self:
        """Return the object of this class in *buffer*, which begins with the version.

        Bytes of a newer version are read as if they had the newest known version; further fields are ignored.
        """
        reader = Reader(buffer)
        version = reader.int16()
        if version < cls.versions[0]:
            raise ProtocolError(f"a {cls.__name__} has the unknown version {version}")
        return cls.read(reader, min(version, cls.versions[1]))


_S = TypeVar("_S", bound=Struct)
_M = TypeVar("_M", bound=ApiMessage)


@dataclass_transform(kw_only_default=True)
def struct(cls: type[_S]) -> type[_S]:
    """Declare *cls* as a structure inside a request, a response or another message of the protocol."""
    # This makes no dataclass, because that takes ten times as long. The modules of a client declare a hundred
    # structures, and a program uses a few. What a class needs besides its slots is made on its first use.
    hints = cls.__annotations__
    body = dict(vars(cls))
    spans = {name: body.pop(name) for name in hints}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body |= {
        "__slots__": tuple(hints),
        "__qualname__": cls.__qualname__,
        "__init__": initialize,
        "declared": DeclaredFields(
            lambda: tuple(_declared(spans[name], name, hint) for name, hint in hints.items())
        ),
    }
    return cast(type[_S], type(cls.__name__, cls.__bases__, body))


@dataclass_transform(kw_only_default=True)
def message(
    *, key: int = -1, versions: tuple[int, int], flexible: int | None = None
) -> Callable[[type[_M]], type[_M]]:
    """Return a decorator that declares a class as a request, a response or another message of the protocol.
    *key* is the API key, *versions* the first and the last version, and *flexible* the first version with
    compact lengths and tagged fields."""

    def declare(cls: type[_M]) -> type[_M]:
        made = struct(cls)
        made.api_key = key
        made.versions = versions
        made.flexible = flexible
        return made

    return declare


def _declared(span: Any, name: str, hint: Any) -> Field:
    """Return the Field for the attribute *name*, from its annotation *hint* and its default *span*."""
    if not isinstance(span, _Span):
        span = _Span(default=span)
    # The functions of ``typing`` that return these attributes take much longer.
    options = getattr(hint, "__args__", ())
    nullable = NoneType in options
    if nullable:
        (hint,) = [option for option in options if option is not NoneType]
    is_array = getattr(hint, "__origin__", None) is list
    if is_array:
        (hint,) = hint.__args__
    kind = hint if isinstance(hint, type) else hint.__metadata__[0]
    default = span.default
    if default is _ZERO:
        default = [] if is_array else kind.zero if isinstance(kind, WireType) else kind()
    return Field(
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
