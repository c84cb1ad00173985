"""Gathers records in batches for the sender, and makes users' threads wait when memory is full.

In the usual case, the kernel's ``Appender`` does the whole ``send``. A record that the kernel cannot append
is passed to ``append_slowly``. The reason may be a topic that is not known yet, a full batch, or a lack of
memory. If the reason is a wrong argument, ``append_slowly`` raises an error.

The batch lock (see ``pyklient.producer.locks``) is held while a batch is begun, while a thread joins or
leaves the queue for memory, and while batches are counted. Each step leaves the state consistent, because a
signal handler or a finalizer may call ``send`` in the middle of a ``send``, and Ctrl-C may end a ``send``
anywhere.
"""

from collections import deque
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple

from pyklient import argument_checks
from pyklient.errors import KafkaError, for_another
from pyklient.kernel import Appender, Batch, Delivery, UserFunctions
from pyklient.metrics.producer_counts import ProducerCounts
from pyklient.producer.accumulate.batch_sealing import BatchSealer
from pyklient.producer.accumulate.leader_availability import LeaderAvailability
from pyklient.producer.accumulate.limits import Limits
from pyklient.producer.accumulate.memory_use import MemoryUse
from pyklient.producer.accumulate.partition_choice import PartitionChoice
from pyklient.producer.accumulate.partitioner import StickyPartitioner
from pyklient.producer.accumulate.record_checks import CheckedRecord, RecordChecker
from pyklient.producer.accumulate.unfinished_batches import UnfinishedBatches
from pyklient.producer.accumulate.waiting_threads import Gathering, WaitingThreads
from pyklient.producer.delivery_tracker import DeliveryTracker, check_callback, run_callbacks
from pyklient.producer.locks import Wakeup
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.topic_metadata import TopicMetadata
from pyklient.protocol.records.layout import BATCH_SIZE

__all__ = ["Clocks", "RecordAccumulator"]

_SEALING: Final = 0.005
"""The seconds for which a thread that lacks memory waits for sealed batches to be stored, before it seals the
open batches. If it sealed them at once, slow brokers would get smaller batches, but not earlier."""


class Clocks(NamedTuple):
    """The clocks of the accumulator. One returns nanoseconds since 1970, and one returns monotonic
    seconds."""

    wall_ns: Callable[[], int]
    monotonic: Callable[[], float]


class RecordAccumulator:
    """The batches of a producer, from their first record until all their records have a result. Several
    threads may use this object at the same time. The first record that is appended starts *thread*, the
    sender's thread.
    """

    def __init__(
        self,
        limits: Limits,
        clocks: Clocks,
        functions: UserFunctions,
        sticky: StickyPartitioner,
        leaders: LeaderAvailability,
        topics: TopicMetadata,
        thread: SenderThread,
    ) -> None:
        self.tracker = DeliveryTracker(thread)
        self.counts = ProducerCounts(clocks.monotonic())  # the sender lock guards it
        self.appender = Appender(
            self.append_slowly,
            self.tracker,
            clocks.wall_ns,
            batch_size=min(limits.batch_size, limits.max_request_size) - BATCH_SIZE,
            memory_limit=limits.buffer_memory,
            functions=functions,
        )
        self.memory = MemoryUse(self.appender, limits.buffer_memory)
        self.new_batches: deque[Batch] = deque()
        """New batches for the sender, the oldest first. A batch may be empty if Ctrl-C ended a ``send``."""
        self.sealer = BatchSealer(self.appender, limits.batch_size, limits.linger)
        self.limits = limits
        self.clocks = clocks
        self.functions = functions
        self._checker = RecordChecker(functions, clocks.wall_ns)
        self.topics = topics
        self.choice = PartitionChoice(self.appender, topics, functions.partitioner, sticky, leaders, limits)
        self.thread = thread
        self._started = False
        self._waiting = WaitingThreads(self.memory)
        self._unfinished = UnfinishedBatches()
        self._extra_memory = 0
        """The bytes of the batches whose callbacks run now. A ``send`` in these callbacks may use them."""
        self._closed_by: KafkaError | None = None
        self._held_by: KafkaError | None = None
        """The error that each ``send`` raises between ``hold`` and ``admit``. None at other times."""

    def append_slowly(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
        on_delivery: Callable[[Delivery], object] | None = None,
        encoded: bool = False,
        chosen: int | None = None,
    ) -> Delivery:
        """Append a record that the kernel cannot append by itself, as ``Producer.send`` does. If *encoded* is
        true, the encoders have already been called. *chosen* is the partition that the partitioner has
        already chosen, or None."""
        self.raise_if_held()
        if not self._started:
            self.start()
        record = self._checker.check(topic, value, key, timestamp_ms, headers, encoded=encoded)
        check_callback(on_delivery)
        self.limits.check_record(topic, record.size)
        deadline = self.deadline()
        while True:
            count = self.appender.partition_count(topic)
            if not count:
                # Checked only once for each topic, because the check takes time.
                argument_checks.plain_function(on_delivery, "on_delivery")
                count = self.choice.partition_count(topic, deadline)
            if record.headers:
                self.topics.requirements.check_headers()
            number = self.choice.choose(topic, record.key, partition, count, deadline, chosen)
            delivery = self._append_or_wait(topic, number, record, on_delivery, deadline)
            if delivery is not None:
                return delivery

    def seal_open_batches(self) -> list[Batch]:
        """Seal all open batches, so that the sender sends them at once. Return all batches whose records do
        not all have a result yet."""
        batches = self.unfinished()
        self.sealer.seal_for_flush(batches)
        return batches

    def unfinished(self) -> list[Batch]:
        """Return all batches whose records do not all have a result yet, the oldest first."""
        with self.tracker.lock:
            return self._unfinished.all()

    def oldest_unfinished(self) -> Batch | None:
        """Return the oldest batch whose records do not all have a result yet, or None if there is none."""
        with self.tracker.lock:
            return self._unfinished.oldest()

    def has_unfinished(self) -> bool:
        """Return True if the records of some batch do not all have a result yet."""
        return len(self._unfinished) > 0

    def send_open_batches(self) -> None:
        """Make all open batches due and wake the sender, because memory is short."""
        with self.tracker.lock:
            self.sealer.seal_for_memory(self._unfinished.drain_open(), self.clocks.monotonic())
            self.thread.notify(self.clocks.monotonic())

    def forget(self, topic: str) -> None:
        """Drop all state of *topic*. The next ``send`` to *topic* asks for the topic's metadata again."""
        self.appender.remove_topic(topic)
        self.topics.forget(topic)
        self.counts.forget(topic)

    def shrunk(self, batch: Batch, saved: int) -> None:
        """Release *saved* bytes of memory, because compression has made *batch* smaller by this size."""
        batch.charged -= saved
        self._release(saved)

    def finished(self, batches: list[Batch], listeners: list[Any]) -> None:
        """Run *listeners*, the callbacks of *batches*, which are done. Then release the memory of *batches*.

        While the callbacks run, records that they send may use the memory of *batches*. So a callback can
        send a failed record again without waiting.
        """
        with self.tracker.lock:
            self._unfinished.remove(batches)
        self._extra_memory = charged = sum([batch.charged for batch in batches])
        run_callbacks(listeners)
        self._extra_memory = 0
        self._release(charged)

    def close(self, error: KafkaError) -> None:
        """Make every ``send`` raise *error* from now on, including each ``send`` that waits for memory."""
        with self.tracker.lock:
            if self._closed_by is None:
                self._closed_by = error
            self.appender.shut()
            self._waiting.wake_all()

    def abandon(self, error: KafkaError) -> None:
        """Make every ``send`` raise *error* from now on, in a child process after a fork. Take no lock,
        because a thread of the parent process may have held the lock at the fork."""
        self._closed_by = error
        self.appender.shut()
        self.tracker.abandon(error)

    def raise_if_closed(self) -> None:
        """Raise the error that was given to ``close``, if ``close`` was called."""
        if self._closed_by is not None:
            raise copy(self._closed_by)

    def hold(self, error: KafkaError) -> None:
        """Make every ``send`` raise *error*, including each ``send`` that waits for memory, until ``admit``
        is called."""
        with self.tracker.lock:
            self._held_by = error
            self.appender.shut()
            self._waiting.wake_all()

    def admit(self) -> None:
        """Accept records again after ``hold``, unless the producer is closed."""
        with self.tracker.lock:
            self._held_by = None
            if self._closed_by is None:
                self.appender.open()

    def raise_if_held(self) -> None:
        """Raise the error that was given to ``close`` or ``hold``, if no record is accepted now."""
        self.raise_if_closed()
        if self._held_by is not None:
            raise for_another(self._held_by)

    def start(self) -> None:
        """Start the sender's thread, if it has not been started."""
        with self.tracker.lock:
            self.raise_if_closed()
            if not self._started:
                self.thread.start()
                self._started = True

    def deadline(self) -> float:
        """Return the monotonic time until which this thread may wait (now, if it is the sender's thread)."""
        return self.clocks.monotonic() + (0.0 if self.thread.is_current() else self.limits.max_block)

    def _append_or_wait(
        self,
        topic: str,
        number: int | None,
        record: CheckedRecord,
        on_delivery: Callable[[Delivery], object] | None,
        deadline: float,
    ) -> Delivery | None:
        """Append *record* to partition *number* (None: the sticky one). If memory is short, wait for memory.

        Return None if the partitions of the topic have changed meanwhile. Raises BufferFullError if there is
        not enough memory at *deadline*; in the sender's thread, at once.
        """
        memory = self.limits.buffer_memory
        with self.tracker.lock:
            self.raise_if_held()
            if self.thread.is_current():
                delivery = self._append(topic, number, record, on_delivery, memory + self._extra_memory)
                if delivery is None and self.appender.partition_count(topic):
                    reason = "send never waits for memory in an on_delivery callback"
                    raise self.limits.buffer_full(topic, reason)
                return delivery
            if not self._waiting.wakeups:
                self.appender.memory_limit = memory  # Ctrl-C may have kept a thread from resetting it
                if self.memory.fits(record.size, memory):
                    return self._append(topic, number, record, on_delivery, memory)
        append = partial(self._append, topic, number, record, on_delivery)
        return self._append_when_it_fits(append, topic, record, deadline)

    def _append_when_it_fits(
        self, append: Callable[[int], Delivery | None], topic: str, record: CheckedRecord, deadline: float
    ) -> Delivery | None:
        """Wait for the memory of *record*, at most until *deadline*. Then return the result of *append*."""
        memory, waiting, wakeup = self.limits.buffer_memory, self._waiting, Wakeup()
        gathering = Gathering(self.memory, self.limits.max_block)
        try:
            with self.tracker.lock:
                waiting.add(wakeup)
                self.appender.memory_limit = 0
                if sealed := self._unfinished.all_may_be_open:
                    self.send_open_batches()
            while True:
                with self.tracker.lock:
                    self.raise_if_held()
                    fits = waiting.is_first(wakeup) and self.memory.fits(record.size, memory)
                    if fits and (waiting.gathered or self.memory.an_eighth_is_free):
                        return append(memory)
                    waiting.note(wakeup, fits)
                remaining = deadline - self.clocks.monotonic()
                if remaining <= 0 and not fits:
                    raise self.limits.not_released(topic)
                pause = gathering.begin_pause() if fits else remaining if sealed else _SEALING
                woken = wakeup.wait(min(remaining, pause))
                if fits:
                    waiting.gathered = woken or remaining <= 0 or gathering.is_over()
                elif not (woken or sealed):
                    sealed = True
                    self.send_open_batches()
        finally:  # Until the wakeup is removed, no Python function is called, which Ctrl-C could interrupt.
            if wakeup in waiting.wakeups:
                waiting.wakeups.remove(wakeup)
            with self.tracker.lock:
                waiting.wake_first()
                if not waiting.wakeups:
                    self.appender.memory_limit = memory

    def _append(
        self,
        topic: str,
        number: int | None,
        record: CheckedRecord,
        on_delivery: Callable[[Delivery], object] | None,
        limit: int,
    ) -> Delivery | None:
        """Append *record* to the open batch of its partition or to a new one. Return None if *limit* bytes
        of memory are too few, or if the topic's partitions have changed. The batch lock must be held."""
        (key, value, timestamp_ms, headers, _), appender = record, self.appender
        chosen = appender.sticky_partition(topic) if number is None else number
        full = appender.current_batch(topic, chosen)
        if full is not None:
            delivery = appender.append(topic, chosen, value, key, timestamp_ms, headers, on_delivery, limit)
            if delivery is not None or not self.memory.fits(record.size, limit):
                return delivery
        unfinished = self._unfinished.counts(topic)
        if number is None and (other := self.choice.next_sticky(topic, chosen, unfinished, full)) != chosen:
            chosen = other
            if full is not None:
                self.sealer.seal_early(full)
            delivery = appender.append(topic, chosen, value, key, timestamp_ms, headers, on_delivery, limit)
            if delivery is not None:
                self.thread.notify(self.clocks.monotonic())
                return delivery
        now = self.clocks.monotonic()
        try:
            batch = self.sealer.seal_and_begin(topic, chosen, now, self.add_new_batch)
            delivery = appender.append(topic, chosen, value, key, timestamp_ms, headers, on_delivery, limit)
            if batch is not None:
                self.sealer.seal_if_full(batch)
            due = full is not None or batch is None or batch.sealed
            self.thread.notify(now if due else now + self.limits.linger)
        except BaseException:
            self.thread.notify(now)  # after Ctrl-C too: other threads may have appended to the batch by now
            raise
        return delivery

    def add_new_batch(self, batch: Batch) -> None:
        """Add *batch*, which is still empty, to the sender's new batches. The batch lock must be held."""
        self.new_batches.append(batch)
        self._unfinished.add(batch)

    def _release(self, amount: int) -> None:
        self.appender.release_memory(amount)
        if self._waiting.wakeups and self._waiting.need_memory(self.memory.an_eighth_is_free):
            with self.tracker.lock:
                self._waiting.wake_first()
