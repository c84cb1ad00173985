"""Detects records that were deleted before they were read, and handles the option ``failOnDataLoss``."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pyklient.errors import DataLossError
from pyklient.spark.source.offset_ranges import LogEnds, OffsetRange, Offsets
from pyklient.topic_partition import TopicPartition

__all__ = ["DataLoss", "RecreatedTopics", "available"]

log = logging.getLogger("pyklient.spark")


@dataclass(frozen=True)
class DataLoss:
    """Reports lost records. If *fails* is true, a report raises an error; otherwise it logs a warning."""

    fails: bool

    def report(self, problem: str) -> None:
        """If *fails* is true, raise DataLossError with the description *problem*. Otherwise log a warning."""
        if self.fails:
            raise DataLossError(
                f"records were lost: {problem}. Set failOnDataLoss to false to continue with the records "
                "that are left (perhaps the topic keeps its records for less time than the query needs to "
                "read them)"
            )
        log.warning("records were lost: %s; the query continues with the records that are left", problem)


def available(wanted: OffsetRange, ends: LogEnds) -> tuple[OffsetRange, str | None]:
    """Return the part of *wanted* that the partition still has, and a description of the missing part (None
    if nothing is missing).

    If *wanted* starts after the end of the log, its start is an offset of a topic that was deleted and
    created again. There are two cases:

    - The end of *wanted* is smaller than its start. Then the end was looked up in the new topic. The result
      is the range from the first offset of the new topic to this end.
    - The end of *wanted* belongs to the old topic too. Then the result is empty, and the next query or
      micro-batch reads the new topic.
    """
    name, start, end = wanted
    if start > ends.next:
        kept = (
            OffsetRange(name, ends.first, min(end, ends.next)) if end < start else OffsetRange(name, end, end)
        )
        return kept, (
            f"{name} was read up to offset {start}, but it ends at {ends.next}: the topic was deleted and "
            "created again, or the end of its log was lost"
        )
    if end > ends.next:
        return OffsetRange(name, max(start, ends.first), ends.next), (
            f"{name} was to be read up to offset {end}, but it ends at {ends.next}"
        )
    if start < ends.first and start < end:
        gone = min(end, ends.first)
        return OffsetRange(name, gone, end), (
            f"offsets {start} to {gone} of {name} were deleted before they were read; the partition now "
            f"begins at {ends.first}"
        )
    return wanted, None


class RecreatedTopics:
    """Recognizes topics that were deleted and created again. The topic id of such a topic has changed.

    An offset of the old topic is not valid in the new one. Therefore this object remembers the offset at
    which reading of the old topic ended, for each partition. It cannot recognize a topic that was replaced
    before the object was created.
    """

    def __init__(self) -> None:
        self._ids: dict[str, bytes] = {}
        self._stale: dict[TopicPartition, int] = {}

    def note(self, ids: Mapping[str, bytes], offsets: Offsets) -> None:
        """Compare *ids*, the present ids of topics, with the ids of earlier calls.

        *offsets* are the offsets at which reading continues. If the id of a topic has changed, its offsets
        belong to the old topic, and ``is_stale`` returns True for them from now on.
        """
        recreated = {topic for topic, found in ids.items() if self._ids.get(topic, found) != found}
        self._stale |= {each: offset for each, offset in offsets.items() if each.topic in recreated}
        self._ids |= ids

    def is_stale(self, partition: TopicPartition, offset: int) -> bool:
        """Return True if *offset* belongs to an old topic that was deleted and created again."""
        return self._stale.get(partition) == offset
