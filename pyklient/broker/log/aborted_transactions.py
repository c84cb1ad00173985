"""Finds the aborted transactions of a range of offsets, in the transaction indexes of a log's segments."""

from bisect import bisect_right
from collections.abc import Sequence

from pyklient.broker.log.segment import Segment
from pyklient.broker.log.transaction_index import AbortedTransaction

__all__ = ["aborted_transactions"]


def aborted_transactions(segments: Sequence[Segment], start: int, end: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that have records or a transaction marker at the offset *start* or
    later, and begin before the offset *end*. *segments* are all segments of a log."""
    at = max(0, bisect_right(segments, start, key=lambda segment: segment.base_offset) - 1)
    found: list[AbortedTransaction] = []
    for segment in segments[at:]:
        for each in segment.transactions.entries:
            if each.last_offset >= start and each.first_offset < end:
                found.append(each)
            if each.last_stable_offset >= end:
                return found
    return found
