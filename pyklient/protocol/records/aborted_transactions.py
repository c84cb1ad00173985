"""The aborted transactions that a fetch response lists, and a check whether a batch belongs to one of
them."""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Any, Self

from pyklient.protocol.records.layout import INT64_MAX

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """The aborted transactions of one partition in one ``read_committed`` fetch response.

    The response lists the first offset of each transaction. A transaction ends at its abort marker, which is
    found while the batches are read. Later batches of the same producer may belong to a committed
    transaction. The offsets of the markers are stored, so that batches may be read again from any earlier
    offset.
    """

    __slots__ = ("_asked", "_ended", "_in_order", "_spans")

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        """Store the pairs (producer id, first offset) that a fetch response lists."""
        self._spans: dict[int, list[list[int]]] = {}
        self._in_order: list[list[int]] = []
        """All transactions, in the order of their first offsets."""
        self._asked = 0
        """The argument *offset* of the last call of ``first_from``."""
        self._ended = 0
        """The number of transactions at the start of ``_in_order`` that ended before ``_asked``."""
        for producer_id, first in sorted(transactions, key=itemgetter(1)):
            span = [first, INT64_MAX]
            self._in_order.append(span)
            self._spans.setdefault(producer_id, []).append(span)

    @classmethod
    def listed(cls, transactions: Collection[Any] | None) -> Self | None:
        """Return an object for the *transactions* that a fetch response lists for a partition, or None if it
        lists none. *transactions* are objects of a class in :mod:`pyklient.protocol.messages`."""
        if not transactions:
            return None
        return cls((each.producer_id, each.first_offset) for each in transactions)

    def covers(self, producer_id: int, last_offset: int) -> bool:
        """Return True if the transactional batch of *producer_id* that ends at *last_offset* was aborted."""
        span = self._span(producer_id, last_offset)
        return span is not None and last_offset < span[1]

    def first_from(self, offset: int) -> int:
        """Return the first offset of the first transaction that is not known to end before *offset*, or
        INT64_MAX if there is none. Of the batches that end at *offset* or later, those before the returned
        offset were not aborted."""
        spans = self._in_order
        if offset < self._asked:
            self._ended = 0
        self._asked = offset
        while self._ended < len(spans) and spans[self._ended][1] < offset:
            self._ended += 1
        return spans[self._ended][0] if self._ended < len(spans) else INT64_MAX

    def end(self, producer_id: int, offset: int) -> None:
        """Store that an aborted transaction of *producer_id* ends at *offset*, where its abort marker was
        found."""
        span = self._span(producer_id, offset)
        if span is not None:
            span[1] = min(span[1], offset)

    def _span(self, producer_id: int, offset: int) -> list[int] | None:
        """Find the last aborted transaction of *producer_id* that begins at *offset* or before. Return its
        first offset and its end, or None if there is no such transaction."""
        spans = self._spans.get(producer_id, [])
        at = bisect_right(spans, offset, key=itemgetter(0))
        return spans[at - 1] if at else None
