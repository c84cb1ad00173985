"""Ranges of offsets to read, and functions that divide them among tasks and micro-batches."""

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from pyklient.topic_partition import TopicPartition

__all__ = ["LogEnds", "OffsetRange", "Offsets", "limit_ends", "split_ranges"]

Offsets: TypeAlias = Mapping[TopicPartition, int]


class LogEnds(NamedTuple):
    """The first offset of a partition, and the offset that its next record will get."""

    first: int
    next: int


class OffsetRange(NamedTuple):
    """A range of offsets of one partition, from *start* up to, but not including, *end*."""

    partition: TopicPartition
    start: int
    end: int

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end} of {self.partition}"

    @property
    def size(self) -> int:
        """The number of offsets in the range. There may be fewer records, because not every offset has a
        record."""
        return self.end - self.start


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_count: int | None = None, max_size: int | None = None
) -> list[OffsetRange]:
    """Divide *ranges* so that no range is larger than *max_size* and there are at least *min_count* ranges.

    The result has fewer than *min_count* ranges only if there are fewer than *min_count* offsets. Empty
    ranges are left out. The parts of one range differ by at most one in size, and the largest part of all is
    as small as possible.
    """
    kept = [each for each in ranges if each.size > 0]
    parts = [1 if max_size is None else -(-each.size // max_size) for each in kept]
    # The range with the largest parts gets one part more, until there are enough parts.
    queue = [(-each.size / count, index) for index, (each, count) in enumerate(zip(kept, parts, strict=True))]
    heapq.heapify(queue)
    missing = (min_count or 0) - sum(parts)
    while missing > 0 and queue:
        _, index = heapq.heappop(queue)
        if parts[index] < kept[index].size:
            parts[index] += 1
            missing -= 1
            heapq.heappush(queue, (-kept[index].size / parts[index], index))
    return [part for each, count in zip(kept, parts, strict=True) for part in _cut(each, count)]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    edges = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(whole.partition, edges[index], edges[index + 1]) for index in range(parts)]


def limit_ends(limit: int, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Return the end offsets of a read that begins at *start*, covers about *limit* offsets in total, and
    does not go beyond *latest*.

    The limit is divided in proportion to the number of offsets that each partition has to read. Each
    partition with something to read gets at least one offset, so that a small partition makes progress beside
    a large one. *start* must have an offset for every partition of *latest*.
    """
    waiting = {each: max(0, end - start[each]) for each, end in latest.items()}
    total = sum(waiting.values())
    if total <= limit:
        return dict(latest)
    return {
        each: start[each] + max(1, limit * size // total) if (size := waiting[each]) else end
        for each, end in latest.items()
    }
