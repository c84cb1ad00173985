"""Chooses the partition of a record: the interface of user-defined partitioners, and the sticky partitioner.

A record with a key goes to the same partition as with Java's client: murmur2 of the key, modulo the number of
partitions. The kernel computes this. Records without a key all go to the sticky partition until its batch is
full. If its batches are sent before they are full, the records go there until the partition has got enough
bytes (KIP-794). Then StickyPartitioner chooses the next sticky partition.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyklient.errors import ConfigurationError

__all__ = ["Partitioner", "StickyPartitioner", "as_partitioner"]

_MANY: Final = 5
"""If the sticky partition has this number of unfinished batches, another partition becomes the sticky one. By
default, so many batches of one partition may be in flight, and a further batch would have to wait."""

Partitioner = Callable[[str, bytes | None, int], int]
"""A function ``(topic, key, partition_count) -> partition``. It gets the key as bytes, after the key
encoder."""


def as_partitioner(partitioner: Any) -> Partitioner | None:
    """Return the option ``partitioner`` as a function, or None if it is None.

    Raises ConfigurationError if *partitioner* is neither a function nor an object with a method
    ``partition``.
    """
    if partitioner is None:
        return None
    # Classes are callable, and strings have a method named partition. Neither is a partitioner.
    method = None if isinstance(partitioner, type | str | bytes) else getattr(partitioner, "partition", None)
    choose = method if callable(method) else partitioner
    if not callable(choose) or isinstance(choose, type):
        raise ConfigurationError(
            f"partitioner={partitioner!r} is not a partitioner: pass a function "
            "(topic, key, partition_count) -> int, or an object with a method partition(topic, key, "
            "partition_count) -> int"
        )
    found: Partitioner = choose
    return found


class StickyPartitioner:
    """Chooses the next partition for records without a key.

    It draws two partitions at random and chooses the partition that has fewer unfinished batches. So a
    partition whose broker is slow gets fewer records, as in KIP-794, and the other partitions get equally
    many. If *adaptive* is false, all partitions get equally many.
    """

    def __init__(self, random_numbers: random.Random, *, adaptive: bool = True) -> None:
        self._random = random_numbers.random
        self._adaptive = adaptive

    def may_stay(self, unfinished: int) -> bool:
        """Return True unless the sticky partition is to be replaced early, because its broker is slow.
        *unfinished* is the number of unfinished batches of the partition."""
        return not self._adaptive or unfinished < _MANY

    def next(self, available: Sequence[int], count: int, current: int, unfinished: Mapping[int, int]) -> int:
        """Return a partition other than *current*, if there is another one.

        The partition is one of *available*, the partitions that have a leader. If *available* is empty, the
        partition is one of all *count* partitions. *unfinished* maps partitions to the number of their
        unfinished batches. A partition without unfinished batches is not in *unfinished*.
        """
        candidates = available or range(count)
        if len(candidates) == 1:
            return candidates[0]
        one = self._draw(candidates, current)
        if not self._adaptive or one not in unfinished:
            return one
        other = self._draw(candidates, current)
        return one if unfinished[one] <= unfinished.get(other, 0) else other

    def _draw(self, candidates: Sequence[int], current: int) -> int:
        """Return a random partition in *candidates* other than *current*. *candidates* has at least two
        partitions."""
        while (number := candidates[int(self._random() * len(candidates))]) == current:
            pass
        return number
