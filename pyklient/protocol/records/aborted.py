"""Which batches of a fetch belong to transactions that were rolled back."""

from collections.abc import Iterable

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """What a ``read_committed`` fetch says about aborted transactions, applied while its batches go by.

    One object serves one partition of one response, from its first batch to its last: a transaction of
    the list begins at its first offset and ends at its abort marker, after which the same producer may
    commit.
    """

    __slots__ = ("_active", "_pending")

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        """*transactions* are pairs of producer id and first offset, as the response lists them."""
        self._pending = sorted(transactions, key=lambda entry: entry[1], reverse=True)
        self._active: set[int] = set()

    def covers(self, producer_id: int, last_offset: int) -> bool:
        """Whether the transactional batch of *producer_id* that ends at *last_offset* was rolled back.

        Batches must come in the order of their offsets.
        """
        self._advance(last_offset)
        return producer_id in self._active

    def end(self, producer_id: int, offset: int) -> None:
        """An abort marker of *producer_id* went by at *offset*."""
        self._advance(offset)
        self._active.discard(producer_id)

    def _advance(self, offset: int) -> None:
        pending = self._pending
        while pending and pending[-1][1] <= offset:
            self._active.add(pending.pop()[0])
