"""The gap that a permanently failed batch leaves, or may leave, in the sequence of its partition.

``pyklient.producer.deliver.partition_queue`` explains the effects of a gap.
"""

from collections.abc import Sequence

from pyklient.producer.deliver.outcomes import Order
from pyklient.producer.deliver.sealed_batch import SealedBatch

__all__ = ["SequenceGap"]


class SequenceGap:
    """The batches because of which the sequence of one partition has a gap, or may have one. Callers must
    hold the sender lock."""

    __slots__ = ("doubt", "first")

    def __init__(self) -> None:
        self.first: Order | None = None
        """The position of the first batch that failed permanently and was certainly not stored. None if there
        is no such batch."""
        self.doubt: Order | None = None
        """The position of the last batch that failed permanently and may have been stored. None if there is
        no such batch."""

    def note(self, batch: SealedBatch) -> None:
        """Remember that *batch*, which failed permanently, leaves a gap in the sequence, or may leave one."""
        if batch.in_doubt:
            self.doubt = max(self.doubt or batch.order, batch.order)
        else:
            self.first = min(self.first or batch.order, batch.order)

    def stored(self, batch: SealedBatch) -> None:
        """Remember that the broker has stored *batch*. This shows that no earlier batch has left a gap."""
        if self.doubt is not None and batch.order > self.doubt:
            self.doubt = None

    def may_close(self, to_retry: Sequence[SealedBatch]) -> bool:
        """Return True if a new epoch may begin, because all batches before the gap have finished. Call this
        when nothing is in flight. *to_retry* has the batches that are to be sent again, in order."""
        if self.first is not None:
            return not to_retry or to_retry[0].order >= self.first
        return self.doubt is not None and not to_retry

    def clear(self) -> None:
        """Forget the gap, because a new epoch begins, or because the sequence has ended."""
        self.first = self.doubt = None
