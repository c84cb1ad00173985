"""Computes the new committed offsets of a reset: the start or the end of each log, the offset at a time, a
given offset, or a distance from the committed offset.

The rules are those of Kafka's ``kafka-consumer-groups.sh --reset-offsets``: an offset that the log does not
have becomes the nearest one that it has. If all records are older than a time, the offset is the end of the
log.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from pyklient import argument_checks
from pyklient.admin.descriptions import OffsetChange, Storage, StoredOffsets
from pyklient.errors import ConfigurationError
from pyklient.net.dialogue import Dialogue
from pyklient.net.lookups.list_offsets import list_offsets
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["NewOffsets", "ResetTo", "new_offsets"]

ResetTo: TypeAlias = (
    Literal["earliest", "latest", "current"]
    | datetime
    | int
    | Mapping[TopicPartition, int | OffsetAndMetadata]
    | None
)
"""The point to which a reset moves committed offsets. None stands for a distance from the committed
offsets."""

_NAMED: Final = ("earliest", "latest", "current")


@dataclass(frozen=True, slots=True)
class NewOffsets:
    """The checked arguments of a reset, which say where to move the offsets. Exactly one of the fields is not
    None."""

    named: Literal["earliest", "latest", "current"] | None = None
    time_ms: int | None = None
    offset: int | None = None
    positions: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    shift_by: int | None = None

    @classmethod
    def of(cls, to: ResetTo, shift_by: int | None) -> "NewOffsets":
        """Return the new offsets that the arguments *to* and *shift_by* of a reset describe.

        Raises ConfigurationError unless exactly one of the two is given.
        """
        if (to is None) == (shift_by is None):
            raise ConfigurationError(
                "a reset takes either 'to' or 'shift_by': pass to='earliest', 'latest', 'current', a "
                "datetime, an offset, or an offset for each partition; or pass shift_by=-100"
            )
        if shift_by is not None:
            most = argument_checks.INT64_MAX
            return cls(shift_by=argument_checks.whole(shift_by, "shift_by", -most, most))
        if isinstance(to, datetime):
            if to.tzinfo is None:
                raise ConfigurationError(f"to={to!r} has no time zone: pass datetime(…, tzinfo=UTC)")
            return cls(time_ms=max(0, round(to.timestamp() * 1000)))
        if isinstance(to, Mapping):
            return cls(positions=argument_checks.positions(to, "to"))
        if isinstance(to, str):
            for name in _NAMED:
                if to == name:
                    return cls(named=name)
            raise ConfigurationError(f"to={to!r} is not one of {', '.join(map(repr, _NAMED))}")
        return cls(offset=argument_checks.whole(to, "to", high=argument_checks.INT64_MAX))


def new_offsets(
    wanted: NewOffsets, stored: Mapping[TopicPartition, StoredOffsets], storages: Collection[Storage]
) -> Dialogue[dict[TopicPartition, OffsetChange]]:
    """Return, for each partition in *stored*, the change that a reset to *wanted* makes in *storages*.

    *stored* must have the start and the end of each partition's log. Raises ConfigurationError if *wanted*
    shifts committed offsets, and the group has committed no offset for one of the partitions.
    """
    if wanted.time_ms is not None:
        return (yield from _at_time(wanted.time_ms, stored))
    return {each: _change(wanted, each, before, storages) for each, before in stored.items()}


def _change(
    wanted: NewOffsets, partition: TopicPartition, before: StoredOffsets, storages: Collection[Storage]
) -> OffsetChange:
    start, end = _bounds(before)
    committed = max((at for each in storages if (at := before.of(each)) is not None), default=None)
    match wanted.named:
        case "earliest":
            return OffsetChange(before, OffsetAndMetadata(start))
        case "latest":
            return OffsetChange(before, OffsetAndMetadata(end))
        case "current":
            if committed is None:
                note = "nothing is committed, so the offset is the end of the log"
                return OffsetChange(before, OffsetAndMetadata(end), note)
            return OffsetChange(before, OffsetAndMetadata(committed))
    metadata = ""
    if wanted.shift_by is not None:
        if committed is None:
            raise ConfigurationError(
                f"the offset of {partition} cannot be shifted, because the group has not committed one: "
                "leave this partition out, or reset it to 'earliest' or 'latest' first"
            )
        offset = committed + wanted.shift_by
    elif wanted.offset is not None:
        offset = wanted.offset
    else:
        assert wanted.positions is not None
        offset, metadata = wanted.positions[partition].offset, wanted.positions[partition].metadata
    within = min(max(offset, start), end)
    if within == offset:
        return OffsetChange(before, OffsetAndMetadata(within, metadata))
    where = "before the start" if offset < start else "after the end"
    return OffsetChange(before, OffsetAndMetadata(within, metadata), f"{offset} is {where} of the log")


def _at_time(
    time_ms: int, stored: Mapping[TopicPartition, StoredOffsets]
) -> Dialogue[dict[TopicPartition, OffsetChange]]:
    found = yield from list_offsets(dict.fromkeys(stored, time_ms), by_segment=True)
    changes = {}
    for each, before in stored.items():
        offset, timestamp_ms, _ = found[each]
        note = None
        if offset < 0:
            _, offset = _bounds(before)
            note = "no record is as new as that, so the offset is the end of the log"
        elif timestamp_ms < 0:
            note = "the broker knows only the times of log segments, so earlier records may follow"
        changes[each] = OffsetChange(before, OffsetAndMetadata(offset), note)
    return changes


def _bounds(stored: StoredOffsets) -> tuple[int, int]:
    assert stored.start is not None
    assert stored.end is not None
    return stored.start, stored.end
