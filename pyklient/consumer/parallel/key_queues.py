"""The messages that wait for a worker. Messages with the same key wait in one queue, so that they keep their
order."""

import threading
from collections import deque
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Literal, TypeAlias

from pyklient.consumer.parallel.partition_progress import PartitionProgress
from pyklient.kernel import Lease, Message

__all__ = ["KeyQueues", "Order", "Task"]

Order: TypeAlias = Literal["key", "partition", "unordered"]
_TICK = 0.2


class _KeyQueue:
    """The messages of one key. Workers handle at most one of them at a time."""

    __slots__ = ("busy", "key", "ready", "waiting")

    def __init__(self, key: object) -> None:
        self.key = key
        self.waiting: deque[Task] = deque()
        self.busy = False
        """True while a worker handles a message of this key."""
        self.ready = False
        """True while this queue waits in KeyQueues for a free worker."""


class Task:
    """A message to be handled, the progress of its partition, and the queue of its key."""

    __slots__ = ("message", "progress", "queue")

    def __init__(self, message: Message, progress: PartitionProgress, queue: _KeyQueue) -> None:
        self.message = message
        self.progress = progress
        self.queue = queue


class KeyQueues:
    """Gives messages to workers: messages of one key one after another, messages of different keys at the
    same time.

    With the order ``partition``, a partition counts as one key. A message without a key waits for no other
    message, unless the order is ``partition``. *lock* is the lock of the stream, and *finished* is a
    condition on this lock. After *lease* has ended, workers get no message until it is extended.
    """

    def __init__(
        self,
        lock: threading.RLock,
        finished: threading.Condition,
        lease: Lease,
        order: Order,
        max_in_hand: int,
        max_bytes: int,
    ) -> None:
        self._lock = lock
        self._finished = finished
        self._lease = lease
        self._order = order
        self._max_in_hand = max_in_hand
        self._max_bytes = max_bytes
        self._in_hand = 0
        self._bytes = 0
        """The total size in bytes of the keys and values of the messages in hand."""
        self._queues: dict[object, _KeyQueue] = {}
        # The queues of which a worker may handle a message now; None after stop().
        self._ready: SimpleQueue[_KeyQueue | None] = SimpleQueue()
        self._with_workers: dict[Task, threading.Thread] = {}
        self._closers: set[threading.Thread] = set()
        self._stopped = False

    def wait_for_capacity(self) -> int:
        """Wait until more messages may be queued. Return how many may be added. Return 0 after
        :meth:`stop`."""
        with self._lock:
            while not self._stopped:
                if (capacity := self._max_in_hand - self._in_hand) > 0 and self._bytes < self._max_bytes:
                    return capacity
                self._finished.wait(_TICK)
        return 0

    def add(self, progress: PartitionProgress, messages: Iterable[Message]) -> None:
        """Queue *messages* of one partition, except those that are completed already. The lock must be
        held."""
        for message in progress.begin(messages):
            self._in_hand += 1
            self._bytes += _size(message)
            if progress.held or not progress.may_start(message.offset):
                progress.held.append(message)
            else:
                self._enqueue(message, progress)

    def next(self) -> Task | None:
        """Wait for a message to handle, and return it. Return None after :meth:`stop`.

        Messages of revoked partitions are dropped, because their next owner gets them.
        """
        while (queue := self._ready.get()) is not None:
            with self._lock:
                while self._lease.ended() and not self._stopped:
                    self._finished.wait(_TICK)
                queue.ready = False
                while queue.waiting and not self._stopped:
                    task = queue.waiting.popleft()
                    if task.progress.owned.active:
                        queue.busy = True
                        self._with_workers[task] = threading.current_thread()
                        return task
                    self._leave(task.message)
                self._queues.pop(queue.key, None)
        self._ready.put(None)  # for the other workers
        return None

    def finish(self, task: Task, *, completed: bool) -> None:
        """Remember that a worker does not handle *task* any more. *completed* is true if the handler has
        returned."""
        with self._lock:
            self._with_workers.pop(task, None)
            was_full = self._in_hand >= self._max_in_hand or self._bytes >= self._max_bytes
            self._leave(task.message)
            queue, progress = task.queue, task.progress
            queue.busy = False
            if completed:
                progress.complete(task.message)
                while progress.held and progress.may_start(progress.held[0].offset):
                    self._enqueue(progress.held.popleft(), progress)
            if queue.waiting:
                self._make_ready(queue)
            else:
                self._queues.pop(queue.key, None)
            if was_full or not progress.owned.active:
                self._finished.notify_all()

    def drop_held(self, progress: PartitionProgress) -> None:
        """Drop the messages in ``progress.held``, because their partition is revoked. The lock must be
        held."""
        while progress.held:
            self._leave(progress.held.popleft())

    def handles_revoked(self) -> bool:
        """Return True while a worker handles a message of a revoked partition. Workers whose handler closes
        the connector do not count. The lock must be held."""
        return any(
            not task.progress.owned.active and worker not in self._closers
            for task, worker in self._with_workers.items()
        )

    def do_not_wait_for_me(self) -> None:
        """Remember that the calling thread closes the connector. The lock must be held.

        If the thread is a worker, no other thread waits for its message, because the handler of this message
        waits until the connector is closed.
        """
        self._closers.add(threading.current_thread())
        self._finished.notify_all()

    def stop(self) -> None:
        """Give workers no more messages. They finish the messages that they handle.

        This method acquires no lock, so a signal handler may call it.
        """
        self._stopped = True
        self._ready.put(None)

    def _enqueue(self, message: Message, progress: PartitionProgress) -> None:
        key = self._key(message)
        queue = None if key is None else self._queues.get(key)
        if queue is None:
            queue = _KeyQueue(key)
            if key is not None:
                self._queues[key] = queue
        queue.waiting.append(Task(message, progress, queue))
        if not queue.busy:
            self._make_ready(queue)

    def _leave(self, message: Message) -> None:
        self._in_hand -= 1
        self._bytes -= _size(message)

    def _make_ready(self, queue: _KeyQueue) -> None:
        if not queue.ready:
            queue.ready = True
            self._ready.put(queue)

    def _key(self, message: Message) -> object:
        if self._order == "partition":
            return message.topic, message.partition
        if self._order == "unordered" or message.key is None:
            return None
        return message.topic, message.partition, message.key


def _size(message: Message) -> int:
    return len(message.key or b"") + len(message.value or b"")
