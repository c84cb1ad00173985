"""The queue between the fetchers and the loop of one stream."""

import threading
import time
from collections import deque
from collections.abc import Sequence

from pyklient.consumer.consumed_positions import Positions
from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches, FetchFailure, Item
from pyklient.errors import ConsumerTimeout, KafkaError, PartitionNotAssignedError, for_another
from pyklient.kernel import Lease
from pyklient.topic_partition import TopicPartition

__all__ = ["NO_BYTES", "FetchQueue"]

NO_BYTES = memoryview(b"")
_TICK = 1.0
_LEASE_TICK = 0.1
"""The longest time, in seconds, until a loop notices that its lease was extended. The lease is the time until
which the loop may get messages."""
_NAMED = 20


class FetchQueue:
    """The fetched batches of one stream that are not read yet, and the failures to fetch.

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
        self.cursors: dict[TopicPartition, Cursor] = {}
        """The newest cursor of each partition that the stream reads."""
        self.most_chunks: int | None = None
        """The value of the option ``queued_max_message_chunks``. It is set before the stream is read."""
        self._set_aside: dict[TopicPartition, list[Item]] = {}
        """The entries of paused partitions."""
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
        self._interruption: KafkaError | None = None

    def put(self, items: Sequence[Item]) -> None:
        """Queue *items*, which are fetched batches or failures. Items of cursors that are not active are
        dropped. Fetchers and the leader lookup call this method, which never waits."""
        with self.lock:
            if self.ended:
                return
            for item in items:
                if item.cursor.active:
                    item.cursor.fetched += item.size
                    self._add(item)

    def has_space_for_a_chunk(self) -> bool:
        """Return True if the queue has fewer entries with fetched batches than ``most_chunks``, or if that is
        None."""
        if self.most_chunks is None:
            return True
        with self.lock:
            return sum(isinstance(item, FetchedBatches) for item in self.items) < self.most_chunks

    def begin_at(self, cursor: Cursor, offset: int) -> None:
        """Continue *cursor* at *offset*, which the leader lookup has found.

        If entries of *cursor* are queued, the offset becomes the stream's position when the messages of these
        entries have been handed out. Otherwise it becomes the position at once.
        """
        with self.lock:
            if not cursor.active or self.ended:
                return
            queued = (*self.items, *self._set_aside.get(cursor.partition, ()))
            if (self.source is not None and self.source.cursor is cursor) or any(
                item.cursor is cursor for item in queued
            ):
                self._add(FetchedBatches(cursor, NO_BYTES, offset, offset))
            else:
                self.positions.note_start(cursor.owned, offset)
                self._ring()

    def begin(self, cursor: Cursor, *, held_back: bool = False) -> None:
        """Remember that *cursor* reads its partition from now on, unless the partition is revoked already.

        If the cursor is *held_back*, its partition is not fetched before :meth:`release`.
        """
        with self.lock:
            if cursor.active:
                self.cursors[cursor.partition], cursor.owned.held_back = cursor, held_back

    def begin_held_back(self, cursor: Cursor, offset: int) -> None:
        """Begin *cursor* at *offset*, which was looked up, if the cursor is still held back. Otherwise do
        nothing, because the leader lookup then looks up the offset itself."""
        with self.lock:
            if cursor.active and cursor.owned.held_back:
                cursor.begin(offset)
                self.begin_at(cursor, offset)

    def release(self, partition: TopicPartition) -> Cursor | None:
        """Allow fetching of *partition*, which was held back. Return its newest cursor, or None if the
        partition was revoked meanwhile."""
        with self.lock:
            if (cursor := self.cursors.get(partition)) is not None:
                cursor.owned.held_back = False
            return cursor

    def cursor(self, partition: TopicPartition) -> Cursor:
        """Return the cursor that reads *partition*. The lock must be held.

        Raises PartitionNotAssignedError if this stream does not read the partition.
        """
        found = self.cursors.get(partition)
        if found is None or not found.active:
            mine = ", ".join(str(each) for each in sorted(self.cursors)[:_NAMED]) or "none"
            raise PartitionNotAssignedError(
                f"the stream of {self._name} does not read {partition} now; it reads these partitions: "
                f"{mine}{', and more' if len(self.cursors) > _NAMED else ''}"
            )
        return found

    def raise_failure(self, cursor: Cursor) -> None:
        """Raise the error that prevents fetching of *cursor*, if there is such an error. The lock must be
        held."""
        for item in (*self.items, *self._set_aside.get(cursor.partition, ())):
            if isinstance(item, FetchFailure) and item.cursor is cursor:
                raise for_another(item.error)

    def replace(self, cursor: Cursor, position: int | None) -> Cursor | None:
        """Remove all entries of *cursor* from the queue, and return its successor, which begins at
        *position*. If that is None, the successor begins at an offset that is still to be looked up.

        Return None if *cursor* is not active: the partition is not read any more, or another cursor reads it.
        """
        with self.lock:
            successor = None
            if cursor.active:
                successor = cursor.successor(position)
                # One line, so that Ctrl-C cannot separate the two: the partition always has an active cursor.
                self.cursors[cursor.partition], cursor.dropped = successor, True
                self._set_aside.pop(cursor.partition, None)
            self.items = deque(item for item in self.items if item.cursor is not cursor)
            return successor

    def drop_inactive(self) -> None:
        """Remove all entries of partitions that the client does not own any more. The lock must be held."""
        self.items = deque(item for item in self.items if item.cursor.active)
        self.cursors = {each: cursor for each, cursor in self.cursors.items() if cursor.active}
        self._set_aside = {each: items for each, items in self._set_aside.items() if each in self.cursors}

    def set_aside(self, partition: TopicPartition, begun: FetchedBatches | None) -> None:
        """Set aside all entries of the paused *partition* until it is resumed. The lock must be held.

        If a loop has begun to read fetched batches of the partition, *begun* has their unread remainder, and
        ``source`` becomes None. Otherwise *begun* is None.
        """
        held = [*self._set_aside.get(partition, ())]
        if begun is not None:
            held.insert(0, begun)
        held += [item for item in self.items if item.cursor.partition == partition]
        others = deque(item for item in self.items if item.cursor.partition != partition)
        source = self.source if begun is None else None
        # One line, so that Ctrl-C cannot separate them: every entry is in one place.
        self._set_aside[partition], self.items, self.source = held, others, source

    def bring_back(self, partition: TopicPartition) -> None:
        """Queue the entries of *partition* that were set aside, because the partition is resumed. The lock
        must be held."""
        items = deque((*self.items, *self._set_aside.get(partition, ())))
        self.items, self._set_aside[partition] = items, []
        self._ring()

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

    def interrupt(self, error: KafkaError | None) -> None:
        """Make one loop raise *error* when the queue is empty. If *error* is None, take back an error that no
        loop has raised yet."""
        with self.lock:
            self._interruption = error
            if error is not None:
                self._ring()

    def end(self) -> None:
        """End the stream: remove all entries, and wake the loop that waits. The lock must be held."""
        self.ended = True
        self.items.clear()
        self._set_aside.clear()
        self._ring()

    def next(self) -> Item | None:
        """Return the entry to decode next, or None if the queue is empty. The lock must be held.

        A FetchFailure stays in the queue until its cursor is replaced or inactive.
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
                    if self.most_chunks is not None:
                        self._wake_fetchers()
                return item
            self.items.popleft()
        return None

    def wait(self, deadline: float | None, timeout: float | None) -> Item | None:
        """Wait for the entry to decode next and return it. Return None at the end of the stream.

        Raises the error of :meth:`fail`, :meth:`set_topic_error` or :meth:`interrupt`. Raises ConsumerTimeout
        at *deadline*, which is *timeout* seconds after the loop began to wait.
        """
        while True:
            with self.lock:
                if (item := self.next()) is not None:
                    return item
                if self._error is not None:
                    raise for_another(self._error)
                if self._topic_error is not None:
                    raise for_another(self._topic_error)
                if (interruption := self._interruption) is not None:
                    self._interruption = None
                    raise for_another(interruption)
                if self.ended or self.positions.finished:
                    return None
            self._sleep(_TICK, deadline, timeout)

    def await_lease(self, lease: Lease, deadline: float | None, timeout: float | None) -> None:
        """If *lease* has ended, wait until it is extended. Return at once when the stream ends or fails.

        Raises ConsumerTimeout at *deadline*, as :meth:`wait` does. The text of this error names *timeout*.
        """
        while lease.ended() and not self.ended and self._error is None:
            self._sleep(_LEASE_TICK, deadline, timeout)

    def _sleep(self, longest: float, deadline: float | None, timeout: float | None) -> None:
        """Wait up to *longest* seconds for an entry. Raise ConsumerTimeout if *deadline* has passed. The text
        of this error names *timeout*, the number of seconds from the beginning of the wait to *deadline*."""
        left = longest if deadline is None else deadline - time.monotonic()
        if left <= 0:
            cursors = list(self.cursors.values())
            # Not a generator: Python ignores a Ctrl-C that arrives while it discards one.
            read = [cursor for cursor in cursors if not cursor.owned.paused]
            every_paused = bool(cursors) and not read
            hint = ": all partitions that the stream reads are paused" if every_paused else ""
            raise ConsumerTimeout(f"no message arrived for {self._name} within {timeout:.3g} s{hint}")
        self.awaited = True
        self._bell.acquire(timeout=min(left, longest))
        self.awaited = False

    def _add(self, item: Item) -> None:
        """Add *item*, fetched batches or a failure, at the end of the queue. The lock must be held."""
        cursor = item.cursor
        if cursor.owned.paused:
            self._set_aside.setdefault(cursor.partition, []).append(item)
        else:
            self.items.append(item)
            self._ring()

    def _wake_fetchers(self) -> None:
        """Wake the fetchers of the stream's partitions, because the queue has space for a chunk."""
        for cursor in self.cursors.values():
            cursor.wake_fetcher()

    def _ring(self) -> None:
        """Wake the loop that waits for an entry. The lock must be held."""
        if self._bell.locked():
            self._bell.release()
