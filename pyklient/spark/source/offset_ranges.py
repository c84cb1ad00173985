"""Which offsets each task reads: planned on the driver, without Spark or a broker."""

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyklient.topic_partition import TopicPartition

__all__ = ["LogEnds", "OffsetRange", "Offsets", "share_out", "split", "within"]

Offsets = Mapping[TopicPartition, int]


class LogEnds(NamedTuple):
    """What a partition holds: its first offset, and the one that the next record will get."""

    first: int
    next: int


class OffsetRange(NamedTuple):
    """The records of one partition from offset *start* up to, and without, *end*."""

    partition: TopicPartition
    start: int
    end: int

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end} of {self.partition}"

    @property
    def size(self) -> int:
        """How many offsets; gaps and markers count."""
        return self.end - self.start


def within(wanted: OffsetRange, log: LogEnds) -> tuple[OffsetRange, str | None]:
    """What is there of *wanted*, and what is wrong if that is not all of it.

    A beginning behind the end of the log is of a topic that was there before. The new one is read from its
    first offset on where *wanted* ends in it, and is left to the next query or micro-batch otherwise.
    """
    name, start, end = wanted
    if start > log.next:
        kept = (
            OffsetRange(name, log.first, min(end, log.next)) if end < start else OffsetRange(name, end, end)
        )
        return kept, (
            f"{name} was read up to offset {start} and ends at {log.next}: it was deleted and created again, "
            "or has lost its end"
        )
    if end > log.next:
        return OffsetRange(name, max(start, log.first), log.next), (
            f"{name} is to be read up to offset {end} and ends at {log.next}"
        )
    if start < log.first and start < end:
        gone = min(end, log.first)
        return OffsetRange(name, gone, end), (
            f"offsets {start} to {gone} of {name} are gone before they were read; it begins at {log.first}"
        )
    return wanted, None


def split(
    ranges: Iterable[OffsetRange], *, at_least: int | None = None, most: int | None = None
) -> list[OffsetRange]:
    """*ranges* cut so that none is larger than *most* and there are *at_least* so many, as far as they have
    offsets for that; empty ones are left out. The pieces of a range differ by one in size, and the largest
    piece of all is as small as it can be."""
    kept = [each for each in ranges if each.size > 0]
    pieces = [1 if most is None else -(-each.size // most) for each in kept]
    # The range with the largest pieces is cut once more, until there are enough.
    queue = [
        (-each.size / count, index) for index, (each, count) in enumerate(zip(kept, pieces, strict=True))
    ]
    heapq.heapify(queue)
    missing = (at_least or 0) - sum(pieces)
    while missing > 0 and queue:
        _, index = heapq.heappop(queue)
        if pieces[index] < kept[index].size:
            pieces[index] += 1
            missing -= 1
            heapq.heappush(queue, (-kept[index].size / pieces[index], index))
    return [piece for each, count in zip(kept, pieces, strict=True) for piece in _cut(each, count)]


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    edges = [whole.start + whole.size * index // pieces for index in range(pieces + 1)]
    return [OffsetRange(whole.partition, edges[index], edges[index + 1]) for index in range(pieces)]


def share_out(limit: int, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Where a micro-batch from *start* ends, if about *limit* offsets are to be in it.

    Each partition gets its share by what waits in it, and one at least, so that a small one moves beside a
    large one. *start* names every partition of *latest*.
    """
    waiting = {each: max(0, end - start[each]) for each, end in latest.items()}
    total = sum(waiting.values())
    if total <= limit:
        return dict(latest)
    return {
        each: start[each] + max(1, limit * size // total) if (size := waiting[each]) else end
        for each, end in latest.items()
    }
