"""The fields of requests, responses and other messages of the protocol: their types, the versions that carry
them, and their defaults."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, ClassVar, Final, NamedTuple

__all__ = ["DeclaredFields", "Field", "Layout", "Struct", "WireType", "initialize", "layout_of"]


@dataclass(slots=True, eq=False)
class WireType:
    """A type of the protocol: its name in Kafka, its zero value, and its ``struct`` format if it has one."""

    name: str
    zero: Any
    format: str = ""
    number: struct.Struct | None = attribute(init=False)
    """Reads and writes one value, if the type has a format."""

    def __post_init__(self) -> None:
        self.number = struct.Struct(">" + self.format) if self.format else None


class Struct:
    """A structure: fields that are sent one after the other. ``declared`` lists the fields in this order."""

    __slots__ = ()

    declared: ClassVar[tuple["Field", ...]] = ()
    _made: ClassVar[int] = 0
    """The number of objects of the class that were made. The count ends when the class gets a generated
    ``__init__``."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in self.declared)

    def __repr__(self) -> str:
        shown = (each.name for each in self.declared if not each.secret)
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


@dataclass(slots=True, eq=False)
class Field:
    """A field of a structure.

    ``since`` and ``until`` are the first and the last version that carry the field; ``until`` is None if the
    newest version carries it too. The field may be null from version ``nullable_since`` on, or never if
    ``nullable_since`` is None. ``tag`` is the number of a tagged field. Versions that do not have an
    ``ignorable`` field leave it out without an error. If ``compact`` is False, a string has its old form in
    flexible versions too, instead of the compact form. The value of a ``secret`` field is never shown.
    ``null_is_empty`` means that null is read as empty bytes.
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
    secret: bool
    null_is_empty: bool
    format: str = attribute(init=False)
    """The ``struct`` format of a single value of the field; empty if its type has none."""
    number: struct.Struct | None = attribute(init=False)
    """Reads and writes the value of the field, if the value is one number of a fixed size."""
    makes_defaults: bool = attribute(init=False)
    """True if every object with this field needs its own copy of the default, because the default is a
    mutable object."""

    def __post_init__(self) -> None:
        # These are attributes and not properties, because the first messages of a client read them often.
        kind = self.kind
        self.format, self.number = ("", None) if isinstance(kind, type) else (kind.format, kind.number)
        if self.is_array:
            self.number = None
        self.makes_defaults = self.default is not None and (self.is_array or isinstance(kind, type))

    def in_version(self, version: int) -> bool:
        """Return True if requests or responses of *version* have this field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Return True if the field may be null in *version*."""
        return self.nullable_since is not None and version >= self.nullable_since

    def make_default(self) -> Any:
        """Return the default value of this field for a new object."""
        if self.makes_defaults:
            return [] if self.is_array or not isinstance(self.kind, type) else self.kind()
        return self.default


class Layout(NamedTuple):
    """The fields of a structure, by how one version sends them."""

    sent: tuple[Field, ...]
    """The fields that are always sent, in this order."""
    tagged: dict[int, Field]
    """The tagged fields by their tags, in the order of the tags."""
    absent: tuple[Field, ...]
    """The fields that the version does not have."""
    numbers: struct.Struct | None
    """Reads the fields in ``sent`` together, if all of them are numbers."""


_layouts: Final[dict[tuple[type[Struct], int], Layout]] = {}
"""The layouts that were used, by structure and version."""


def layout_of(cls: type[Struct], version: int) -> Layout:
    """Return the layout of *cls* in *version*."""
    layout = _layouts.get((cls, version))
    if layout is None:
        layout = _layouts[cls, version] = _new_layout(cls, version)
    return layout


def _new_layout(cls: type[Struct], version: int) -> Layout:
    declared = cls.declared
    present = [each for each in declared if each.in_version(version)]
    sent = tuple([each for each in present if each.tag is None])
    tagged = sorted([(each.tag, each) for each in present if each.tag is not None])
    absent = tuple([each for each in declared if not each.in_version(version)])
    formats = [each.format for each in sent if each.number is not None]
    numbers = struct.Struct(">" + "".join(formats)) if sent and len(formats) == len(sent) else None
    return Layout(sent, dict(tagged), absent, numbers)


class DeclaredFields:
    """A placeholder for the attribute ``declared`` of a structure. When the attribute is first read, *make*
    is called, and the fields that it returns replace this object."""

    def __init__(self, make: Callable[[], tuple[Field, ...]]) -> None:
        self._make = make

    def __get__(self, instance: Struct | None, owner: type[Struct]) -> tuple[Field, ...]:
        owner.declared = fields = self._make()
        return fields


_DEFAULT: Final = object()
"""The default of an argument of a generated ``__init__`` whose field has a mutable default. It means that the
structure gets its own new copy of the field's default."""

_FEW: Final = 20
"""The number of objects of a class that are made without a generated ``__init__``. A client makes most
requests once or twice, and generating an ``__init__`` takes as long as making fifty objects without one."""


def initialize(value: Struct, /, **arguments: Any) -> None:
    """Set the fields of *value*. This function is the ``__init__`` of a structure until more than a few
    objects of its class have been made.

    The arguments are the values of fields. Fields without an argument get their defaults.
    """
    cls = type(value)
    cls._made += 1
    if cls._made > _FEW:
        init = _generated_init(cls)
        type.__setattr__(cls, "__init__", init)
        init(value, **arguments)
        return
    for field in cls.declared:
        name = field.name
        setattr(value, name, arguments.pop(name) if name in arguments else field.make_default())
    for name in arguments:
        raise TypeError(f"{cls.__qualname__}.__init__() got an unexpected keyword argument {name!r}")


def _generated_init(cls: type[Struct]) -> Callable[..., None]:
    names: dict[str, Any] = {"_default": _DEFAULT}
    parameters, lines = [], []
    for number, field in enumerate(cls.declared):
        name = field.name
        if field.makes_defaults:
            names[f"_new_{number}"] = list if field.is_array else field.kind
            parameters.append(f"{name}=_default")
            lines.append(f" _value.{name} = _new_{number}() if {name} is _default else {name}")
        else:
            names[f"_default_{number}"] = field.default
            parameters.append(f"{name}=_default_{number}")
            lines.append(f" _value.{name} = {name}")
    head = f"def __init__({', '.join(['_value', '*', *parameters] if parameters else ['_value'])}):"
    exec("\n".join([head, *lines, " pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
