"""The bounded queue of a classic producer, between the threads that call ``send`` and the send thread.

Any number of threads put events into the queue. One thread, the send thread, drains it: it removes many
events with one call. A put wakes the send thread only when the queue has enough events, so that a put costs
little time.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from pyklient.classic.locks import new_queue_lock
from pyklient.kernel import EventBuffer

__all__ = ["EventQueue"]

_Event = TypeVar("_Event")

_NEVER: Final = float("inf")
_NONE: Final = -1
"""The limit of the queue's length when the queue is closed. With this limit, the kernel adds no more
messages."""
_GRACE: Final = 0.1
"""The number of seconds that ``put`` waits, even with a time-out of 0, if the send thread has been woken but
has not run yet. In this case, the send thread is only waiting for the GIL, and will soon make space."""


class EventQueue(Generic[_Event]):
    """A queue of at most *capacity* events: the messages that a program has passed to ``send``.

    *enqueue_timeout* is the number of seconds for which a put waits while the queue is full. 0 means that it
    does not wait, and None that it waits without a limit. ``events`` are the events in the queue.
    """

    def __init__(self, capacity: int, enqueue_timeout: float | None) -> None:
        self._capacity = capacity
        self._enqueue_timeout = enqueue_timeout
        self._half_full = max(1, capacity // 2)
        self._lock = new_queue_lock()
        """Guards all attributes. A thread never waits while it holds this lock. The compiled kernel adds
        messages without the lock."""
        self.events = EventBuffer(capacity, self._lock)
        self._closed: Callable[[], Exception] | None = None
        """A function that makes the error that a put raises after ``close``. None before ``close``."""
        self._drainer: int | None = None
        """The identifier of the send thread while it runs. Its puts do not wait, because no other thread
        makes space."""
        self._drainer_waits = False
        self._wakes_at: float = _NEVER
        """A put wakes the send thread when the queue has so many events; infinite if no put shall wake it."""
        self._wakeup: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Wakes the send thread."""
        self._waiting: list[queue.SimpleQueue[None]] = []
        """For each thread that waits for space, the queue that wakes it."""

    @property
    def capacity(self) -> int:
        """The largest number of events in the queue."""
        return self._capacity

    def __len__(self) -> int:
        return len(self.events)

    @property
    def closed(self) -> bool:
        """True once the queue accepts no more events."""
        return self._closed is not None

    def raise_if_closed(self) -> None:
        """If the queue is closed, call the function that was passed to ``close``, and raise the exception
        that it returns."""
        if self._closed is not None:
            raise self._closed()

    def put(self, events: Sequence[_Event]) -> int:
        """Add *events* in order. Return how many were added.

        Each event waits for space, at most as long as the enqueue time-out. If an event does not get space,
        the events after it are not added either. Raises the exception of :meth:`raise_if_closed` if the queue
        is closed, even if it is closed while the call waits.
        """
        count = len(events)
        with self._lock:
            added = self._append(events)
        while added < count:
            more = self._wait_and_append(events[added:])
            if more == 0:
                break
            added += more
        return added

    def begin_draining(self) -> None:
        """Remember that the calling thread is the send thread. From now on, its puts do not wait."""
        self._drainer = threading.get_ident()

    def end_draining(self) -> None:
        """Remember that the send thread ends. Otherwise, a later thread with the same identifier would count
        as the send thread."""
        self._drainer = None

    def drain(self, most: int) -> list[_Event]:
        """Remove up to *most* events and return them, without waiting."""
        with self._lock:
            drained: list[_Event] = self.events.drain(most)
            if self._waiting and drained:
                self._wake_waiting()
        return drained

    def wait(self, wanted: int, timeout: float) -> None:
        """Wait until the queue has *wanted* events or is half full, until it is closed, or until *timeout*
        seconds have passed. Only the send thread may call this."""
        with self._lock:
            enough = min(wanted, self._half_full)
            if self._closed is not None or not self.events.hold_below(enough):
                return
            self._wakes_at = enough
            self._drainer_waits = True
        with suppress(queue.Empty):
            self._wakeup.get(timeout=min(timeout, threading.TIMEOUT_MAX))
        with self._lock:
            self._wakes_at = _NEVER
            self._drainer_waits = False
            if self._closed is None:
                self.events.limit = self._capacity
            while not self._wakeup.empty():
                self._wakeup.get_nowait()

    def close(self, error: Callable[[], Exception]) -> None:
        """Accept no more events. From now on, a put calls the function *error* and raises the exception that
        *error* returns. Further calls of this method do nothing.

        The send thread can still remove the events that are in the queue.
        """
        with self._lock:
            if self._closed is None:
                self._closed = error
                self.events.limit = _NONE
                self._wake_drainer()
                self._wake_waiting()

    def abandon(self, error: Callable[[], Exception]) -> None:
        """Close the queue and drop all its events, because this is a child process after a fork."""
        self._lock = new_queue_lock()
        self._closed = error
        self.events.limit = _NONE
        self.events = EventBuffer(self._capacity, self._lock)
        self._waiting = []

    def _append(self, events: Sequence[_Event]) -> int:
        """Append *events* in order until the queue is full. Return how many were appended. The lock must be
        held."""
        self.raise_if_closed()
        added = self.events.add(events)
        if len(self.events) >= self._wakes_at:
            self._wake_drainer()
        return added

    def _wait_and_append(self, events: Sequence[_Event]) -> int:
        """Wait for space for the first of *events*. Then append events until the queue is full; return how
        many were appended."""
        timeout = self._enqueue_timeout
        if threading.get_ident() == self._drainer:
            timeout = 0.0
        elif timeout == 0 and self._drainer_waits:
            timeout = _GRACE
        deadline = _NEVER if timeout is None else time.monotonic() + timeout
        while True:
            space: queue.SimpleQueue[None] = queue.SimpleQueue()
            with self._lock:
                added = self._append(events)
                left = deadline - time.monotonic()
                if added or left <= 0:
                    return added
                self._waiting.append(space)
            try:
                space.get(timeout=min(left, threading.TIMEOUT_MAX))
            except queue.Empty:
                continue
            finally:
                with self._lock:
                    if space in self._waiting:
                        self._waiting.remove(space)

    def _wake_drainer(self) -> None:
        self._wakes_at = _NEVER
        self._wakeup.put(None)

    def _wake_waiting(self) -> None:
        for space in self._waiting:
            space.put(None)
        self._waiting.clear()
