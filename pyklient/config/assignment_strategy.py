"""The values of ``partition_assignment_strategy``: names of assignors, and assignors of the user."""

from collections.abc import Sequence
from typing import Final

from pyklient.assignor import Assignor
from pyklient.errors import ConfigurationError

__all__ = ["CLASSES_IN_JAVA", "parse_strategy"]

CLASSES_IN_JAVA: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
"""The names of the assignors that ship with pyklient, and the class of Java's consumer that corresponds to
each."""

_IN_ZOOKEEPER: Final = ("range", "roundrobin")
_BY_CLASS: Final = {
    f"org.apache.kafka.clients.consumer.{java}": name for name, java in CLASSES_IN_JAVA.items()
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
    known = _IN_ZOOKEEPER if in_zookeeper else tuple(CLASSES_IN_JAVA)
    found: dict[str, str | Assignor] = {}
    for each in listed:
        chosen = _BY_CLASS.get(each.strip(), each.strip()) if isinstance(each, str) else each
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
