"""The outcomes of a partition's batches that must not be reported yet, because an earlier batch has not
finished."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TypeAlias

from pyklient.errors import KafkaError
from pyklient.kernel import Batch
from pyklient.producer.deliver.sealed_batch import SealedBatch

__all__ = ["Order", "Outcome", "Outcomes"]

Order: TypeAlias = tuple[int, int]
"""The position of a batch in its partition, as in ``SealedBatch.order``: the number of the batch, and the
index of its first record."""

Outcome: TypeAlias = tuple[int, int, int, int, KafkaError | None]
"""The arguments of ``Batch.report``: first, stop, base offset, timestamp, error."""


class Outcomes:
    """The outcomes that wait to be reported, in the order of the batches. Callers must hold the sender
    lock."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Order, Batch, Outcome]] = []
        """The outcomes, each with its position and the batch to which it belongs. Only this class changes the
        list."""

    def add(self, batch: SealedBatch, base_offset: int, timestamp_ms: int, error: KafkaError | None) -> None:
        """Store the outcome of *batch* until it may be reported. Call this after *batch* was removed from the
        queue or has expired."""
        outcome = (batch.first, batch.stop, base_offset, timestamp_ms, error)
        insort(self.waiting, (batch.order, batch.batch, outcome), key=_order_of)

    def drain(self, unfinished: Iterable[list[SealedBatch]]) -> list[tuple[Batch, Outcome]]:
        """Return, in order, the outcomes that may be reported now, because all earlier batches have finished.
        *unfinished* has lists of the partition's batches that have not finished, each list in order."""
        waiting = self.waiting
        stop = len(waiting)
        for batches in unfinished:
            for batch in batches:
                if not batch.expired:
                    stop = bisect_left(waiting, batch.order, 0, stop, key=_order_of)
                    break
        drained, self.waiting = waiting[:stop], waiting[stop:]
        return [(batch, outcome) for _, batch, outcome in drained]


def _order_of(entry: tuple[Order, Batch, Outcome]) -> Order:
    return entry[0]
