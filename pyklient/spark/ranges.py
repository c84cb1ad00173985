"""Which offsets each task reads: planned on the driver, without Spark or a broker."""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from pyklient.model import TopicPartition

__all__ = ["OffsetRange", "split"]


class OffsetRange(NamedTuple):
    """The records of one partition from offset *start* up to, and without, *end*."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; gaps and markers count."""
        return self.end - self.start


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
