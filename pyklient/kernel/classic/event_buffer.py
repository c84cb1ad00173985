"""EventBuffer, the queue of a classic producer, and the method that adds messages to it. The messages in the
queue are called events. Written in Python; the compiled kernel must behave exactly as this module."""

from collections import deque
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from pyklient.kernel.classic.keyed_message import KeyedMessage

__all__ = ["EventBuffer", "EventSender"]


class EventBuffer:
    """The events (messages to be sent) of a bounded queue, in order. Each call is atomic, because it holds
    *lock*.

    ``EventSender.send`` adds messages only if the queue has at most ``limit`` events afterwards. ``add`` adds
    events until the queue has *capacity* events.
    """

    __module__ = "pyklient.kernel"

    def __init__(self, capacity: int, lock: RLock) -> None:
        self.limit = capacity
        """The number of events (messages) up to which ``EventSender.send`` fills the queue."""
        self._capacity = capacity
        self._lock = lock
        self._events: deque[Any] = deque()

    def __len__(self) -> int:
        return len(self._events)

    def add_below_limit(self, messages: Sequence[Any]) -> bool:
        """Add *messages* if the queue has at most ``limit`` events afterwards. Return True if they were
        added."""
        # In the child of a fork the lock may be held for ever, and the limit is below 0.
        if len(self._events) + len(messages) > self.limit:
            return False
        with self._lock:
            if len(self._events) + len(messages) > self.limit:
                return False
            self._events.extend(messages)
            return True

    def add(self, events: Sequence[Any]) -> int:
        """Add *events* in order, until the queue is full. Return how many were added."""
        with self._lock:
            space = max(0, self._capacity - len(self._events))
            added = events if len(events) <= space else events[:space]
            self._events.extend(added)
            return len(added)

    def drain(self, most: int) -> list[Any]:
        """Remove at most *most* of the oldest events and return them as a list."""
        with self._lock:
            pop = self._events.popleft
            return [pop() for _ in range(min(most, len(self._events)))]

    def hold_below(self, count: int) -> bool:
        """Set ``limit`` to *count* - 1, and return True. If the queue has *count* events or more already,
        change nothing, and return False."""
        with self._lock:
            if len(self._events) >= count:
                return False
            self.limit = count - 1
            return True


class EventSender:
    """The base class of ClassicProducer. It adds KeyedMessages to ``_buffer``, and passes everything else to
    ``_send_slowly(*messages)``, a method of the subclass. ``_buffer`` is None if every message has to be
    passed to that method."""

    __module__ = "pyklient.kernel"

    _buffer: EventBuffer | None = None
    _send_slowly: Callable[..., None]

    def send(self, *messages: Any) -> None:
        """Send *messages*: KeyedMessages, or ProducerData if the producer follows the rules of Kafka 0.7.

        A synchronous producer raises the error of its event handler, such as FailedToSendMessageError. An
        asynchronous producer only puts the messages into its queue, one after the other. While the queue is
        full, the call waits as long as the properties say. If there is still no space for a message, the call
        raises QueueFullError: the messages before this message are queued, and this message and the messages
        after it are not.

        Raises TypeError for anything that is not a message, ProducerClosedError after ``close``
        (QueueClosedError from an asynchronous producer with the rules of Kafka 0.7), and ForkError in the
        child of a fork.
        """
        for message in messages:
            if message.__class__ is not KeyedMessage:
                return self._send_slowly(*messages)
        if self._buffer is None or not self._buffer.add_below_limit(messages):
            self._send_slowly(*messages)
        return None
