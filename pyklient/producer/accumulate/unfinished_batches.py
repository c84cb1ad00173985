"""The batches of a producer whose records do not all have a result yet.

The time that a method takes does not grow with the number of unfinished batches, except for ``all``. There
may be tens of thousands of unfinished batches, and each record that waits for memory asks which of them are
open.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from pyklient.kernel import Batch

__all__ = ["UnfinishedBatches"]

_NONE: Final[Mapping[int, int]] = {}


class UnfinishedBatches:
    """The unfinished batches of all topics, the oldest first. The batch lock must be held to use it.

    Ctrl-C may end a call between any two steps. The counts by partition may then be too low by one, which
    makes the choice of a sticky partition less fair for a moment.
    """

    def __init__(self) -> None:
        # A plain dict would search its first entry behind all that were removed before.
        self._batches: OrderedDict[Batch, None] = OrderedDict()
        self._maybe_open: dict[Batch, None] = {}
        """The batches that were added since the last call of ``drain_open``. All others are sealed."""
        self._counts: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def all_may_be_open(self) -> bool:
        """True if all unfinished batches were added since the last call of ``drain_open``, so that none of
        them is known to be sealed."""
        return len(self._maybe_open) == len(self._batches)

    def all(self) -> list[Batch]:
        """Return all unfinished batches, the oldest first."""
        return list(self._batches)

    def oldest(self) -> Batch | None:
        """Return the oldest unfinished batch, or None if there is none."""
        return next(iter(self._batches), None)

    def counts(self, topic: str) -> Mapping[int, int]:
        """Return the number of unfinished batches by partition of *topic*. Partitions without unfinished
        batches are left out."""
        return self._counts.get(topic, _NONE)

    def add(self, batch: Batch) -> None:
        """Add *batch*, to which records will be appended."""
        self._batches[batch] = None
        self._maybe_open[batch] = None
        partitions = self._counts.setdefault(batch.topic, {})
        partitions[batch.partition] = partitions.get(batch.partition, 0) + 1

    def remove(self, batches: list[Batch]) -> None:
        """Remove *batches*, because all their records have a result."""
        for batch in batches:
            self._maybe_open.pop(batch, None)
            if batch not in self._batches:
                continue
            del self._batches[batch]
            partitions = self._counts.get(batch.topic, {})
            left = partitions.pop(batch.partition, 0) - 1
            if left > 0:
                partitions[batch.partition] = left
            elif not partitions:
                self._counts.pop(batch.topic, None)

    def drain_open(self) -> list[Batch]:
        """Return all batches that are not sealed yet, the oldest first. The caller seals them.

        The time that all calls take together depends on the number of batches that were added, and not on the
        number of calls.
        """
        batches = [batch for batch in self._maybe_open if not batch.sealed]
        self._maybe_open.clear()
        return batches
