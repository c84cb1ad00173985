"""Divides items into groups of consecutive items."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

__all__ = ["split_evenly"]

_T = TypeVar("_T")


def split_evenly(items: Sequence[_T], takers: int) -> list[Sequence[_T]]:
    """Divide *items* into *takers* groups of consecutive items. The sizes of the groups differ by at most
    one, and larger groups come first.

    >>> split_evenly(range(10), 3)
    [range(0, 4), range(4, 7), range(7, 10)]
    """
    share, extra = divmod(len(items), takers)
    starts = [share * taker + min(taker, extra) for taker in range(takers + 1)]
    return [items[start:end] for start, end in pairwise(starts)]
