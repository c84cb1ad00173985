"""What stands between a record and its outcome: its batch, and the Delivery that a user may hold.

Part of the Python kernel; see ``_append_py``.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any, Final, NamedTuple, Protocol

from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.model import RecordMetadata

__all__ = ["BATCH_COST", "Batch", "Delivery", "Desk", "OnDelivery", "Outcome", "restored_delivery"]

OnDelivery = Callable[["Delivery"], object]

BATCH_COST: Final = 1024
"""Memory that a batch takes beside its records: the objects here and those that carry it to the broker."""


class Desk(Protocol):
    """What batches need of the outside: who waits for them, and which failures nobody has looked at."""

    lock: AbstractContextManager[Any]

    def wait(self, batch: "Batch", timeout: float | None) -> bool:
        """Wait for ``batch.done``, *timeout* seconds at most; whether it is. None: as long as it takes."""

    def unseen(self, batch: "Batch", change: int, error: KafkaError) -> None:
        """*change* more failed records of *batch* (fewer, if negative) whose failure nobody has seen."""


class Outcome(NamedTuple):
    """What became of the records *first* … *stop* - 1 of a batch. ``base_offset`` is that of the first, -1
    where it is not known; ``timestamp_ms`` the broker's own time, -1 where records keep theirs."""

    first: int
    stop: int
    base_offset: int
    timestamp_ms: int
    error: KafkaError | None


class Batch:
    """Records of one partition: under construction, then ``closed``, then ``done``.

    It is done once, for all its records, though parts of it may have been settled one by one. ``created``
    is in the accumulator's monotonic seconds.
    """

    __slots__ = (
        "_desk",
        "_filled",
        "_listeners",
        "_outcomes",
        "_unsettled",
        "_watched",
        "base_timestamp",
        "charged",
        "closed",
        "created",
        "done",
        "event",
        "max_timestamp",
        "page",
        "partition",
        "records",
        "topic",
    )

    def __init__(self, desk: Desk, topic: str, partition: int, created: float) -> None:
        self.topic = topic
        self.partition = partition
        self.created = created
        self.records: bytearray = bytearray()
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.charged = BATCH_COST
        """The memory accounted for it."""
        self.closed = False
        self.done = False
        self.event: Any = None
        """Set when it is done, where somebody waits: the desk's."""
        self.page = 0
        """Where the desk has written its failures down."""
        self._desk = desk
        # Size and count, in one step: what an interrupted append has left behind them does not count.
        self._filled = (0, 0)
        self._listeners: list[tuple[Delivery, OnDelivery]] = []
        self._outcomes: list[Outcome] = []
        self._unsettled = -1
        self._watched: set[int] = set()

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

    def settle(
        self, first: int, stop: int, base_offset: int, timestamp_ms: int, error: KafkaError | None
    ) -> list[tuple["Delivery", OnDelivery]] | None:
        """What became of some of its records; each is settled once. When that was the last of them the
        batch is done, whoever waits is woken, and the callbacks to run are returned; until then None."""
        with self._desk.lock:
            if self._unsettled < 0:
                self._unsettled = self._filled[1]
            self._outcomes.append(Outcome(first, stop, base_offset, timestamp_ms, error))
            self._unsettled -= stop - first
            if self._unsettled:
                return None
            self._outcomes.sort()
            self.done = True
            listeners, self._listeners = self._listeners, []
            self._count_unseen(listeners)
            event = self.event
        self.records = bytearray()
        if event is not None:
            event.set()
        return listeners

    def settle_rest(self, error: KafkaError) -> list[tuple["Delivery", OnDelivery]]:
        """Fail all records that have no outcome yet, for a batch that is closed."""
        settled = sorted((outcome.first, outcome.stop) for outcome in self._outcomes)
        listeners: list[tuple[Delivery, OnDelivery]] | None = None
        position = 0
        for first, stop in [*settled, (self.count, self.count)]:
            if position < first or not settled:
                listeners = self.settle(position, first, -1, -1, error)
            position = stop
        return listeners or []

    def outcome(self, index: int) -> Outcome:
        """What became of record *index* of a batch that is done."""
        outcomes = self._outcomes
        if len(outcomes) == 1:
            return outcomes[0]
        return outcomes[bisect_right(outcomes, index, key=_first_of) - 1]

    def outcomes(self, first: int, stop: int) -> Iterator[Outcome]:
        """What became of the records *first* … *stop* - 1 of a batch that is done, in order."""
        for outcome in self._outcomes:
            start, end = max(first, outcome.first), min(stop, outcome.stop)
            if start < end:
                offset = outcome.base_offset
                yield Outcome(
                    start,
                    end,
                    offset if offset < 0 else offset + start - outcome.first,
                    outcome.timestamp_ms,
                    outcome.error,
                )

    def wait(self, first: int, stop: int, timeout: float | None) -> bool:
        """Wait until it is done; whether it is. A failure of the records *first* … *stop* - 1 counts as seen
        from now on, unless this times out."""
        indexes = range(first, stop)
        with self._desk.lock:
            if self.done:
                return True
            self._watched.update(indexes)
        if self._desk.wait(self, timeout):
            return True
        with self._desk.lock:
            if not self.done:
                self._watched.difference_update(indexes)
            return self.done

    def see(self, first: int, stop: int) -> None:
        """Somebody has looked at the outcome of these records of a batch that is done."""
        with self._desk.lock:
            for outcome in self.outcomes(first, stop):
                if outcome.error is not None:
                    fresh = set(range(outcome.first, outcome.stop)) - self._watched
                    self._watched |= fresh
                    if fresh:
                        self._desk.unseen(self, -len(fresh), outcome.error)

    def listen(self, delivery: "Delivery", callback: OnDelivery) -> bool:
        """Have *callback* called when it is done; False if it is, and nobody will."""
        with self._desk.lock:
            if not self.done:
                self._listeners.append((delivery, callback))
            return not self.done

    def _count_unseen(self, listeners: list[tuple["Delivery", OnDelivery]]) -> None:
        failed = [outcome for outcome in self._outcomes if outcome.error is not None]
        if not failed:
            return
        self._watched.update([delivery._index for delivery, _ in listeners])
        for outcome in failed:
            seen = sum(outcome.first <= index < outcome.stop for index in self._watched)
            if outcome.error is not None and outcome.stop - outcome.first > seen:
                self._desk.unseen(self, outcome.stop - outcome.first - seen, outcome.error)


def _first_of(outcome: Outcome) -> int:
    return outcome.first


class Delivery:
    """What becomes of one record that was sent. Light: a handle on its batch, and safe in any thread.

    It need not be kept. A failure that nobody looks at here, and that no callback is told, is raised by
    ``flush``, ``close`` or the end of the ``with`` block.
    """

    __slots__ = ("_batch", "_index", "_timestamp_ms")
    __module__ = "pyklient.protocol.records.kernel"

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
        error = self.exception(timeout)
        if error is not None:
            raise error
        outcome = self._batch.outcome(self._index)
        offset = outcome.base_offset
        return RecordMetadata(
            self._batch.topic,
            self._batch.partition,
            offset if offset < 0 else offset + self._index - outcome.first,
            self._timestamp_ms if outcome.timestamp_ms < 0 else outcome.timestamp_ms,
        )

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Why the record could not be delivered; None if it was. Waits, and times out, as ``result`` does."""
        batch, index = self._batch, self._index
        if not batch.done and not batch.wait(index, index + 1, timeout):
            raise KafkaTimeoutError(
                f"{batch.topic}-{batch.partition}: not confirmed within {timeout or 0:.3g} s; "
                "it may still be delivered"
            )
        error = batch.outcome(index).error
        if error is None:
            return None
        batch.see(index, index + 1)
        # Each gets its own: an exception raised in several threads would mix their tracebacks.
        mine = copy(error)
        mine.__cause__ = error.__cause__
        return mine

    def add_done_callback(self, callback: OnDelivery) -> None:
        """Call ``callback(delivery)`` when the outcome is known: on the sender's thread, or here and now if
        it is known already. What it raises is logged, or raised here and now."""
        if not self._batch.listen(self, callback):
            self._batch.see(self._index, self._index + 1)
            callback(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Delivery:
            return NotImplemented
        if self._batch is other._batch or self._index != other._index:
            return self._batch is other._batch and self._index == other._index
        stored = self._stored()
        return stored is not None and stored == other._stored()

    def __hash__(self) -> int:
        return hash((self._batch.topic, self._batch.partition, self._index))

    def __reduce__(self) -> tuple[Any, ...]:
        """Of a record whose outcome is known. Raises TypeError before that."""
        from pyklient.protocol.records.kernel import restore_delivery

        batch, index = self._batch, self._index
        if not batch.done:
            raise TypeError("a Delivery under way cannot be pickled; wait for its result() first")
        outcome = batch.outcome(index)
        offset = outcome.base_offset
        own = outcome._replace(
            first=index, stop=index + 1, base_offset=offset if offset < 0 else offset + index - outcome.first
        )
        return restore_delivery, (batch.topic, batch.partition, index, self._timestamp_ms, tuple(own))

    def _stored(self) -> RecordMetadata | None:
        """Where it is, as far as that is known by now."""
        if not self._batch.done:
            return None
        outcome = self._batch.outcome(self._index)
        if outcome.error is not None or outcome.base_offset < 0:
            return None
        return self.result(0)

    def __repr__(self) -> str:
        batch = self._batch
        if not batch.done:
            state = "under way"
        else:
            outcome = batch.outcome(self._index)
            if outcome.error is not None:
                state = f"failed: {outcome.error}"
            elif outcome.base_offset < 0:
                state = "sent, offset unknown"
            else:
                state = f"stored at offset {outcome.base_offset + self._index - outcome.first}"
        return f"<Delivery to {batch.topic}-{batch.partition}, {state}>"


class _NobodyWaits:
    """The desk of batches that come from a pickle: all is known of them, and reported elsewhere."""

    lock: AbstractContextManager[Any] = nullcontext()

    def wait(self, batch: Batch, timeout: float | None) -> bool:
        return batch.done

    def unseen(self, batch: Batch, change: int, error: KafkaError) -> None:
        return None


def restored_delivery(
    topic: str, partition: int, index: int, timestamp_ms: int, outcome: tuple[Any, ...]
) -> Delivery:
    """A Delivery out of its pickle."""
    batch = Batch(_NobodyWaits(), topic, partition, 0.0)
    batch.done = batch.closed = True
    batch._outcomes = [Outcome(*outcome)]
    return Delivery(batch, index, timestamp_ms)
