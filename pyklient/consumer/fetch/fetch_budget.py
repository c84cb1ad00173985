"""How much may be fetched ahead: one byte budget over all partitions of a client.

Half of it is dealt evenly, so that every partition can be fetched however slow the others' readers are. The
other half is common: a partition may hold no more of it than it leaves, so that several readers that stand
still never use it up. Within that, a partition is fetched as far ahead as its reader gets in a second, two
fetches at least.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches

__all__ = ["ResponseMemory", "FetchBudget"]

_SMALLEST_FETCH = 64 * 1024
_IDLE_BYTES = 16 * 1024 * 1024
"""As much as the largest response by default: one that is read from beginning to end is never moved."""
_RESPONSES = 4
"""The budget holds so many responses: one being received while others are read. Larger ones cost more, in
memory that is new each time, than they save in calls."""


class _Fetching(Protocol):
    in_flight: int


class FetchBudget:
    """The bytes that may be fetched ahead. The leader lookup replaces ``cursors`` and ``fetchers`` whole;
    fetchers ask for allowances.

    The numbers asked about change under way. That is harmless: readers only make room, and every fetcher
    announces what it has asked for before it asks.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self.cursors: Sequence[Cursor] = ()
        self.fetchers: Sequence[_Fetching] = ()

    def allow(
        self, cursors: Iterable[Cursor], per_partition: int, now: float, *, least: int = 1
    ) -> dict[Cursor, int]:
        """How many bytes to fetch for each of *cursors* at most; those without room are left out.

        *now* is in seconds, *least* the smallest limit that brings anything: old brokers answer one below
        the size of the next message with nothing at all. Where nothing waits, it is never less.
        """
        own, spare = self._own, self._spare()
        enough = max(least, min(per_partition, own // 2))
        allowed: dict[Cursor, int] = {}
        for cursor in cursors:
            waiting = cursor.waiting_bytes
            cursor.pace.note(cursor.taken, now)
            room = max(0, own - waiting) + max(0, spare - max(0, waiting - own))
            ahead = max(2 * per_partition, cursor.pace.per_second)
            limit = int(min(per_partition, room, ahead - waiting))
            if not waiting:
                allowed[cursor] = max(limit, least, min(per_partition, _SMALLEST_FETCH))
            elif limit >= enough:
                allowed[cursor] = limit
        return allowed

    def response_limit(self, fetcher: _Fetching, allowed: Collection[Cursor], most: int) -> int:
        """How large *fetcher*'s next response, for the cursors *allowed*, may be: as much again is left for
        each other fetcher, and what is their own the cursors always get."""
        others = sum(each.in_flight for each in self.fetchers if each is not fetcher)
        left = self._total - others - sum(cursor.waiting_bytes for cursor in self.cursors)
        own = sum(max(0, self._own - cursor.waiting_bytes) for cursor in allowed)
        fair = max(left // max(1, len(self.fetchers)), own)
        return min(most, max(min(fair, self._total // _RESPONSES), _SMALLEST_FETCH))

    @property
    def _own(self) -> int:
        """Bytes that each partition has to itself."""
        return self._total // 2 // max(1, len(self.cursors))

    def _spare(self) -> int:
        """Bytes of the common half that nobody holds; below 0 when a large batch did not fit."""
        own = self._own
        return self._total // 2 - sum(max(0, cursor.waiting_bytes - own) for cursor in self.cursors)

    @property
    def idle_allowed(self) -> int:
        """Bytes that one fetcher's responses may hold on to beyond what waits in them."""
        return _IDLE_BYTES // max(1, len(self.fetchers))


class ResponseMemory:
    """The responses of one fetcher that are still in memory.

    The parts of a response are slices of it, so a single one that nobody reads would keep all of it. When
    too much is kept so, the parts of the emptiest responses move into memory of their own.
    """

    def __init__(self) -> None:
        self._memory: list[tuple[int, list[FetchedBatches]]] = []

    def add(self, size: int, parts: list[FetchedBatches]) -> None:
        """A response of *size* bytes has been cut into *parts*."""
        self._memory.append((size, parts))

    def compact(self, idle_allowed: int) -> None:
        """Let go of responses that are read, or whose partitions have been taken away, and of enough of those
        that hardly hold anything."""
        kept = [
            (size, [fetched for fetched in parts if fetched.size and fetched.cursor.active])
            for size, parts in self._memory
        ]
        self._memory = [(size, parts) for size, parts in kept if parts]
        idle = {id(parts): size - sum(fetched.size for fetched in parts) for size, parts in self._memory}
        excess = sum(idle.values()) - idle_allowed
        for _, parts in sorted(self._memory, key=lambda frame: idle[id(frame[1])], reverse=True):
            if excess <= 0:
                break
            excess -= idle[id(parts)]
            for fetched in parts:
                # The reader may be decoding the slice this very moment; it then keeps it until it is done.
                if fetched.size:
                    fetched.buffer = memoryview(bytes(fetched.buffer))
            parts.clear()
