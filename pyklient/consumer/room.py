"""How much may be fetched ahead: one byte budget over all partitions of a client.

Half of it is dealt evenly, so that every partition can always be fetched however slow the others' readers
are. The other half goes to whoever can use it. What is under way counts as if it had arrived.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pyklient.consumer.claim import Claim, Piece

__all__ = ["Frames", "Room"]

_SMALLEST_FETCH = 64 * 1024
_IDLE_BYTES = 8 * 1024 * 1024


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

    def allow(self, claims: Iterable[Claim], per_partition: int) -> dict[Claim, int]:
        """How many bytes to fetch for each of *claims* at most; those without room are left out.

        Where nothing waits, it is the whole of *per_partition*: old brokers answer a limit below the size of
        the next message with nothing at all.
        """
        own = self._total // 2 // max(1, len(self.claims))
        spare = self._total // 2 - sum(max(0, claim.waiting_bytes - own) for claim in self.claims)
        enough = min(per_partition, own) // 2
        allowed: dict[Claim, int] = {}
        for claim in claims:
            waiting = claim.waiting_bytes
            mine = max(0, own - waiting)
            limit = min(per_partition, mine + max(0, spare)) if waiting else per_partition
            if limit < enough:
                continue
            spare -= max(0, limit - mine)
            allowed[claim] = limit
        return allowed

    def response_limit(self, fetcher: _Fetching, most: int) -> int:
        """How large *fetcher*'s next response may be, with as much again left for each other fetcher."""
        others = sum(each.in_flight for each in self.fetchers if each is not fetcher)
        left = self._total - others - sum(claim.waiting_bytes for claim in self.claims)
        return min(most, max(left // max(1, len(self.fetchers)), _SMALLEST_FETCH))

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
