"""The leader epochs of the records that a stream has decoded (KIP-320).

A commit stores the leader epoch of the last record before the committed offset. If the partition's log has
been truncated to a smaller offset meanwhile, the next owner of the partition can notice the truncation.
"""

from typing import Final

from pyklient.topic_partition import TopicPartition

__all__ = ["UNKNOWN_EPOCH", "ReadEpochs"]

UNKNOWN_EPOCH: Final = -1
"""The leader epoch of records in the formats 0 and 1, which do not contain it."""

_MOST_RANGES: Final = 8
"""The largest number of ranges of offsets whose leader epochs are kept for each partition. Messages that are
in hand at the same time rarely have more than two leader epochs."""


class _Range:
    """A range of offsets whose records were decoded one after another and have the same leader epoch."""

    __slots__ = ("end", "leader_epoch", "start")

    def __init__(self, start: int, end: int, leader_epoch: int) -> None:
        self.start = start
        self.end = end
        self.leader_epoch = leader_epoch


class ReadEpochs:
    """The leader epochs of the records that were decoded last, for each partition. The stream's lock must be
    held to use it."""

    def __init__(self) -> None:
        self._ranges: dict[TopicPartition, list[_Range]] = {}

    def note(self, partition: TopicPartition, start: int, end: int, leader_epoch: int) -> None:
        """Remember that the records from the offset *start* up to, but not including, *end* have
        *leader_epoch*."""
        ranges = self._ranges.setdefault(partition, [])
        if ranges:
            last = ranges[-1]
            if last.leader_epoch == leader_epoch and last.start <= start <= last.end:
                last.end = max(last.end, end)
                return
            # The log may have been cut off and written again, so the newest records count.
            ranges[:] = [each for each in ranges if each.start < start][1 - _MOST_RANGES :]
            for each in ranges:
                each.end = min(each.end, start)
        ranges.append(_Range(start, end, leader_epoch))

    def before(self, partition: TopicPartition, offset: int) -> int:
        """Return the leader epoch of the last record before *offset*. Return UNKNOWN_EPOCH if the stream has
        not decoded it lately."""
        for each in reversed(self._ranges.get(partition, ())):
            if each.start < offset <= each.end:
                return each.leader_epoch
        return UNKNOWN_EPOCH

    def forget(self, partition: TopicPartition) -> None:
        """Forget the leader epochs of *partition*."""
        self._ranges.pop(partition, None)
