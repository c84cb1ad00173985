"""Records on their way out, in Python: the reference that a compiled kernel is held to.

``Producer.send`` is ``Appender.send``: on the fast path one call that finds the topic, the partition and
the batch, encodes the record into it and returns a Delivery. Where it cannot go on by itself (a topic it
does not know, a batch that is full, no memory, a value that needs an encoder, a client that is closed) it
hands the very same arguments to ``decline``, whose answer is the answer.

The seam is narrow on purpose. A twin needs these three classes, and of them only what is public here:

- Appender: ``send``, ``append``, ``append_many``, and what happens once per batch or less;
- Batch: the facts of a batch under construction, and ``settle`` when its records have an outcome;
- Delivery: a handle on (batch, index).

Each of these calls is atomic. Those that run once per record are so here by a lock, which comes with the
desk that batches report to (this package knows neither threads nor time); a compiled twin holds the GIL
instead. The halves that both kernels share, ``register`` and ``outcomes``, take the lock on either. It is
reentrant: a signal's handler or a finalizer may send in the middle of a ``send``.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NoReturn

from pyklient.errors import KafkaError
from pyklient.kernel._encode_py import encode_record, murmur2
from pyklient.kernel.delivery_reports import Desk, Outcome, Settlement
from pyklient.kernel.pickling import restore_delivery
from pyklient.kernel.topic_table import BATCH_COST, LISTENER_COST, Register, capacity_for
from pyklient.protocol.records.layout import INT64_MAX, Headers
from pyklient.protocol.records.varints import SHORT, encode_signed
from pyklient.topic_partition import RecordMetadata

__all__ = ["Appender", "Batch", "Delivery", "OnDelivery", "call_back"]


class Batch(Settlement):
    """Records of one partition: under construction, then ``closed``, then ``done``.

    It is done once, for all its records, though parts of it may have been settled one by one. ``created``
    is in the accumulator's monotonic seconds.
    """

    __module__ = "pyklient.kernel"

    def __init__(self, desk: Desk, topic: str, partition: int, created: float) -> None:
        super().__init__(desk, created)
        self.topic = topic
        self.partition = partition
        self.records: bytearray = bytearray()
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.charged = BATCH_COST
        """The memory accounted for it."""
        self.capacity = 0
        """How many bytes of memory its records have, used or not."""
        self.closed = False
        self.done = False
        # Size and count, in one step: what an interrupted append has left behind them does not count.
        self._filled = (0, 0)
        self._listeners: list[Any] = []
        self._outcomes: list[Outcome] = []

    @property
    def count(self) -> int:
        """How many records it has."""
        return self._filled[1]

    @property
    def size(self) -> int:
        """Bytes of its records."""
        return self._filled[0]

    def payload(self) -> bytearray:
        """The records section of a batch of format 2, for a batch that is closed."""
        del self.records[self._filled[0] :]
        return self.records

    def let_go(self) -> None:
        """Forget its records, for a batch that is closed; who has got its payload keeps that."""
        self.records = bytearray()


class Delivery:
    """What becomes of one record that was sent. Light: a handle on its batch, and safe in any thread.

    It need not be kept. A failure that nobody looks at here, and that no callback is told, is raised by
    ``flush``, ``close`` or the end of the ``with`` block.
    """

    __slots__ = ("_batch", "_index", "_timestamp_ms")
    __module__ = "pyklient.kernel"

    def __init_subclass__(cls) -> NoReturn:
        # as the compiled one has it
        raise TypeError("type 'pyklient.kernel.Delivery' is not an acceptable base type")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def place(self) -> tuple[Batch, int]:
        """Its batch, and its place there."""
        return self._batch, self._index

    @property
    def topic(self) -> str:
        """The topic it was sent to."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """The partition it was sent to."""
        return self._batch.partition

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is stored, as soon as that is known.

        ``offset`` is -1 with ``acks=0``. Raises what ``exception`` returns, and KafkaTimeoutError where the
        outcome is not known after *timeout* seconds: the record may still be delivered. Without a
        *timeout* it takes ``delivery_timeout_ms`` at most.
        """
        return self._batch.result(self._index, self._timestamp_ms, timeout)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Why the record could not be delivered; None if it was. Waits, and times out, as ``result`` does."""
        return self._batch.exception(self._index, timeout)

    def add_done_callback(self, callback: "OnDelivery") -> None:
        """Call ``callback(delivery)`` when the outcome is known: on a thread of the producer's, or here if
        it is known already. What it raises is logged, or raised here and now."""
        if not self._batch.listen(self, callback):
            self._batch.see(self._index, self._index + 1)
            callback(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Delivery:
            return NotImplemented
        if self._batch is other._batch or self._index != other._index:
            return self._batch is other._batch and self._index == other._index
        stored = self._batch.stored(self._index, self._timestamp_ms)
        return stored is not None and stored == other._batch.stored(other._index, other._timestamp_ms)

    def __hash__(self) -> int:
        return hash((self._batch.topic, self._batch.partition, self._index))

    def __reduce__(self) -> tuple[Any, ...]:
        """Of a record whose outcome is known. Raises TypeError before that."""
        batch, index = self._batch, self._index
        return restore_delivery, (
            batch.topic,
            batch.partition,
            index,
            self._timestamp_ms,
            batch.carried(index),
        )

    def __repr__(self) -> str:
        return self._batch.describe(self._index)


OnDelivery = Callable[[Delivery], object]


def call_back(listeners: list[Any], failed: Callable[[Delivery], object]) -> None:
    """Call each callback with the delivery before it. For one that raises, ``failed(delivery)`` is called
    while that is handled. *listeners* has nothing of use in it afterwards."""
    pairs = iter(listeners)
    for delivery, callback in zip(pairs, pairs, strict=True):
        try:
            callback(delivery)
        except BaseException:
            failed(delivery)


_TIMES: Final = tuple([b"\x00" + delta for delta in SHORT[:1024]])
"""How a record begins that is so many milliseconds younger than the first."""

_SIZES_WITHOUT_KEY: Final = tuple([b"\x01" + size for size in SHORT])
"""No key, and a value of so many bytes."""

_OFFSETS: Final = list(SHORT)
"""The places of records in their batch: a batch of small ones makes it longer, up to a limit."""

_LONGEST_OFFSETS: Final = 1 << 16
_SHORT_BODY: Final = 4096


def _encode(delta: int, index: int, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """What ``encode_record`` returns, at a third of its price for records that are usual."""
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


def _plain(headers: Any) -> bool:
    """Whether they can be encoded without running anybody else's code, which might send, under the lock."""
    if headers.__class__ is not list and headers.__class__ is not tuple:
        return False
    for pair in headers:
        if pair.__class__ is not tuple or len(pair) != 2:
            return False
        name, value = pair
        if name.__class__ is not str or (value.__class__ is not bytes and value is not None):
            return False
    return True


class _Topic:
    """A topic that records can be appended to: the batch under construction of each partition."""

    __slots__ = ("batch_size", "batches", "count", "sticky")

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.count = 0
        self.sticky = 0
        self.batches: list[Batch | None] = []


class Appender(Register):
    """Takes records into batches. Safe to use from several threads.

    *decline* gets the arguments of a ``send`` that is no plain append. With *plain* False that is every
    one: keys and values need encoders, or a partitioner of the user's chooses. *clock_ns* gives the time
    for records without one, in nanoseconds since 1970; *batch_size* bounds the records of a batch in bytes
    (one record may be larger), *limit* the memory of all batches that are not done yet.
    """

    __module__ = "pyklient.kernel"

    def __init__(
        self,
        decline: Callable[..., Delivery],
        desk: Desk,
        clock_ns: Callable[[], int],
        *,
        plain: bool,
        batch_size: int,
        limit: int,
    ) -> None:
        super().__init__(desk, batch_size, _Topic, Batch)
        self.limit = limit
        self._taken = 0
        self._freed = 0
        self._decline = decline
        self._clock_ns = clock_ns
        self._known: dict[str, _Topic] = {}
        # What send looks at: empty where everything has to be declined.
        self._topics = self._known if plain else {}

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
        """See Producer.send."""
        known = self._topics.get(topic)
        if (
            known is None
            or (headers is not None and not _plain(headers))
            or (value.__class__ is not bytes and value is not None)
            or (key.__class__ is not bytes and key is not None)
            or (on_delivery is not None and not callable(on_delivery))
        ):
            return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        if partition is None:
            number = known.sticky if key is None else murmur2(key) % known.count
        elif partition.__class__ is int and 0 <= partition < known.count:
            number = partition
        else:
            return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        if timestamp_ms is None:
            time_ms = self._clock_ns() // 1_000_000
        elif timestamp_ms.__class__ is int and 0 <= timestamp_ms <= INT64_MAX:
            time_ms = timestamp_ms
        else:
            return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        try:
            with self._lock:
                delivery = self._put(
                    known, number, value, key, time_ms, headers or (), on_delivery, self.limit
                )
        except UnicodeEncodeError:
            delivery = None  # the name of a header is no text: declining says so
        if delivery is None:
            return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        return delivery

    # What Python says of a wrong keyword names the function so, and users have a Producer, not an Appender.
    send.__qualname__ = "send"

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
        """Append to the batch under construction; to an empty one whatever the size. None where that is
        impossible: there is none, it is full, or it would take more memory than *limit*. For records that
        have been checked."""
        with self._lock:
            known = self._known.get(topic)
            if known is None or partition >= known.count:
                return None
            return self._put(
                known, partition, value, key, timestamp_ms, headers, on_delivery, limit, any_size=True
            )

    def append_many(
        self, topic: str, partition: int | None, values: Sequence[Any], start: int
    ) -> tuple[Batch, int, int] | None:
        """Append ``values[start:]`` to the batch under construction of *partition*, of the sticky one if that
        is None, without keys and headers, as long as they are plain bytes and fit. Returns the batch and the
        first and last + 1 of their places in it; None where ``send`` has to see to the next one."""
        known = self._topics.get(topic)
        if known is None:
            return None
        with self._lock:
            number = known.sticky if partition is None else partition
            batch = known.batches[number] if 0 <= number < known.count else None
            if batch is None:
                return None
            first = stop = batch.count
            time_ms = self._clock_ns() // 1_000_000
            for value in islice(values, start, None):
                if value.__class__ is not bytes or not self._put(
                    known, number, value, None, time_ms, (), None, self.limit, only=(batch, stop)
                ):
                    break
                stop += 1
            return (batch, first, stop) if stop > first else None

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
        """With the lock held: one record, or None. *any_size*: into an empty batch, however large it is.
        *only*: nowhere but at this place of this batch."""
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
            cost = 0 if on_delivery is None else LISTENER_COST
            free_memory = limit - (self._taken - self._freed)
            capacity = batch.capacity
            place = slice(size, needed)
            if needed > capacity:
                capacity = capacity_for(capacity, needed, known, free_memory - cost)
                cost += capacity - batch.capacity
                place = slice(size, None)
            if cost > free_memory:
                return None
            data = record + bytes(capacity - needed) if capacity > batch.capacity else record
            grown = (needed, index + 1)
            delivery = Delivery(batch, index, timestamp_ms)
            listener = None if on_delivery is None else (delivery, on_delivery)
            if batch._filled is not filled or known.batches[number] is not batch:
                continue  # a signal's handler, or a finalizer, has sent in this very thread meanwhile
            # From here to the new size nothing is called, nor made that the garbage collector tracks: so
            # neither of them can run.
            if timestamp_ms > batch.max_timestamp or not index:
                batch.max_timestamp = timestamp_ms
                if not index:
                    batch.base_timestamp = timestamp_ms
            batch.records[place] = data
            batch._filled = grown
            batch.capacity = capacity
            batch.charged += cost
            self._taken += cost
            if listener is not None:
                batch._listeners.extend(listener)
            return delivery
        return None
