"""How much may be fetched ahead: one byte budget over all partitions of a client.

Half of it is dealt evenly, so that every partition can be fetched however slow the others' readers are. The
other half is common: a partition may hold no more of it than it leaves, so that several readers that stand
still never use it up. Within that, a partition is fetched as far ahead as its reader gets in a second, two
fetches at least.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from pyklient.consumer.claim import Claim, Piece

__all__ = ["Frames", "Room"]

_SMALLEST_FETCH = 64 * 1024
_IDLE_BYTES = 16 * 1024 * 1024
"""As much as the largest response by default: one that is read from beginning to end is never moved."""
_RESPONSES = 4
"""The budget holds so many responses: one being received while others are read. Larger ones cost more, in
memory that is new each time, than they save in calls."""


class _Fetching(Protocol):
    in_flight: int


class Room:
    """The budget. ``claims`` and ``fetchers`` are replaced whole by the finder; fetchers ask for allowances.

    The numbers asked about change under way. That is harmless: readers only make room, and every fetcher
    announces what it has asked for before it asks.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self.claims: Sequence[Claim] = ()
        self.fetchers: Sequence[_Fetching] = ()

    def allow(
        self, claims: Iterable[Claim], per_partition: int, now: float, *, least: int = 1
    ) -> dict[Claim, int]:
        """How many bytes to fetch for each of *claims* at most; those without room are left out.

        *now* is in seconds, *least* the smallest limit that brings anything: old brokers answer one below
        the size of the next message with nothing at all. Where nothing waits, it is never less.
        """
        own, spare = self._own, self._spare()
        enough = max(least, min(per_partition, own // 2))
        allowed: dict[Claim, int] = {}
        for claim in claims:
            waiting = claim.waiting_bytes
            claim.pace.note(claim.taken, now)
            room = max(0, own - waiting) + max(0, spare - max(0, waiting - own))
            ahead = max(2 * per_partition, claim.pace.per_second)
            limit = int(min(per_partition, room, ahead - waiting))
            if not waiting:
                allowed[claim] = max(limit, least, min(per_partition, _SMALLEST_FETCH))
            elif limit >= enough:
                allowed[claim] = limit
        return allowed

    def response_limit(self, fetcher: _Fetching, allowed: Collection[Claim], most: int) -> int:
        """How large *fetcher*'s next response, for the claims *allowed*, may be: as much again is left for
        each other fetcher, and what is their own the claims always get."""
        others = sum(each.in_flight for each in self.fetchers if each is not fetcher)
        left = self._total - others - sum(claim.waiting_bytes for claim in self.claims)
        own = sum(max(0, self._own - claim.waiting_bytes) for claim in allowed)
        fair = max(left // max(1, len(self.fetchers)), own)
        return min(most, max(min(fair, self._total // _RESPONSES), _SMALLEST_FETCH))

    @property
    def _own(self) -> int:
        """Bytes that each partition has to itself."""
        return self._total // 2 // max(1, len(self.claims))

    def _spare(self) -> int:
        """Bytes of the common half that nobody holds; below 0 when a large batch did not fit."""
        own = self._own
        return self._total // 2 - sum(max(0, claim.waiting_bytes - own) for claim in self.claims)

    @property
    def idle_allowed(self) -> int:
        """Bytes that one fetcher's responses may hold on to beyond what waits in them."""
        return _IDLE_BYTES // max(1, len(self.fetchers))


class Frames:
    """The responses of one fetcher that are still in memory.

    The pieces of a response are slices of it, so a single one that nobody reads would keep all of it. When
    too much is kept so, the pieces of the emptiest responses move into memory of their own.
    """

    def __init__(self) -> None:
        self._frames: list[tuple[int, list[Piece]]] = []

    def add(self, size: int, pieces: list[Piece]) -> None:
        """A response of *size* bytes has been cut into *pieces*."""
        self._frames.append((size, pieces))

    def compact(self, idle_allowed: int) -> None:
        """Let go of responses that are read, and of enough of those that hardly hold anything."""
        kept = [(size, [piece for piece in pieces if piece.size]) for size, pieces in self._frames]
        self._frames = [(size, pieces) for size, pieces in kept if pieces]
        idle = {id(pieces): size - sum(piece.size for piece in pieces) for size, pieces in self._frames}
        excess = sum(idle.values()) - idle_allowed
        for _, pieces in sorted(self._frames, key=lambda frame: idle[id(frame[1])], reverse=True):
            if excess <= 0:
                break
            excess -= idle[id(pieces)]
            for piece in pieces:
                # The reader may be decoding the slice this very moment; it then keeps it until it is done.
                if piece.size:
                    piece.buffer = memoryview(bytes(piece.buffer))
            pieces.clear()
