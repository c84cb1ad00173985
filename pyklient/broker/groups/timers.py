"""The timers of a group: the interface by which timers are started, the deadlines of a rebalance, and the
time limit for unused member ids."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

__all__ = ["InitialDelay", "MovableDeadline", "PendingMembers", "Timer", "Timers"]


class Timer(Protocol):
    """A timer that has been started and can be cancelled."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """The interface by which a group starts timers. The broker's event loop implements it, and so does a
    clock that a test controls."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer:
        """Call *callback* in *delay* seconds."""
        ...


class MovableDeadline:
    """A deadline that can be moved: it has at most one running timer, and a new timer replaces the old
    one."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._timer: Timer | None = None

    def set(self, delay_ms: int, callback: Callable[[], object]) -> None:
        self.cancel()
        self._timer = self._timers.call_later(delay_ms / 1000, callback)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class InitialDelay:
    """The time that an empty group waits for more members before its first generation
    (``group.initial.rebalance.delay.ms``).

    The wait takes *delay_ms*. If new members have joined by then, it takes another *delay_ms*, and so on.
    """

    def __init__(self, delay_ms: int) -> None:
        self.active = False
        self._delay_ms = delay_ms
        self._left_ms = 0
        self._has_new_member = False

    def start(self, limit_ms: int) -> bool:
        """Begin to wait for members, for at most *limit_ms* in total. Return False if the delay is 0."""
        self.active = self._delay_ms > 0
        self._left_ms = limit_ms
        return self.active

    def member_joined(self) -> None:
        self._has_new_member = True

    def next_ms(self) -> int:
        """Return how many milliseconds to wait now for more members; 0 if the wait is over."""
        delay_ms = min(self._delay_ms, self._left_ms)
        if not self._has_new_member or delay_ms <= 0:
            self.active = False
            return 0
        self._left_ms -= delay_ms
        self._has_new_member = False
        return delay_ms


class PendingMembers:
    """Member ids that the broker has sent to clients, and with which the clients have not joined yet
    (KIP-394).

    An id is forgotten if its client does not join with it within the session time-out. ``on_expiry`` is then
    called.
    """

    def __init__(self, timers: Timers, on_expiry: Callable[[], object]) -> None:
        self._timers = timers
        self._on_expiry = on_expiry
        self._by_id: dict[str, Timer] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, member_id: str, timeout_ms: int) -> None:
        self._by_id[member_id] = self._timers.call_later(timeout_ms / 1000, partial(self._expire, member_id))

    def discard(self, member_id: str) -> bool:
        """Remove *member_id*, because the client has joined or left. Return False if the id is not
        pending."""
        timer = self._by_id.pop(member_id, None)
        if timer is None:
            return False
        timer.cancel()
        return True

    def clear(self) -> None:
        for timer in self._by_id.values():
            timer.cancel()
        self._by_id.clear()

    def _expire(self, member_id: str) -> None:
        self._by_id.pop(member_id, None)
        self._on_expiry()
