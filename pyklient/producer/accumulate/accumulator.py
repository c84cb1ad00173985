"""Where users' threads leave records and the sender picks up batches: the border between them.

A plain ``send`` never comes here, it is the kernel's Appender alone. What that declines does: a value for
an encoder, a topic nobody knows yet, a batch that is full, memory that is used up, and every mistake, which
gets its error here.

Locks: ``_border`` is held by those who begin batches or queue for memory, and by whoever counts batches; the
kernel's lock (``tracker.lock``, see ``_append_py``) orders what happens to single batches, and is taken under
it. Nobody holds either while waiting. Both are reentrant, and each step leaves things in order: a signal's
handler or a finalizer may send in the middle of a ``send``, and Ctrl-C may end it anywhere.
"""

import operator
import threading
from collections import deque
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, Protocol

from pyklient.errors import (
    BufferFullError,
    ConfigurationError,
    KafkaError,
    MessageTooLargeError,
)
from pyklient.producer.accumulate.partitioner import Partitioner, StickyPartitioner
from pyklient.producer.accumulate.record_checks import ProducerRecord, RecordEncoder
from pyklient.producer.delivery import DeliveryTracker
from pyklient.protocol.records.kernel import Appender, Batch, Delivery, murmur2
from pyklient.protocol.records.layout import BATCH_SIZE

__all__ = ["Clocks", "Limits", "RecordAccumulator", "TopicSource"]


class Limits(NamedTuple):
    """The options that bound it: bytes and seconds."""

    batch_size: int
    buffer_memory: int
    max_request_size: int
    max_block: float
    linger: float


class Clocks(NamedTuple):
    """What it takes for the time: nanoseconds since 1970, and seconds that never go back."""

    wall_ns: Callable[[], int]
    monotonic: Callable[[], float]


class TopicSource(Protocol):
    """Where it learns about topics."""

    def wait(self, topic: str, deadline: float) -> int:
        """How many partitions *topic* has, once it can be sent to. Raises KafkaError at *deadline*."""

    def refreshed(self, topic: str, deadline: float) -> int:
        """How many partitions *topic* has now."""

    def available(self, topic: str) -> list[int]:
        """The partitions of *topic* that have a leader."""

    def forget(self, topic: str) -> None:
        """Drop what is kept of *topic*, until it is asked for again."""

    def refuse_headers(self) -> None:
        """Raises UnsupportedVersionError where the brokers' record format has no headers."""


class RecordAccumulator:
    """Safe to use from several threads.

    *start* begins the sender's thread, once; *wake* is told the moment at which it has something to do;
    *is_own_thread* says whether the caller runs in the sender's turn, and so must not wait here.
    """

    def __init__(
        self,
        limits: Limits,
        clocks: Clocks,
        encoder: RecordEncoder,
        partitioner: Partitioner | None,
        sticky: StickyPartitioner,
        topics: TopicSource,
        *,
        start: Callable[[], None],
        wake: Callable[[float], None],
        is_own_thread: Callable[[], bool],
    ) -> None:
        self.tracker = DeliveryTracker(is_own_thread)
        self.appender = Appender(
            self.append_slowly,
            self.tracker,
            clocks.wall_ns,
            plain=encoder.plain and partitioner is None,
            batch_size=min(limits.batch_size, limits.max_request_size) - BATCH_SIZE,
            limit=limits.buffer_memory,
        )
        self.begun: deque[Batch] = deque()
        """Batches that the sender has not seen yet, in the order in which they were begun. Ctrl-C may have
        left one of them empty."""
        self.filled: deque[Batch] = deque()
        """Batches that are due while their partition has no newer one."""
        self._limits = limits
        self._clocks = clocks
        self._encoder = encoder
        self._partitioner = partitioner
        self._sticky = sticky
        self._wake = wake
        self._start_sender: Callable[[], None] | None = start
        self._is_own_thread = is_own_thread
        self._topics = topics
        self._border = threading.RLock()
        # Those who wait for memory, in the order in which they came.
        self._waiting: deque[threading.Lock] = deque()
        # By partition, in the order in which they were begun.
        self._unfinished: dict[tuple[str, int], dict[Batch, None]] = {}
        self._credit = 0
        self._refusal: KafkaError | None = None

    def append_slowly(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """A ``send`` that is no plain append. See Producer.send."""
        self.raise_refusal()
        self._start()
        record = self._encoder.encode(topic, value, key, timestamp_ms, headers)
        self._check(topic, record, on_delivery)
        may_wait = not self._is_own_thread()
        deadline = self._clocks.monotonic() + (self._limits.max_block if may_wait else 0.0)
        while True:
            count = self.appender.partition_count(topic)
            if not count:
                count = self._topics.wait(topic, deadline)
                self.appender.know(topic, count)
            if record.headers:
                self._topics.refuse_headers()
            number = self._partition(topic, record, partition, count, deadline)
            delivery = self._place(topic, number, record, on_delivery, deadline, may_wait)
            if delivery is not None:
                return delivery

    def mark(self) -> list[Batch]:
        """Close the batches under construction, which makes them due. The batches that hold everything sent
        so far, without those that are done."""
        batches = self.unfinished()
        for batch in batches:
            if not batch.closed:
                self.appender.take(batch)
            self.filled.append(batch)
        return batches

    def unfinished(self) -> list[Batch]:
        """The batches that are not done."""
        with self._border:
            return [batch for batches in self._unfinished.values() for batch in batches]

    def forget(self, topic: str) -> None:
        """Drop what is kept of *topic*; the next record for it asks for it again."""
        self.appender.forget(topic)
        self._topics.forget(topic)

    def shrunk(self, batch: Batch, saved: int) -> None:
        """*batch* takes *saved* bytes less than before: it has been compressed."""
        batch.charged -= saved
        self._release(saved)

    def finished(
        self,
        batch: Batch,
        listeners: list[Any],
        run: Callable[[list[Any]], object],
    ) -> None:
        """*batch* is done. Has *run* call its *listeners* with its memory at their disposal, so that one
        can send a record again without waiting; then that memory is free for all."""
        with self._border:
            place = batch.topic, batch.partition
            batches = self._unfinished.get(place, {})
            batches.pop(batch, None)
            if not batches:
                self._unfinished.pop(place, None)
        self._credit = batch.charged
        run(listeners)
        self._credit = 0
        self._release(batch.charged)

    def refuse(self, error: KafkaError) -> None:
        """Every ``send`` raises *error* from now on, those that wait for memory too."""
        with self._border:
            if self._refusal is None:
                self._refusal = error
            self.appender.shut()
            self._ring()

    def abandon(self, error: KafkaError) -> None:
        """In the child of a fork: as ``refuse``, without locks that a thread of the parent may hold."""
        self._refusal = error
        self.appender.shut()
        self.tracker.abandon(error)

    def _start(self) -> None:
        if self._start_sender is not None:
            with self._border:
                self.raise_refusal()
                if self._start_sender is not None:
                    self._start_sender()
                    self._start_sender = None

    def raise_refusal(self) -> None:
        """Raises what every ``send`` is refused with, if it is."""
        if self._refusal is not None:
            raise copy(self._refusal)

    def _check(self, topic: str, record: ProducerRecord, on_delivery: object) -> None:
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery must be a function (delivery), not {on_delivery!r}")
        if record.size > self._limits.max_request_size:
            raise MessageTooLargeError(
                f"a record of {record.size:,} bytes for topic {topic!r} is above "
                f"max_request_size={self._limits.max_request_size:,}; raise that, and the topic's "
                "max.message.bytes where needed"
            )
        if record.size + Appender.OVERHEAD > self._limits.buffer_memory:
            raise MessageTooLargeError(
                f"a record of {record.size:,} bytes for topic {topic!r} does not fit into "
                f"buffer_memory={self._limits.buffer_memory:,}"
            )

    def _partition(
        self, topic: str, record: ProducerRecord, partition: int | None, count: int, deadline: float
    ) -> int | None:
        """The partition of *record*; None where it goes with the other records without a key."""
        if partition is None:
            if self._partitioner is not None:
                return self._partitioner(topic, record.key, count)
            return None if record.key is None else murmur2(record.key) % count
        try:
            if isinstance(partition, bool):
                raise TypeError
            number = operator.index(partition)
        except TypeError:
            raise TypeError(f"partition must be a whole number, not {partition!r}") from None
        if number >= count:
            count = self._topics.refreshed(topic, deadline)
            self.appender.know(topic, count)
        if not 0 <= number < count:
            raise ConfigurationError(
                f"partition {number} of topic {topic!r} does not exist: it has {count}, from 0 on"
            )
        return number

    def _place(
        self,
        topic: str,
        number: int | None,
        record: ProducerRecord,
        on_delivery: Callable[[Delivery], object] | None,
        deadline: float,
        may_wait: bool,
    ) -> Delivery | None:
        """Append, after a wait for memory if need be. None where the topic's partitions have changed
        meanwhile. Raises BufferFullError."""
        memory = self._limits.buffer_memory
        with self._border:
            self.raise_refusal()
            if not may_wait:
                delivery = self._append(topic, number, record, on_delivery, memory + self._credit)
                if delivery is None and self.appender.partition_count(topic):
                    raise self._full(topic, "a send inside on_delivery does not wait")
                return delivery
            if not self._waiting:
                self.appender.limit = memory  # also where Ctrl-C has kept the last one who waited from that
                if self._has_room(record, memory):
                    return self._append(topic, number, record, on_delivery, memory)
        # Rung when it is released. No Condition: Ctrl-C at the wrong moment of its wait leaves the border
        # locked, or unlocks it twice.
        bell = threading.Lock()
        try:
            with self._border:
                self._waiting.append(bell)
                self.appender.limit = 0
                self._hurry()
            while True:
                bell.acquire(blocking=False)
                with self._border:
                    self.raise_refusal()
                    if self._waiting[0] is bell and self._has_room(record, memory):
                        return self._append(topic, number, record, on_delivery, memory)
                remaining = deadline - self._clocks.monotonic()
                if remaining <= 0:
                    raise self._full(
                        topic, f"nothing was freed within max_block_ms={self._limits.max_block * 1000:.0f}"
                    )
                bell.acquire(timeout=min(remaining, threading.TIMEOUT_MAX))
        finally:
            if bell in self._waiting:
                self._waiting.remove(bell)
            with self._border:
                if self._waiting:
                    self._ring()
                else:
                    self.appender.limit = memory

    def _ring(self) -> None:
        """With the border held: memory may be free for those who wait."""
        for bell in list(self._waiting):
            if bell.locked():
                bell.release()

    def _hurry(self) -> None:
        """With the border held: memory is short, so no batch lingers any longer."""
        for batch in self.unfinished():
            if not batch.closed:
                self.appender.take(batch)
                self.filled.append(batch)
        self._wake(self._clocks.monotonic())

    def _append(
        self,
        topic: str,
        number: int | None,
        record: ProducerRecord,
        on_delivery: Callable[[Delivery], object] | None,
        limit: int,
    ) -> Delivery | None:
        """With the border held: append, to a new batch where there is none or it is full."""
        key, value, timestamp_ms, headers, _ = record
        appender = self.appender
        chosen = appender.sticky(topic) if number is None else number
        full = appender.current(topic, chosen)
        if full is not None:
            delivery = appender.append(topic, chosen, value, key, timestamp_ms, headers, on_delivery, limit)
            if delivery is not None or not self._has_room(record, limit):
                return delivery
        if number is None and (elsewhere := self._stick_elsewhere(topic, chosen)) != chosen:
            chosen = elsewhere
            if full is not None:
                appender.take(full)
                self.filled.append(full)
            delivery = appender.append(topic, chosen, value, key, timestamp_ms, headers, on_delivery, limit)
            if delivery is not None:
                self._wake(self._clocks.monotonic())
                return delivery
        now = self._clocks.monotonic()
        try:
            batch = appender.open(topic, chosen, now, self._begun)
            delivery = appender.append(topic, chosen, value, key, timestamp_ms, headers, on_delivery, limit)
            if batch is not None and batch.size >= self._limits.batch_size:
                appender.take(batch)
            due = full is not None or batch is None or batch.closed
            self._wake(now if due else now + self._limits.linger)
        except BaseException:
            self._wake(now)  # Ctrl-C: others may append to it by now
            raise
        return delivery

    def _begun(self, batch: Batch) -> None:
        """With the border held: there will be records in *batch*, and the sender is to see to them."""
        self.begun.append(batch)
        self._unfinished.setdefault((batch.topic, batch.partition), {})[batch] = None

    def _stick_elsewhere(self, topic: str, current: int) -> int:
        count = self.appender.partition_count(topic)
        if count == 1:
            return current
        number = self._sticky.next(
            self._topics.available(topic),
            count,
            current,
            lambda partition: len(self._unfinished.get((topic, partition), ())),
        )
        self.appender.stick(topic, number)
        return self.appender.sticky(topic)

    def _has_room(self, record: ProducerRecord, limit: int) -> bool:
        return self.appender.used + record.size + Appender.OVERHEAD <= limit

    def _release(self, amount: int) -> None:
        self.appender.release(amount)
        if self._waiting:
            with self._border:
                self._ring()

    def _full(self, topic: str, why: str) -> BufferFullError:
        return BufferFullError(
            f"buffer_memory={self._limits.buffer_memory:,} is full of records that are not confirmed yet, so "
            f"a record for topic {topic!r} was not taken ({why}); is the broker slow or unreachable?"
        )
