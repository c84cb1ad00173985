"""Decides how long a broker may wait for data before it answers a fetch request."""

from collections.abc import Sequence

from pyklient.consumer.fetch.fetch_position import Cursor

__all__ = ["MaxWait"]

_BRIEF_MS = 10
_LONGEST_BRIEF_MS = 100  # a loop that goes on after a pause may have to wait this long


class MaxWait:
    """Decides for how long a broker may wait for data in each request of one fetcher: for *most* milliseconds
    at most.

    While the fetcher waits for a response, it cannot ask for any other partition. So the wait is short if it
    is likely that another partition can be fetched soon.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._after_move_ms = most
        self._brief_ms = _BRIEF_MS
        self._progress = 0

    def note_move(self) -> None:
        """Make the next waits short, because the fetch of a partition has failed, or a partition is fetched
        from another offset. Its offset may soon change again, for instance if the loop skips one damaged
        batch after another. The first of these waits is the shortest, and each further wait is twice as
        long."""
        self._after_move_ms = _BRIEF_MS

    def next_ms(self, left_out: Sequence[Cursor]) -> int:
        """Return for how many milliseconds the broker may wait for data in the next request.

        The request leaves out the cursors *left_out*, because their parts of the fetch budget are used up.
        The wait is short while there are such cursors, since their loops may soon read on and free some of
        the budget. It doubles with each request during which these loops read nothing.
        """
        longest = min(self._after_move_ms, self._most)
        self._after_move_ms = min(2 * self._after_move_ms, self._most)
        if not left_out:
            return longest
        progress = sum(cursor.taken for cursor in left_out)
        self._brief_ms = _BRIEF_MS if progress != self._progress else 2 * self._brief_ms
        self._brief_ms = min(self._brief_ms, _LONGEST_BRIEF_MS)
        self._progress = progress
        return min(self._brief_ms, longest)
