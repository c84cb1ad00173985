"""Notes which brokers have accepted no request for too long. Records without a key then go to the partitions
of other leaders."""

import time
from collections.abc import Callable
from typing import Final

__all__ = ["LeaderAvailability"]

_NONE: Final[frozenset[int]] = frozenset()


class LeaderAvailability:
    """The brokers that accept no request at present, and since when.

    A broker that has accepted no request for *timeout* seconds is not available, as with Java's option
    ``partitioner.availability.timeout.ms``. If *timeout* is 0, every broker is available. The sender notes
    what brokers do, and users' threads ask which are not available. *clock* returns monotonic seconds.
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout = timeout
        self._clock = clock
        self._blocked_since: dict[int, float] = {}

    def blocked(self, node_id: int) -> None:
        """Remember that the broker *node_id* accepts no request now."""
        if self._timeout and node_id not in self._blocked_since:
            self._blocked_since[node_id] = self._clock()

    def accepts(self, node_id: int) -> None:
        """Remember that the broker *node_id* has just accepted a request, or could accept one."""
        if self._blocked_since:
            self._blocked_since.pop(node_id, None)

    def unavailable(self) -> frozenset[int]:
        """Return the brokers that have accepted no request for longer than the timeout."""
        if not self._blocked_since:
            return _NONE
        before = self._clock() - self._timeout
        return frozenset(node_id for node_id, since in self._blocked_since.copy().items() if since < before)
