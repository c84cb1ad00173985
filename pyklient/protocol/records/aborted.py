"""Which batches of a fetch belong to transactions that were rolled back."""

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter

from pyklient.protocol.records.layout import INT64_MAX

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """What a ``read_committed`` fetch says about aborted transactions, completed while its batches go by.

    One object serves one partition of one response. A transaction of the list begins at its first offset
    and ends at its abort marker, which only the batches show; from there on the same producer may commit.
    What has been seen stays true, so batches may be read again from any place already passed.
    """

    __slots__ = ("_spans",)

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        """*transactions* are pairs of producer id and first offset, as the response lists them."""
        self._spans: dict[int, list[list[int]]] = {}
        for producer_id, first in sorted(transactions, key=itemgetter(1)):
            self._spans.setdefault(producer_id, []).append([first, INT64_MAX])

    def covers(self, producer_id: int, last_offset: int) -> bool:
        """Whether the transactional batch of *producer_id* that ends at *last_offset* was rolled back."""
        span = self._span(producer_id, last_offset)
        return span is not None and last_offset < span[1]

    def end(self, producer_id: int, offset: int) -> None:
        """An abort marker of *producer_id* went by at *offset*."""
        span = self._span(producer_id, offset)
        if span is not None:
            span[1] = min(span[1], offset)

    def _span(self, producer_id: int, offset: int) -> list[int] | None:
        """First offset and end of the producer's last transaction that begins at *offset* or before."""
        spans = self._spans.get(producer_id, [])
        at = bisect_right(spans, offset, key=itemgetter(0))
        return spans[at - 1] if at else None
