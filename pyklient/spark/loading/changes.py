"""What a load has in common with those before it in the same directory, unless a change is asked for.

Readers take the loads of a directory together, and the offsets of one load say where the next begins. With
another topic, another cluster or another type of a column, rows would stand together that do not belong so.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from pyklient.errors import ConfigurationError
from pyklient.spark.loading.data_set import Manifest

__all__ = ["Change", "Changes"]

Change: TypeAlias = Literal["cluster", "columns", "topics"]

_CHANGES: Final = get_args(Change)
_LISTED: Final = 5


@dataclass(frozen=True)
class Changes:
    """Compares a load into *uri* with *before*, the newest of those that are there; *allowed* are the changes
    that have been asked for."""

    uri: str
    before: Manifest | None
    allowed: Collection[Change]

    def __post_init__(self) -> None:
        if isinstance(self.allowed, str):
            raise TypeError(f"allow takes a list of changes: [{self.allowed!r}]")
        for each in self.allowed:
            if each not in _CHANGES:
                raise ConfigurationError(f"allow: {each!r} is not one of {', '.join(map(repr, _CHANGES))}")

    def continued(self, cluster_id: str | None, topics: Collection[str]) -> Manifest | None:
        """Return what a load of *topics* goes on from: where it is of another cluster, without offsets.

        Raises ConfigurationError for another cluster, and for topics none of which was loaded before.
        """
        before = self.before
        if before is None:
            return None
        if None not in (cluster_id, before.cluster_id) and cluster_id != before.cluster_id:
            if "cluster" not in self.allowed:
                raise ConfigurationError(
                    f"{self.uri} holds loads from cluster {before.cluster_id}, and these brokers are of "
                    f"cluster {cluster_id}, where the same offsets are of other records. Load into another "
                    "directory, or pass allow=['cluster'] to load this cluster's topics from their beginning"
                )
            before = replace(before, end={}, topic_ids={})
        if "topics" not in self.allowed and before.end and topics and not set(topics) & before.end.keys():
            raise ConfigurationError(
                f"{self.uri} holds loads of {_named(before.end)}, and this load is of {_named(topics)}. Load "
                f"into another directory; to add topics to this one, name {min(before.end)} too, or pass "
                "allow=['topics']"
            )
        return before

    def check_columns(self, columns: Mapping[str, str]) -> None:
        """Raises ConfigurationError where *columns*, name → type, are other ones than before."""
        if self.before is None or self.before.columns is None or "columns" in self.allowed:
            return
        known = self.before.columns
        differences = [
            *(
                f"column {name} is {columns[name]} and was {kind}"
                for name, kind in known.items()
                if columns.get(name, kind) != kind
            ),
            *(f"column {name} ({kind}) is new" for name, kind in columns.items() if name not in known),
            *(f"column {name} ({kind}) is missing" for name, kind in known.items() if name not in columns),
        ]
        if differences:
            raise ConfigurationError(
                f"{self.uri} holds loads with other columns: {'; '.join(differences)}. Readers take the "
                "columns of all loads from one of them. Load into another directory, or pass "
                "allow=['columns']"
            )


def _named(topics: Collection[str]) -> str:
    listed = sorted(topics)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"topic{'s' if len(listed) > 1 else ''} {', '.join(listed[:_LISTED])}{more}"
