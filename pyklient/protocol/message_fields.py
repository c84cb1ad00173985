"""The fields of requests, responses and other messages of the protocol: their types, the versions that carry
them, and their defaults."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

__all__ = ["DeclaredFields", "Field", "Struct", "WireType", "initialize"]


@dataclass(frozen=True, slots=True)
class WireType:
    """A type of the protocol: its name in Kafka, its zero value, and its ``struct`` format if it has one."""

    name: str
    zero: Any
    format: str = ""


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


@dataclass(frozen=True, slots=True)
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

    def in_version(self, version: int) -> bool:
        """Return True if requests or responses of *version* have this field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Return True if the field may be null in *version*."""
        return self.nullable_since is not None and version >= self.nullable_since

    @property
    def format(self) -> str:
        """The ``struct`` format of a single value of the field; empty if its type has none."""
        return self.kind.format if isinstance(self.kind, WireType) else ""

    @property
    def is_number(self) -> bool:
        """True if the value of the field is one number of a fixed size."""
        return not self.is_array and bool(self.format)

    @property
    def makes_defaults(self) -> bool:
        """True if every object with this field needs its own copy of the default, because the default is a
        mutable object."""
        return self.default is not None and (self.is_array or isinstance(self.kind, type))

    def make_default(self) -> Any:
        """Return the default value of this field for a new object."""
        if self.makes_defaults:
            return [] if self.is_array or not isinstance(self.kind, type) else self.kind()
        return self.default


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
