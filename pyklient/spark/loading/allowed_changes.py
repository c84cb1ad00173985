"""Checks that a load has the same cluster, topics and columns as the earlier loads in its directory.

Readers read all loads of a directory together, and each load continues at the offsets of the load before. A
load from another cluster, of other topics or with other columns would mix unrelated rows. Therefore such a
load is an error unless the user allows the change.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from pyklient.errors import ConfigurationError
from pyklient.spark.loading.data_set import Manifest

__all__ = ["AllowedChanges", "Change"]

Change: TypeAlias = Literal["cluster", "columns", "topics"]

_CHANGES: Final = get_args(Change)
_MAX_LISTED: Final = 5


@dataclass(frozen=True)
class AllowedChanges:
    """Compares a new load into the directory *uri* with *before*, the manifest of the newest load there: its
    offsets, topics and columns.

    *allowed* has the kinds of changes that the user allows.
    """

    uri: str
    before: Manifest | None
    allowed: Collection[Change]

    def __post_init__(self) -> None:
        if isinstance(self.allowed, str):
            raise TypeError(f"allow takes a list of changes, such as [{self.allowed!r}], not a string")
        for each in self.allowed:
            if each not in _CHANGES:
                raise ConfigurationError(
                    f"allow contains {each!r}, which is not one of {', '.join(map(repr, _CHANGES))}"
                )

    def check_source(self, cluster_id: str | None, topics: Collection[str]) -> Manifest | None:
        """Return the manifest of the newest load, which has the offsets at which a new load of *topics*
        begins. Return None if there was no load before.

        Raises ConfigurationError if the cluster has changed, or if no earlier load has read any of *topics*,
        unless the user allows this change. After a change of the cluster, the returned manifest has no
        offsets.
        """
        before = self.before
        if before is None:
            return None
        if None not in (cluster_id, before.cluster_id) and cluster_id != before.cluster_id:
            if "cluster" not in self.allowed:
                raise ConfigurationError(
                    f"{self.uri} holds loads from cluster {before.cluster_id}, but these brokers belong to "
                    f"cluster {cluster_id}, where the same offsets have other records. Load into another "
                    "directory, or pass allow=['cluster'] to load the topics of this cluster from their "
                    "beginning"
                )
            before = replace(before, end={}, topic_ids={})
        if "topics" not in self.allowed and before.end and topics and not set(topics) & before.end.keys():
            raise ConfigurationError(
                f"{self.uri} has records of {_list(before.end)}, but this load reads only "
                f"{_list(topics)}. Load into another directory. If these topics belong in this directory, "
                "load one of its old topics together with them, or pass allow=['topics']"
            )
        return before

    def check_columns(self, columns: Mapping[str, str]) -> None:
        """Raise ConfigurationError if the names or types of *columns* differ from those of the earlier
        loads."""
        if self.before is None or self.before.columns is None or "columns" in self.allowed:
            return
        known = self.before.columns
        differences = [
            *(
                f"column {name} is {columns[name]}, but was {kind}"
                for name, kind in known.items()
                if columns.get(name, kind) != kind
            ),
            *(f"column {name} ({kind}) is new" for name, kind in columns.items() if name not in known),
            *(f"column {name} ({kind}) is missing" for name, kind in known.items() if name not in columns),
        ]
        if differences:
            raise ConfigurationError(
                f"{self.uri} holds loads with other columns: {'; '.join(differences)}. Readers expect the "
                "same columns in all loads. Load into another directory, or pass allow=['columns']"
            )


def _list(topics: Collection[str]) -> str:
    listed = sorted(topics)
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    return f"topic{'s' if len(listed) > 1 else ''} {', '.join(listed[:_MAX_LISTED])}{more}"
