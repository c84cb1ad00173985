"""Appends records to batches, in Python. The compiled kernel must behave exactly as this one.

``Producer.send`` is ``Appender.send``: on the fast path, one call finds the topic, the partition and the
batch, encodes the record into the batch and returns a Delivery. If that is not possible, ``send`` calls
``decline`` with the same arguments and returns its result. Possible reasons are an unknown topic, a full
batch, a lack of memory, a wrong argument, and a closed client.

Both kernels have these three classes, and other modules use only their public members:

- Appender has ``send`` and ``append``. Its base class OpenBatches, which both kernels share,
  has the methods that are called at most once per batch.
- Batch has the records of a batch. Its base class DeliveryState, which both kernels share, has their results.
- Delivery has the batch of one record and the record's index in the batch. So it can find the result of the
  record.

Each call is atomic. In this kernel, the calls that run once per record hold a lock, which the tracker
provides; the compiled kernel holds the GIL instead. The methods of OpenBatches and DeliveryState always hold
the lock. The lock is reentrant: a signal handler or a finalizer may send in the middle of a ``send``.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from pyklient.errors import KafkaError
from pyklient.kernel.append.delivery_reports import DeliveryState, Tracker
from pyklient.kernel.append.open_batches import (
    BATCH_COST,
    CALLBACK_COST,
    NEVER_CHOSEN,
    OpenBatches,
    capacity_for,
)
from pyklient.kernel.append.record_encoding import encode_record, murmur2
from pyklient.kernel.append.user_functions import (
    NO_FUNCTIONS,
    UserFunctions,
    checked_partition,
    encoded_bytes,
)
from pyklient.kernel.pickling import restore_delivery
from pyklient.protocol.records.layout import INT64_MAX, Headers
from pyklient.protocol.records.varints import SHORT, encode_signed
from pyklient.topic_partition import RecordMetadata

__all__ = ["Appender", "Batch", "Delivery", "OnDelivery", "call_back", "has_plain_headers", "is_plain"]


class Batch(DeliveryState):
    """The records of one batch: under construction at first, then ``sealed``, then ``done``."""

    __module__ = "pyklient.kernel"

    def __init__(
        self, tracker: Tracker, topic: str, partition: int, created: float, expected_size: int = 0
    ) -> None:
        super().__init__(tracker, topic, partition, created)
        self.records: bytearray = bytearray()
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.charged = BATCH_COST
        """The number of bytes of the producer's memory limit that this batch uses."""
        self.capacity = 0
        """The number of bytes of memory that the batch has for records, used or not. They are a part of
        ``charged``. The compiled kernel allocates this many bytes."""
        self.expected_size = expected_size
        """The size in bytes that the batch is expected to reach."""
        # Size and count, replaced in one step: bytes behind them, of an interrupted append, do not count.
        self._filled = (0, 0)

    @property
    def count(self) -> int:
        """The number of records in the batch."""
        return self._filled[1]

    @property
    def size(self) -> int:
        """The size in bytes of the records in the batch."""
        return self._filled[0]

    def payload(self) -> bytearray:
        """Return the encoded records of a sealed batch: the bytes that follow the header in a batch of format
        2."""
        del self.records[self._filled[0] :]
        return self.records

    def release_records(self) -> None:
        """Free the memory of a sealed batch's records. Bytes that ``payload`` has returned stay valid."""
        self.records = bytearray()


class Delivery:
    """The handle that ``send`` returns for one record. Safe to use from several threads.

    The program need not keep a Delivery. If a record fails, and neither a method of its Delivery nor a
    callback has shown the failure to the user, then ``flush``, ``close`` or the end of the ``with`` block
    raises it.
    """

    __slots__ = ("_batch", "_index", "_timestamp_ms")
    __module__ = "pyklient.kernel"

    def __init_subclass__(cls) -> NoReturn:
        # The compiled class has no subclasses either.
        raise TypeError("type 'pyklient.kernel.Delivery' is not an acceptable base type")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def batch_and_index(self) -> tuple[Batch, int]:
        """The batch that holds the record, and the index of the record in it."""
        return self._batch, self._index

    @property
    def topic(self) -> str:
        """The topic to which the record was sent."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """The partition to which the record was sent."""
        return self._batch.partition

    def done(self) -> bool:
        """Return True once the record is stored or has failed."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is stored, and return its metadata.

        The ``offset`` of the metadata is -1 with ``acks=0``. Raises the error of the record if it failed.
        Raises KafkaTimeoutError if the result is not known after *timeout* seconds: the record may still be
        delivered. Without a *timeout*, waits for ``delivery_timeout_ms`` at most.
        """
        return self._batch.result(self._index, self._timestamp_ms, timeout)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait as ``result`` does. Return the error of the record if it failed, and None if it is stored."""
        return self._batch.exception(self._index, timeout)

    def add_done_callback(self, callback: "OnDelivery") -> None:
        """Call ``callback(delivery)`` once the record is stored or has failed.

        The callback runs on a thread of the producer, and an exception that it raises is logged. If the
        record is already done, the callback runs at once in this thread, and its exception is raised here.
        """
        if not self._batch.add_callback(self, callback):
            self._batch.mark_seen(self._index, self._index + 1)
            callback(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Delivery:
            return NotImplemented
        if self._batch is other._batch or self._index != other._index:
            return self._batch is other._batch and self._index == other._index
        stored = self._batch.stored_metadata(self._index, self._timestamp_ms)
        return stored is not None and stored == other._batch.stored_metadata(
            other._index, other._timestamp_ms
        )

    def __hash__(self) -> int:
        return hash((self._batch.topic, self._batch.partition, self._index))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the function and the arguments by which pickle restores this delivery. Raises TypeError
        until the record is done."""
        batch, index = self._batch, self._index
        return restore_delivery, (
            batch.topic,
            batch.partition,
            index,
            self._timestamp_ms,
            batch.pickled_report(index),
        )

    def __repr__(self) -> str:
        return self._batch.describe(self._index)


OnDelivery = Callable[[Delivery], object]


def call_back(callbacks: list[Any], failed: Callable[[Delivery], object]) -> None:
    """Call ``callback(delivery)`` for each pair in *callbacks*, a list [delivery, callback, delivery,
    callback, …].

    If a callback raises an exception, ``failed(delivery)`` is called, which can get the exception from
    ``sys.exc_info()``. The caller must not use *callbacks* afterwards: the compiled kernel changes it.
    """
    pairs = iter(callbacks)
    for delivery, callback in zip(pairs, pairs, strict=True):
        try:
            callback(delivery)
        except BaseException:
            failed(delivery)


_TIMES: Final = tuple([b"\x00" + delta for delta in SHORT[:1024]])
"""A table of encoded record fields: the attributes and the timestamp delta. The index is the timestamp delta
in milliseconds. Large deltas are not in the table."""

_SIZES_WITHOUT_KEY: Final = tuple([b"\x01" + size for size in SHORT])
"""A table of encoded record fields: a missing key, and the size of the value. The index is the size of the
value. Large sizes are not in the table."""

_OFFSETS: Final = list(SHORT)
"""A table of encoded offset deltas. The index is the offset delta. The list grows, up to a limit, when a
batch has more records than the list has entries."""

_LONGEST_OFFSETS: Final = 1 << 16
_SHORT_BODY: Final = 4096


def _encode(delta: int, index: int, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Return one record with *key*, *value* and *headers*, encoded. *delta* is its timestamp delta in
    milliseconds, and *index* its offset delta. ``encode_record`` returns the same bytes, but usually takes
    three times as long."""
    if index == len(_OFFSETS) < _LONGEST_OFFSETS:
        _OFFSETS[index : index + 1] = [encode_signed(index)]  # the same whichever producer's thread is first
    if headers or value is None or not 0 <= delta < 1024 or index >= len(_OFFSETS):
        return encode_record(delta, index, key, value, headers)
    size = len(value)
    if key is None and size < _SHORT_BODY:
        body = b"".join((_TIMES[delta], _OFFSETS[index], _SIZES_WITHOUT_KEY[size], value, b"\x00"))
    elif key is not None and size + len(key) < _SHORT_BODY:
        body = b"".join((_TIMES[delta], _OFFSETS[index], SHORT[len(key)], key, SHORT[size], value, b"\x00"))
    else:
        return encode_record(delta, index, key, value, headers)
    return SHORT[len(body)] + body


def has_plain_headers(headers: Any) -> bool:
    """Return True if *headers* can be encoded without calling code of the user, which might call ``send``
    while the lock is held."""
    if headers.__class__ is not list and headers.__class__ is not tuple:
        return False
    for pair in headers:
        if pair.__class__ is not tuple or len(pair) != 2:
            return False
        name, value = pair
        if name.__class__ is not str or (value.__class__ is not bytes and value is not None):
            return False
    return True


def is_plain(key: Any, value: Any) -> bool:
    """Return True if *key* and *value* are each bytes or None."""
    return (value.__class__ is bytes or value is None) and (key.__class__ is bytes or key is None)


class _Topic:
    """A topic to which records can be appended, with the batch under construction of each partition."""

    __slots__ = ("batch_size", "batches", "count", "expected_sizes", "sticky", "sticky_bytes")

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.count = 0
        self.sticky = 0
        self.sticky_bytes = NEVER_CHOSEN
        self.batches: list[Batch | None] = []
        self.expected_sizes: list[int] = []


class Appender(OpenBatches[Batch]):
    """Appends records to batches. Safe to use from several threads.

    If ``send`` cannot append a record by itself, for example because the topic is new or the batch is full,
    ``send`` calls the function *decline* with the same arguments and returns its result. *clock_ns* returns
    the present time in nanoseconds since 1970, for records without a timestamp. *batch_size* is the largest
    size of a batch in bytes (a single record may be larger). *memory_limit* is the largest number of bytes
    that all batches together may use until their records are stored or have failed.

    *functions* are the user's encoders and partitioner. For a record of a known topic, ``send`` calls them
    first. If it cannot append the record after that, *decline* gets the encoded key and value, and two more
    arguments: True, and the partition that the partitioner has chosen, or None. So no function is called
    twice for a record.
    """

    __module__ = "pyklient.kernel"

    def __init__(
        self,
        decline: Callable[..., Delivery],
        tracker: Tracker,
        clock_ns: Callable[[], int],
        *,
        batch_size: int,
        memory_limit: int,
        functions: UserFunctions = NO_FUNCTIONS,
    ) -> None:
        super().__init__(tracker, batch_size, memory_limit, _Topic, Batch)
        self._decline = decline
        self._clock_ns = clock_ns
        self._functions = functions
        self._plain = functions.none_given

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Append a record, with the arguments of ``Producer.send``, and return its delivery."""
        known = self._sendable.get(topic)
        if known is not None:
            if not self._plain:
                return self._prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            delivery = self._send(known, value, key, partition, timestamp_ms, headers, on_delivery)
            if delivery is not None:
                return delivery
        return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)

    # Python's error for a wrong keyword names the function, and users call Producer.send, not Appender.send.
    send.__qualname__ = "send"

    def _prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        """Call the user's functions for a record, and then append the record. Look up the topic again after
        each function, because the functions may call any method of the producer."""
        key_encoder, value_encoder, partitioner = self._functions
        if key_encoder is not None:
            key = encoded_bytes("key", key, key_encoder(key))
        if value_encoder is not None:
            value = encoded_bytes("value", value, value_encoder(value))
        chosen: int | None = None
        known = self._sendable.get(topic)
        if known is not None and partition is None and partitioner is not None and is_plain(key, value):
            count = known.count
            chosen = checked_partition(topic, partitioner(topic, key, count), count)
            known = self._sendable.get(topic)
        if known is not None:
            number = chosen if partition is None else partition
            delivery = self._send(known, value, key, number, timestamp_ms, headers, on_delivery)
            if delivery is not None:
                return delivery
        return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery, True, chosen)

    def _send(
        self,
        known: _Topic,
        value: Any,
        key: Any,
        partition: Any,
        timestamp_ms: Any,
        headers: Headers | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery | None:
        """Append a record and return its delivery. Return None if ``send`` must call *decline* instead."""
        if (
            (headers is not None and not has_plain_headers(headers))
            or not is_plain(key, value)
            or (on_delivery is not None and not callable(on_delivery))
        ):
            return None
        if partition is None:
            number = known.sticky if key is None else murmur2(key) % known.count
        elif partition.__class__ is int and 0 <= partition < known.count:
            number = partition
        else:
            return None
        if timestamp_ms is None:
            time_ms = self._clock_ns() // 1_000_000
        elif timestamp_ms.__class__ is int and 0 <= timestamp_ms <= INT64_MAX:
            time_ms = timestamp_ms
        else:
            return None
        try:
            with self._lock:
                return self._put(
                    known, number, value, key, time_ms, headers or (), on_delivery, self.memory_limit
                )
        except UnicodeEncodeError:
            return None  # a header name that is not valid text: decline raises the error

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int,
        headers: Headers,
        on_delivery: OnDelivery | None,
        limit: int,
    ) -> Delivery | None:
        """Append a record to the batch under construction of its partition. The caller has checked the
        arguments.

        Return None if the partition has no batch under construction, if that batch is full, or if all batches
        together would need more memory than *limit*. A batch without records is never full.
        """
        with self._lock:
            known = self._known.get(topic)
            if known is None or partition >= known.count:
                return None
            return self._put(
                known, partition, value, key, timestamp_ms, headers, on_delivery, limit, any_size=True
            )

    def _put(
        self,
        known: _Topic,
        number: int,
        value: bytes | None,
        key: bytes | None,
        timestamp_ms: int,
        headers: Headers,
        on_delivery: OnDelivery | None,
        limit: int,
        *,
        any_size: bool = False,
        only: tuple[Batch, int] | None = None,
    ) -> Delivery | None:
        """Append a record to the batch under construction of partition *number* of the topic *known*, or
        return None if it does not fit into this batch. The caller must hold the lock. If *any_size* is true,
        an empty batch accepts a record of any size. If *only* is (batch, index), the record is appended at
        this index of this batch or not at all."""
        while (batch := known.batches[number]) is not None:
            filled = batch._filled
            size, index = filled
            if only is not None and (batch is not only[0] or index != only[1]):
                return None
            delta = timestamp_ms - batch.base_timestamp if index else 0
            record = _encode(delta, index, key, value, headers)
            needed = size + len(record)
            if needed > known.batch_size and (index or not any_size):
                return None
            cost = 0 if on_delivery is None else CALLBACK_COST
            free_memory = limit - (self._charged - self._released)
            capacity = batch.capacity
            if needed > capacity:
                free = free_memory - cost
                share = free // max(self._open_batches, 1)
                capacity = capacity_for(capacity, needed, batch.expected_size, known.batch_size, free, share)
                cost += capacity - batch.capacity
            if cost > free_memory:
                return None
            grown = (needed, index + 1)
            end = slice(size, None)
            delivery = Delivery(batch, index, timestamp_ms)
            callback = None if on_delivery is None else (delivery, on_delivery)
            if batch._filled is not filled or known.batches[number] is not batch:
                continue  # a signal handler or a finalizer has sent in this thread meanwhile
            # From here to the new size nothing is called, and no object is made that the garbage collector
            # tracks. So neither of them can run.
            if timestamp_ms > batch.max_timestamp or not index:
                batch.max_timestamp = timestamp_ms
                if not index:
                    batch.base_timestamp = timestamp_ms
            batch.records[end] = record
            batch._filled = grown
            if cost:
                batch.capacity = capacity
                batch.charged += cost
                self._charged += cost
            if callback is not None:
                batch._callbacks.extend(callback)
            return delivery
        return None
