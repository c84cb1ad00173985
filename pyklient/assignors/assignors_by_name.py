"""The assignors that ship with pyklient, and the option ``partition_assignment_strategy``, which names them.

A new assignor gets a module of its own in this folder, and a row in ``BUILT_IN_ASSIGNORS``.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple

from pyklient.assignors.assignor import Assignor
from pyklient.errors import ConfigurationError

__all__ = ["BUILT_IN_ASSIGNORS", "load_assignor", "offered_assignors", "parse_strategy"]


class BuiltInAssignor(NamedTuple):
    """An assignor that ships with pyklient: its module in this folder, and its class. The corresponding class
    of Java's consumer has the same name."""

    module: str
    class_name: str
    in_zookeeper: bool = False
    """True if the assignor also works in groups that ZooKeeper coordinates (see
    ``pyklient.consumer.group.zookeeper.thread_assignment``)."""


BUILT_IN_ASSIGNORS: Final[Mapping[str, BuiltInAssignor]] = MappingProxyType(
    {
        "range": BuiltInAssignor("range_assignor", "RangeAssignor", in_zookeeper=True),
        "roundrobin": BuiltInAssignor("round_robin_assignor", "RoundRobinAssignor", in_zookeeper=True),
        "sticky": BuiltInAssignor("sticky_assignor", "StickyAssignor"),
        "cooperative-sticky": BuiltInAssignor("sticky_assignor", "CooperativeStickyAssignor"),
    }
)
"""The assignors that ship with pyklient, by the names that ``partition_assignment_strategy`` accepts."""

_BY_JAVA_CLASS: Final = {
    f"org.apache.kafka.clients.consumer.{each.class_name}": name for name, each in BUILT_IN_ASSIGNORS.items()
}


def parse_strategy(
    strategy: str | Assignor | Sequence[str | Assignor], *, in_zookeeper: bool = False
) -> tuple[str | Assignor, ...]:
    """Return the assignors in *strategy*, in order of preference: each is a name, or the user's Assignor
    object.

    A text may contain several names, separated by commas. The class names of Java's assignors are accepted
    too, because files for Java's consumer contain them. Raises ConfigurationError if a name is unknown or is
    given twice, or if an object is not an Assignor. If *in_zookeeper* is true, *strategy* must be exactly one
    name.
    """
    listed: Sequence[object]
    if isinstance(strategy, str):
        listed = strategy.split(",")
    else:
        listed = strategy if isinstance(strategy, (list, tuple)) else [strategy]
    known = [name for name, each in BUILT_IN_ASSIGNORS.items() if each.in_zookeeper or not in_zookeeper]
    found: dict[str, str | Assignor] = {}
    for each in listed:
        chosen = _BY_JAVA_CLASS.get(each.strip(), each.strip()) if isinstance(each, str) else each
        accepted: str | Assignor
        name: str | None
        if isinstance(chosen, str) and chosen in known:
            accepted = name = chosen
        elif isinstance(chosen, Assignor) and not in_zookeeper:
            accepted, name = chosen, getattr(chosen, "name", None)
        else:
            raise ConfigurationError(
                f"partition_assignment_strategy={strategy!r}: {chosen!r} is not one of "
                f"{', '.join(map(repr, known))}"
                + (
                    ", the only assignors that work with coordination='zookeeper'"
                    if in_zookeeper
                    else ", nor an object of a subclass of pyklient.Assignor"
                )
            )
        if not isinstance(name, str) or not name:
            raise ConfigurationError(
                f"partition_assignment_strategy={strategy!r}: {chosen!r} has no name; give its class an "
                "attribute such as name = 'mine'"
            )
        if name in found:
            raise ConfigurationError(
                f"partition_assignment_strategy={strategy!r} has two assignors with the name {name!r}; "
                "remove one of them"
            )
        found[name] = accepted
    if not found or (in_zookeeper and len(found) > 1):
        raise ConfigurationError(
            f"partition_assignment_strategy={strategy!r} names {len(found)} assignors; name "
            + ("exactly one with coordination='zookeeper'" if in_zookeeper else "at least one")
        )
    return tuple(found.values())


def offered_assignors(strategy: str | Assignor | Sequence[str | Assignor]) -> Sequence[Assignor]:
    """Return the assignors that a member offers to its group: those in *strategy*, in order of preference."""
    return tuple(load_assignor(each) if isinstance(each, str) else each for each in parse_strategy(strategy))


def load_assignor(name: str) -> Assignor:
    """Return the assignor that ships with pyklient under *name*.

    The module of the assignor is imported only here, because it imports the kernel, which most clients do not
    need.
    """
    row = BUILT_IN_ASSIGNORS[name]
    assignor: Assignor = getattr(import_module(f"pyklient.assignors.{row.module}"), row.class_name)()
    return assignor
