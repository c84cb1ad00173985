"""Records on their way out, in Python: the reference that a compiled kernel is held to.

``Producer.send`` is ``Appender.send``: on the fast path one call that finds the topic, the partition and
the batch, encodes the record into it and returns a Delivery. Where it cannot go on by itself (a topic it
does not know, a batch that is full, no memory, a value that needs an encoder, a client that is closed) it
hands the very same arguments to ``decline``, whose answer is the answer.

The seam is narrow on purpose. A twin needs these three classes, and of them only what is public here:

- Appender: ``send``, ``append``, ``append_many``, and what happens once per batch or less;
- Batch: the facts of a batch under construction, and ``settle`` when its records have an outcome;
- Delivery: a handle on (batch, index).

Each of these calls is atomic. Here a lock makes it so, made by the accumulator and passed in with the
clocks (this package knows neither threads nor time); a compiled twin holds the GIL and leaves it alone.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from pyklient.protocol.records._batch_py import (
    BATCH_COST,
    Batch,
    Delivery,
    Desk,
    OnDelivery,
    restored_delivery,
)
from pyklient.protocol.records._kernel_py import encode_record, murmur2
from pyklient.protocol.records.layout import INT64_MAX, Headers
from pyklient.protocol.records.varints import SHORT, encode_signed

__all__ = ["Appender", "Batch", "Delivery", "restored_delivery"]

LISTENER_COST: Final = 400
"""Memory of a Delivery that a callback keeps alive, its place in the batch, and a closure: most are one."""


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


class _Topic:
    """A topic that records can be appended to: the batch under construction of each partition."""

    __slots__ = ("batch_size", "batches", "count", "sticky")

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.count = 0
        self.sticky = 0
        self.batches: list[Batch | None] = []

    def close(self, first: int) -> None:
        """Close the batches of the partitions from *first* on. Their places stay, for a ``send`` that has
        just looked the topic up."""
        for number, batch in enumerate(self.batches[first:], first):
            if batch is not None:
                batch.closed = True
                self.batches[number] = None


class Appender:
    """Takes records into batches. Safe to use from several threads.

    *decline* gets the arguments of a ``send`` that is no plain append. With *plain* False that is every
    one: keys and values need encoders, or a partitioner of the user's chooses. *clock_ms* gives the time
    for records without one; ``batch_size`` bounds the records of a batch in bytes (one record may be
    larger), ``limit`` the memory of all batches that are not done yet.
    """

    OVERHEAD: Final = BATCH_COST + LISTENER_COST
    """What is charged beside its bytes for a record that begins a batch and has a callback."""

    def __init__(
        self,
        decline: Callable[..., Delivery],
        desk: Desk,
        clock_ms: Callable[[], int],
        *,
        plain: bool,
        batch_size: int,
        limit: int,
    ) -> None:
        self.limit = limit
        """Memory above which ``send`` declines. Lowered while somebody waits for memory, so that nobody
        overtakes."""
        self.used = 0
        """Memory charged for batches that are not done yet."""
        self._decline = decline
        self._desk = desk
        self._lock = desk.lock
        self._clock_ms = clock_ms
        self._batch_size = batch_size
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
            time_ms = self._clock_ms()
        elif timestamp_ms.__class__ is int and 0 <= timestamp_ms <= INT64_MAX:
            time_ms = timestamp_ms
        else:
            return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        try:
            with self._lock:
                delivery = self._put(
                    known, number, value, key, time_ms, headers or (), on_delivery, self.limit
                )
        except (AttributeError, TypeError, ValueError):
            delivery = None  # headers that are not as they should be: declining says how
        if delivery is None:
            return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        return delivery

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
            first = batch.count
            time_ms = self._clock_ms()
            for value in islice(values, start, None):
                if value.__class__ is not bytes or not self._put(
                    known, number, value, None, time_ms, (), None, self.limit
                ):
                    break
            return (batch, first, batch.count) if batch.count > first else None

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
    ) -> Delivery | None:
        """With the lock held: one record, or None. *any_size*: into an empty batch, however large it is."""
        batch = known.batches[number]
        if batch is None:
            return None
        size, index = batch._filled
        delta = timestamp_ms - batch.base_timestamp if index else 0
        record = _encode(delta, index, key, value, headers)
        cost = len(record) if on_delivery is None else len(record) + LISTENER_COST
        grown = size + len(record)
        if self.used + cost > limit or (grown > known.batch_size and (index or not any_size)):
            return None
        if timestamp_ms > batch.max_timestamp or not index:
            batch.max_timestamp = timestamp_ms
            if not index:
                batch.base_timestamp = timestamp_ms
        batch.records[size:] = record
        batch._filled = (grown, index + 1)
        batch.charged += cost
        self.used += cost
        delivery = Delivery(batch, index, timestamp_ms)
        if on_delivery is not None:
            batch._listeners.append((delivery, on_delivery))
        return delivery

    def know(self, topic: str, partitions: int) -> None:
        """*topic* has so many partitions: it is new here, or has grown, or was made again with fewer."""
        with self._lock:
            known = self._known.get(topic) or _Topic(self._batch_size)
            known.close(partitions)
            known.batches += [None] * (partitions - len(known.batches))
            known.count = partitions
            known.sticky = min(known.sticky, partitions - 1)
            self._known[topic] = known

    def forget(self, topic: str) -> None:
        """*topic* is gone; its batches under construction take no more records."""
        with self._lock:
            known = self._known.pop(topic, None)
            if known is not None:
                known.close(0)

    def topics(self) -> list[str]:
        """The topics it knows."""
        return list(self._known)

    def partition_count(self, topic: str) -> int:
        """How many partitions *topic* has; 0 where it is not known."""
        known = self._known.get(topic)
        return 0 if known is None else known.count

    def sticky(self, topic: str) -> int:
        """Where records of *topic* without a key go at the moment."""
        known = self._known.get(topic)
        return 0 if known is None else known.sticky

    def stick(self, topic: str, partition: int) -> None:
        """Records of *topic* without a key go to *partition* from now on."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None and partition < known.count:
                known.sticky = partition

    def current(self, topic: str, partition: int) -> Batch | None:
        """The batch under construction."""
        known = self._known.get(topic)
        return known.batches[partition] if known is not None and partition < known.count else None

    def open(self, topic: str, partition: int, created: float) -> Batch | None:
        """Close the batch under construction and begin another, which is charged for. None where the topic
        has no such partition (any more)."""
        with self._lock:
            known = self._known.get(topic)
            if known is None or partition >= known.count:
                return None
            before = known.batches[partition]
            if before is not None:
                before.closed = True
            batch = known.batches[partition] = Batch(self._desk, topic, partition, created)
            self.used += BATCH_COST
            return batch

    def take(self, batch: Batch) -> None:
        """Close *batch*: its bytes do not change any more, and belong to the caller."""
        with self._lock:
            batch.closed = True
            if self.current(batch.topic, batch.partition) is batch:
                self._known[batch.topic].batches[batch.partition] = None

    def shrink(self, topic: str, batch_size: int) -> None:
        """Batches of *topic* have *batch_size* bytes of records at most from now on, if that is less."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None:
                known.batch_size = min(known.batch_size, batch_size)

    def release(self, amount: int) -> None:
        """Memory that is free again."""
        with self._lock:
            self.used = max(0, self.used - amount)

    def shut(self) -> None:
        """Decline every ``send`` from now on. Takes no lock: it must work in the child of a fork."""
        self._topics = {}
