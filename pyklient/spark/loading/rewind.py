"""Decides which loads a rewound load replaces, and where it begins.

A load is replaced as a whole, because its rows need not have the offsets of their records. So a rewound load
replaces the first load that has read a record at or after the given point, and all loads after it. It begins
at the offsets at which the first of the replaced loads began, so each record is stored once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.spark.loading.data_set import Manifest
from pyklient.spark.offsets_json import from_json, to_json
from pyklient.spark.source.offset_lookup import OffsetLookup
from pyklient.spark.source.source_options import Bound
from pyklient.topic_partition import TopicPartition

__all__ = ["Rewind", "RewindTo", "check_rewind", "find_rewind"]

RewindTo: TypeAlias = datetime | Mapping[TopicPartition, int]
"""The point to which a load is rewound: a time with a time zone, or an offset for some partitions."""


@dataclass(frozen=True)
class Rewind:
    """The numbers of the loads to replace, and a manifest whose ``end`` has the offsets at which these loads
    began.

    ``present`` has the numbers of all loads in the data set, including the loads to replace.
    """

    replaced: tuple[int, ...]
    before: Manifest
    present: tuple[int, ...]


def check_rewind(rewind_to: RewindTo, max_records: int | None) -> RewindTo:
    """Return *rewind_to* if it is a time with a time zone, or maps partitions to offsets. Otherwise raise
    ConfigurationError or TypeError. Also raise ConfigurationError if *max_records* is given, because the two
    cannot be combined."""
    if max_records is not None:
        raise ConfigurationError(
            "rewind_to replaces loads as a whole, so it cannot be combined with max_records: leave one of "
            "them out"
        )
    if not isinstance(rewind_to, datetime):
        positions = argument_checks.positions(rewind_to, "rewind_to")
        return {each: position.offset for each, position in positions.items()}
    if rewind_to.tzinfo is None:
        raise ConfigurationError(
            f"rewind_to={rewind_to!r} has no time zone: pass datetime(…, tzinfo=UTC), for example"
        )
    return rewind_to


def find_rewind(
    lookup: OffsetLookup, loads: Sequence[Manifest], partitions: Collection[TopicPartition], to: RewindTo
) -> Rewind | None:
    """Return the Rewind of a load of *partitions* that is rewound to the point *to*. *loads* are the loads in
    the data set.

    Return None if no load has read a record at or after that point. Raises ConfigurationError if the new load
    would not have all records of the loads that it replaces.
    """
    read = {each for load in loads for each in from_json(load.end)}
    if isinstance(to, Mapping):
        if unknown := sorted(to.keys() - read):
            raise ConfigurationError(
                f"rewind_to has an offset for {unknown[0]}, but no load has read this partition; leave it out"
            )
        points = dict(to)
    else:
        milliseconds = max(0, round(to.timestamp() * 1000))
        there = [each for each in partitions if each in read]
        points = lookup.offsets(there, Bound("rewind_to", milliseconds, timed=True))
    first = next((number for number, load in enumerate(loads) if _has_read(load, points)), None)
    if first is None:
        return None
    replaced = loads[first:]
    starts: dict[TopicPartition, int] = {}
    ids: dict[str, str] = {}
    for load in replaced:
        starts = from_json(load.start) | starts
        ids = {topic: load.topic_ids[topic] for topic in load.start if topic in load.topic_ids} | ids
        if None not in (load.cluster_id, lookup.cluster_id) and load.cluster_id != lookup.cluster_id:
            raise ConfigurationError(
                f"load {load.load} has records of cluster {load.cluster_id}, but these brokers belong to "
                f"cluster {lookup.cluster_id}, so no load of these brokers' records can replace it; rewind "
                f"to a point after load {load.load}"
            )
    if missing := sorted(starts.keys() - set(partitions)):
        raise ConfigurationError(
            f"load {replaced[0].load} and later ones also have records of {missing[0]}, which this load does "
            "not read: they would be lost. Load all topics of the replaced loads, or rewind to a later point"
        )
    newest = loads[-1]
    return Rewind(
        tuple(load.load for load in replaced),
        replace(newest, end=to_json(newest.positions | starts), topic_ids=newest.topic_ids | ids),
        tuple(load.load for load in loads),
    )


def _has_read(load: Manifest, points: Mapping[TopicPartition, int]) -> bool:
    """Return True if *load* has read an offset at or after one of *points*."""
    ends = load.positions
    return any(
        each in points and ends[each] > max(at, points[each]) for each, at in from_json(load.start).items()
    )
