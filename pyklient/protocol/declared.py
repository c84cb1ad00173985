"""A field as declared: its type, the versions that carry it, and what stands in for it in the others."""

from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["Declared", "Struct", "WireType"]


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

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in self.declared)

    def __repr__(self) -> str:
        shown = (each.name for each in self.declared if not each.secret)
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


@dataclass(frozen=True, slots=True)
class Declared:
    """One field as declared.

    ``since`` and ``until`` bound the versions that carry it (None: to the newest), ``nullable_since`` those
    in which it may be null (None: never), ``tag`` is its number where it is a tagged field. A field that is
    ``ignorable`` is left out silently by the other versions. ``compact`` false keeps the classic form of a
    string in flexible versions too. ``secret`` values are shown nowhere. ``null_is_empty`` reads null as
    empty bytes.
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

    @property
    def makes_defaults(self) -> bool:
        """Whether every object needs a default of its own, because it can be changed."""
        return self.default is not None and (self.is_array or isinstance(self.kind, type))

    def make_default(self) -> Any:
        """A default for a new object."""
        if self.makes_defaults:
            return [] if self.is_array or not isinstance(self.kind, type) else self.kind()
        return self.default
