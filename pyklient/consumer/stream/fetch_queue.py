"""The queue between the fetchers and the loop of one stream."""

import threading
import time
from collections import deque
from collections.abc import Sequence

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches, Item
from pyklient.consumer.stream.consumed_positions import Positions
from pyklient.errors import ConsumerTimeout, KafkaError, for_another

__all__ = ["NO_BYTES", "FetchQueue"]

NO_BYTES = memoryview(b"")
_TICK = 1.0


class FetchQueue:
    """The fetched batches of one stream that are not read yet, and failures.

    Fetchers and the leader lookup add entries and never wait. A loop removes entries, and waits for them.
    ``lock`` guards the queue, and also the state of its stream.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.lock = threading.RLock()
        self.asked = threading.Condition(self.lock)
        """A condition that is notified when a loop asks for messages. The loop is then done with the messages
        in hand."""
        self.items: deque[Item] = deque()
        self.source: FetchedBatches | None = None
        """The fetched batches that the loop decodes now."""
        self.positions = Positions()
        self.ended = False
        """True when the stream has ended, and no more messages will be handed out."""
        self.awaited = False
        """True while a loop waits for an entry."""
        # Not a condition: Ctrl-C at the wrong moment of its wait leaves the lock held for good.
        self._bell = threading.Lock()
        self._error: Exception | None = None
        self._topic_error: KafkaError | None = None

    def put(self, items: Sequence[Item]) -> None:
        """Queue *items*, which belong to one cursor. Fetchers and the leader lookup call this; it never
        waits."""
        with self.lock:
            if items and items[0].cursor.active and not self.ended:
                for item in items:
                    item.cursor.fetched += item.size
                self.items.extend(items)
                self._ring()

    def begin_at(self, cursor: Cursor, offset: int) -> None:
        """Continue *cursor* at *offset*, which the leader lookup has found.

        The offset becomes the position at once, or when everything queued of *cursor* has been handed out.
        """
        with self.lock:
            if not cursor.active or self.ended:
                return
            if (self.source is not None and self.source.cursor is cursor) or any(
                item.cursor is cursor for item in self.items
            ):
                self.items.append(FetchedBatches(cursor, NO_BYTES, offset, offset))
            else:
                self.positions.note_start(cursor, offset)
            self._ring()

    def drop(self, cursor: Cursor) -> None:
        """Remove everything that is queued of *cursor*, because its partition is read again from another
        position."""
        with self.lock:
            self.items = deque(item for item in self.items if item.cursor is not cursor)

    def fail(self, error: Exception) -> None:
        """Make every loop raise *error* from now on, once the queue is empty."""
        with self.lock:
            self._error = error
            self._ring()

    def set_topic_error(self, error: KafkaError | None) -> None:
        """Make loops raise *error* when the queue is empty. If *error* is None, loops wait for entries."""
        with self.lock:
            self._topic_error = error
            if error is not None:
                self._ring()

    def end(self) -> None:
        """Remove all entries, and wake the loop that waits. The lock must be held."""
        self.ended = True
        self.items.clear()
        self._ring()

    def next(self) -> Item | None:
        """Return the entry to decode next, or None if the queue is empty. The lock must be held.

        A FetchFailure stays in the queue.
        """
        if self.source is not None and self.source.cursor.active:
            return self.source
        self.source = None
        while self.items:
            item = self.items[0]
            if item.cursor.active:
                if isinstance(item, FetchedBatches):
                    self.source = item
                    self.items.popleft()
                return item
            self.items.popleft()
        return None

    def wait(self, deadline: float | None, timeout: float | None) -> Item | None:
        """Wait for the entry to decode next and return it. Return None at the end of the stream.

        Raises the error of a failure, and ConsumerTimeout at *deadline*, which is *timeout* seconds after the
        loop began to wait.
        """
        while True:
            with self.lock:
                if (item := self.next()) is not None:
                    return item
                if self._error is not None:
                    raise for_another(self._error)
                if self._topic_error is not None:
                    raise for_another(self._topic_error)
                if self.ended or self.positions.finished:
                    return None
            left = _TICK if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise ConsumerTimeout(f"no message arrived for {self._name} within {timeout:.3g} s")
            self.awaited = True
            self._bell.acquire(timeout=min(left, _TICK))
            self.awaited = False

    def _ring(self) -> None:
        """Wake the loop that waits for an entry. The lock must be held."""
        if self._bell.locked():
            self._bell.release()
