"""The fetch budget: how many bytes may be fetched ahead, over all partitions of a client.

Half of the budget is divided evenly between the partitions, so that each partition can be fetched however
slowly the loops of the other partitions read. The other half is common to all partitions. A partition gets
more bytes of the common half only while this half has more free bytes than the partition already uses of it.
So partitions whose loops read nothing do not use up the common half. Within these limits, a partition is
fetched as far ahead as its loop reads in one second, and at least two fetches ahead.
"""

from collections.abc import Collection, Iterable, Sequence

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches

__all__ = ["ExpectedResponse", "FetchBudget", "ResponseMemory"]

_SMALLEST_FETCH = 64 * 1024
_IDLE_BYTES = 16 * 1024 * 1024
"""The number of bytes that the fetchers together may keep in memory although loops have read them: a response
stays in memory until loops have read all of it. By default, this is the size of the largest response."""
_RESPONSES = 4
"""The number of responses of the largest size that fit into the budget: one is received while the others are
read. Larger responses would save system calls, but memory would have to be allocated for each of them, which
costs more."""

_SLICES_AT_ONCE = 100
"""The number of unread slices of responses that a fetcher may look through after each response, on average,
to find memory that it can free."""


class ExpectedResponse:
    """The response that a fetcher expects from its leader."""

    __slots__ = ("size",)

    def __init__(self, size: int = 0) -> None:
        self.size = size
        """The number of bytes that the response may have. 0 while the fetcher expects no response."""


class FetchBudget:
    """Decides how many bytes may be fetched ahead. The fetchers call :meth:`allow` before each fetch.

    The leader lookup replaces ``cursors`` and ``responses`` as a whole. Fetchers call :meth:`note_fetched`
    for the cursors whose bytes they have queued. Other threads may change the numbers of bytes while a
    fetcher adds them up. This is harmless: loops only free bytes, and :meth:`response_limit` allows each
    fetcher only its own part of the free bytes.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._unread: set[Cursor] = set()
        """The cursors with unread bytes, and maybe some others. A client may have ten thousand cursors, and
        most of them have no unread bytes."""
        self.cursors: Sequence[Cursor] = ()
        self.responses: Sequence[ExpectedResponse] = ()
        """The responses that the fetchers expect, one for each fetcher."""

    def note_fetched(self, cursor: Cursor) -> None:
        """Count the unread bytes of *cursor* from now on, because its fetcher has queued some bytes."""
        self._unread.add(cursor)

    def count_all(self) -> None:
        """Count the unread bytes of all cursors from now on. A cursor that has no unread bytes may get some
        without a fetch, when a loop returns bytes to the queue. Fetchers call this from time to time."""
        self._unread.update([cursor for cursor in self.cursors if cursor.fetched > cursor.taken])

    def allow(
        self, cursors: Iterable[Cursor], per_partition: int, now: float, *, least: int = 1
    ) -> dict[Cursor, int]:
        """Return how many bytes may be fetched for each of *cursors*. A cursor that may fetch nothing is left
        out.

        *per_partition* is the largest number of bytes of one partition in a response. *now* is in seconds of
        ``time.monotonic``. *least* is the smallest useful limit, because old brokers return nothing if the
        next message is larger than the limit. A cursor without queued bytes may always fetch at least *least*
        bytes.
        """
        own = self._own
        spare = self._spare(own)
        enough = max(least, min(per_partition, own // 2))
        allowed: dict[Cursor, int] = {}
        for cursor in cursors:
            waiting = cursor.fetched - cursor.taken
            cursor.pace.note(cursor.taken, now)
            free = max(0, own - waiting) + max(0, spare - max(0, waiting - own))
            ahead = max(2 * per_partition, cursor.pace.per_second)
            limit = int(min(per_partition, free, ahead - waiting))
            if not waiting:
                allowed[cursor] = max(limit, least, min(per_partition, _SMALLEST_FETCH))
            elif limit >= enough:
                allowed[cursor] = limit
        return allowed

    def response_limit(self, response: ExpectedResponse, allowed: Collection[Cursor], most: int) -> int:
        """Return the largest number of bytes that *response* may have, but at most *most*. The response has
        records of the cursors *allowed*.

        Each fetcher gets an equal part of the bytes that are free now. If more bytes are reserved for its
        cursors, it gets the reserved bytes instead.
        """
        left = self._total
        for each in self.responses:
            if each is not response:
                left -= each.size
        own = self._own
        reserved = own * len(allowed)
        for cursor, waiting in self._unread_bytes():
            left -= waiting
            if cursor in allowed:
                reserved -= min(own, waiting)
        fair = max(left // max(1, len(self.responses)), reserved)
        return min(most, max(min(fair, self._total // _RESPONSES), _SMALLEST_FETCH))

    @property
    def _own(self) -> int:
        """The number of bytes that are reserved for each partition."""
        return self._total // 2 // max(1, len(self.cursors))

    def _spare(self, own: int) -> int:
        """Return the number of free bytes in the common half, if *own* bytes are reserved for each partition.
        It is negative if batches were larger than allowed."""
        spare = self._total // 2
        for _, waiting in self._unread_bytes():
            spare -= max(0, waiting - own)
        return spare

    def _unread_bytes(self) -> list[tuple[Cursor, int]]:
        """Return each cursor that has unread bytes, with the number of these bytes."""
        found: list[tuple[Cursor, int]] = []
        for cursor in tuple(self._unread):
            waiting = cursor.fetched - cursor.taken
            if waiting > 0 and cursor.active:
                found.append((cursor, waiting))
                continue
            self._unread.discard(cursor)
            if cursor.fetched > cursor.taken and cursor.active:
                self._unread.add(cursor)  # its fetcher has queued bytes between these lines
        return found

    @property
    def idle_allowed(self) -> int:
        """The number of bytes that one fetcher may keep in memory although a loop has read them."""
        return _IDLE_BYTES // max(1, len(self.responses))


class ResponseMemory:
    """The responses that one fetcher has received and that are still in memory.

    Fetched batches are slices of their response, so a single slice that nobody reads keeps the whole response
    in memory. If too much memory is kept that way, the slices of the responses with the fewest unread bytes
    are copied.
    """

    def __init__(self) -> None:
        self._memory: list[tuple[int, list[FetchedBatches]]] = []
        self._parts = 0
        """The number of slices of responses that were unread after the last call of ``compact``."""
        self._calls = 0
        """The number of calls of ``compact_some`` since the last call of ``compact``."""
        self._added = 0
        """The number of bytes of the responses that were added since the last call of ``compact``."""

    def add(self, size: int, parts: list[FetchedBatches]) -> None:
        """Add a response of *size* bytes. *parts* are the fetched batches in it, each of which is a slice of
        its bytes."""
        self._memory.append((size, parts))
        self._added += size

    def compact_some(self, idle_allowed: int) -> None:
        """Call :meth:`compact`. If many slices of responses are unread, do so only after some of the
        responses, because the time of a call grows with the number of unread slices."""
        self._calls += 1
        if self._calls * _SLICES_AT_ONCE >= self._parts or self._added >= idle_allowed // 4:
            self.compact(idle_allowed)

    def compact(self, idle_allowed: int) -> None:
        """Forget responses that have been read or whose partitions were revoked.

        If the remaining responses keep more than *idle_allowed* bytes that are already read, copy the unread
        slices of the responses with the fewest unread bytes. The memory of these responses is then freed.
        """
        self._calls = self._added = 0
        kept: list[tuple[int, list[FetchedBatches]]] = []
        idle: dict[int, int] = {}
        for size, parts in self._memory:
            unread, left = [], 0
            for fetched in parts:
                if (part := fetched.size) and fetched.cursor.active:
                    unread.append(fetched)
                    left += part
            if unread:
                kept.append((size, unread))
                idle[id(unread)] = size - left
        self._memory = kept
        self._parts = sum(len(parts) for _, parts in kept)
        excess = sum(idle.values()) - idle_allowed
        if excess <= 0:
            return
        for _, parts in sorted(kept, key=lambda frame: idle[id(frame[1])], reverse=True):
            if excess <= 0:
                break
            excess -= idle[id(parts)]
            for fetched in parts:
                # A loop may be decoding the slice at this moment; it then keeps the slice until it is done.
                if fetched.size:
                    fetched.buffer = memoryview(bytes(fetched.buffer))
            parts.clear()
