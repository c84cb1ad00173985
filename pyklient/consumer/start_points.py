"""Start points, at which a program asks to begin reading partitions, and the offsets of these points."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.net.dialogue import Dialogue
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Start", "StartPoint", "StartPoints", "find_offsets", "start_point"]

StartPoint: TypeAlias = int | Literal["beginning", "end"] | datetime
"""An offset, the beginning or the end of the log, or a datetime with a time zone, which means the first
message at or after it."""

Start: TypeAlias = StartPoint | Mapping[TopicPartition, StartPoint] | None
"""One start point for all partitions, or a mapping from each partition to its start point. Without a start
point, a partition begins at its committed offset, or where ``auto_offset_reset`` says."""

_ENDS: Final = {"beginning": EARLIEST, "end": LATEST}
_RESETS: Final = {"earliest": "beginning", "smallest": "beginning", "latest": "end", "largest": "end"}
"""The values of ``auto_offset_reset``, and the corresponding start points."""
_ACCEPTED: Final = "pass an offset, 'beginning', 'end' or a datetime with a time zone"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def start_point(value: Any, name: str) -> StartPoint:
    """Return *value* if it is a start point. Otherwise raise an error, which says what the argument *name*
    accepts."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigurationError(
                f"{name} is {value!r}, which has no time zone; add one, e.g. timezone.utc"
            )
        return value
    if isinstance(value, str):
        if value not in _ENDS:
            advice = f"write {_RESETS[value]!r}" if value in _RESETS else _ACCEPTED
            raise ConfigurationError(f"{name} cannot be {value!r}; {advice}")
        return "beginning" if value == "beginning" else "end"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} takes an offset, 'beginning', 'end' or a datetime with a time zone, not {value!r}"
        )
    return argument_checks.whole(value, name, high=argument_checks.INT64_MAX)


class StartPoints:
    """The argument *start* of a call that begins to read topics.

    If *replaces_committed* is true, reading begins at *start* in any case. Otherwise reading begins at
    *start* only if no offset is committed.
    """

    def __init__(self, start: Start = None, *, replaces_committed: bool = False) -> None:
        self._points: dict[TopicPartition, StartPoint] = {}
        self._all: StartPoint | None = None
        self._replaces_committed = replaces_committed
        if isinstance(start, Mapping):
            for key, value in start.items():
                where = argument_checks.partition(key, "a key of start")
                self._points[where] = start_point(value, f"start[{where}]")
        elif start is not None:
            self._all = start_point(start, "start")

    def check_topics(self, topics: Collection[str]) -> None:
        """Raise ConfigurationError if a start point is given for a partition of a topic that is not in
        *topics*."""
        for each in self._points:
            if each.topic not in topics:
                raise ConfigurationError(
                    f"start names {each}, but topic {each.topic} is not one of those to read: "
                    f"{', '.join(sorted(topics))}"
                )

    def check_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Raise ConfigurationError if a start point is given for a partition that is not to be read."""
        for each in self._points:
            if each not in partitions:
                raise ConfigurationError(
                    f"start names {each}, which is not one of the partitions to read: "
                    f"{', '.join(map(str, sorted(partitions)))}"
                )

    def to_find(
        self, committed: Mapping[TopicPartition, OffsetAndMetadata | None], *, created: bool
    ) -> dict[TopicPartition, StartPoint]:
        """Return the start point of each partition that begins at one, and not at its offset in *committed*.

        If *created* is true, the partitions have just been created. Such a partition begins at its first
        message, unless the program has named a start point for this partition.
        """
        wanted = [each for each, at in committed.items() if at is None or self._replaces_committed]
        points = {each: self._points.get(each, None if created else self._all) for each in wanted}
        return {each: point for each, point in points.items() if point is not None}


def find_offsets(
    points: Mapping[TopicPartition, StartPoint], isolation_level: int
) -> Dialogue[dict[TopicPartition, int]]:
    """Return the offset of the start point of each partition.

    If all messages are earlier than a datetime, the offset is the end of the log. If *isolation_level* is 1,
    the log ends at the last stable offset. Brokers before Kafka 0.10.1 do not know the times of messages, so
    they may return the offset of an earlier message.
    """
    found = {each: point for each, point in points.items() if isinstance(point, int)}
    times = {each: _time(point) for each, point in points.items() if not isinstance(point, int)}
    # The ends come first, so that no message is skipped that arrives between the two requests.
    ends = {each: LATEST for each, time in times.items() if time != EARLIEST}
    if ends:
        listed = yield from list_offsets(ends, isolation_level)
        found.update((each, at.offset) for each, at in listed.items())
    asked = {each: time for each, time in times.items() if time != LATEST}
    if asked:
        listed = yield from list_offsets(asked, by_segment=True)
        found.update((each, at.offset) for each, at in listed.items() if at.offset >= 0)
    return found


def _time(point: datetime | str) -> int:
    """Return the number that stands for *point* in a ListOffsets request. For a datetime, it is the
    milliseconds since 1970, rounded up."""
    if isinstance(point, str):
        return _ENDS[point]
    return max(0, -((_EPOCH - point) // _MILLISECOND))
