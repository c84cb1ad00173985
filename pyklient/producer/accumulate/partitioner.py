"""Which partition a record goes to.

A record with a key goes where Java's client sends it: murmur2 of the key, modulo the number of partitions.
The kernel does that by itself, and keeps records without a key together: they stick to one partition until
its batch is full or on its way, then to another (KIP-480), which is what StickyPartitioner chooses.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from pyklient.errors import ConfigurationError

__all__ = ["Partitioner", "StickyPartitioner", "as_partitioner"]

Partitioner = Callable[[str, bytes | None, int], int]
"""``(topic, key, partition_count) -> partition``; the key as the encoder has made it."""


def as_partitioner(partitioner: Any) -> Partitioner | None:
    """The ``partitioner`` option as a plain function that returns a partition that exists; None stays None.

    Raises ConfigurationError for what is no partitioner; so does the function for an answer out of range.
    """
    if partitioner is None:
        return None
    # A class is callable, and text has a partition() of its own; neither is meant.
    method = None if isinstance(partitioner, type | str | bytes) else getattr(partitioner, "partition", None)
    choose = method if callable(method) else partitioner
    if not callable(choose) or isinstance(choose, type):
        raise ConfigurationError(
            f"partitioner={partitioner!r} is not a partitioner: pass a function "
            "(topic, key, partition_count) -> int, or an object with such a partition()"
        )

    def checked(topic: str, key: bytes | None, count: int) -> int:
        number = choose(topic, key, count)
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
            raise ConfigurationError(
                f"the partitioner chose {number!r} for topic {topic!r}, which has {count} partitions: "
                f"it must return a whole number from 0 to {count - 1}"
            )
        return number

    return checked


class StickyPartitioner:
    """Where records without a key go next. *dice* is the source of chance.

    Of two partitions drawn at random the one with less waiting in it is taken: partitions whose broker is
    slow get less, as in KIP-794, and the others get the same.
    """

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def next(self, available: Sequence[int], count: int, current: int, waiting: Callable[[int], int]) -> int:
        """Another partition than *current*: one of those *available*, that is with a leader, or of all
        *count* where none is. *waiting* tells how many batches a partition has under way. The price does not
        depend on how many partitions there are."""
        candidates = available or range(count)
        if len(candidates) == 1:
            return candidates[0]
        one = self._draw(candidates, current)
        if not waiting(one):
            return one
        return min(one, self._draw(candidates, current), key=waiting)

    def _draw(self, candidates: Sequence[int], current: int) -> int:
        """One of two candidates or more, but not *current*."""
        while (number := candidates[int(self._dice.random() * len(candidates))]) == current:
            pass
        return number
