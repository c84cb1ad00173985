"""What became of the records of a batch, and who is told: what both kernels have in common of a batch."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyklient.errors import KafkaError, KafkaTimeoutError, for_another
from pyklient.topic_partition import RecordMetadata

__all__ = ["Desk", "Nobody", "Outcome", "Settlement"]


class Desk(Protocol):
    """What batches need of the outside: who waits for them, and which failures nobody has looked at."""

    lock: AbstractContextManager[Any]

    def wait(self, batch: Any, timeout: float | None) -> bool:
        """Wait for ``batch.done``, *timeout* seconds at most; whether it is. None: as long as it takes."""

    def unseen(self, batch: Any, change: int, error: KafkaError) -> None:
        """*change* more failed records of *batch* (fewer, if negative) whose failure nobody has seen."""


class Nobody:
    """The desk of batches that come from a pickle: all is known of them, and reported elsewhere."""

    lock: AbstractContextManager[Any] = nullcontext()

    def wait(self, batch: Any, timeout: float | None) -> bool:
        """See Desk."""
        return True

    def unseen(self, batch: Any, change: int, error: KafkaError) -> None:
        """See Desk."""


class Outcome(NamedTuple):
    """What became of the records *first* … *stop* - 1 of a batch. ``base_offset`` is that of the first, -1
    where it is not known; ``timestamp_ms`` the broker's own time, -1 where records keep theirs."""

    first: int
    stop: int
    base_offset: int
    timestamp_ms: int
    error: KafkaError | None


class Settlement:
    """Half of a Batch: what happens once its records are on their way. The kernel's half is what it holds.

    Nothing here runs once per record, but for records that fail or are waited for one by one.
    """

    # The kernel's half has these, as it looks at them for each record.
    topic: str
    partition: int
    done: bool
    # Deliveries, each with its callback behind it: what is listed by itself costs no object for the two.
    _listeners: list[Any]
    _outcomes: list[Outcome]
    if TYPE_CHECKING:

        @property
        def count(self) -> int: ...

        def let_go(self) -> None: ...

    def __init__(self, desk: Desk, created: float) -> None:
        self.created = created
        self.waiters: list[Callable[[], object]] = []
        """Called when it is done, where somebody waits: the desk's."""
        self.page = 0
        """Where the desk has written its failures down."""
        self._desk = desk
        self._unsettled = -1
        self._has_failures = False
        self._watched: set[int] = set()

    def settle(
        self, first: int, stop: int, base_offset: int, timestamp_ms: int, error: KafkaError | None
    ) -> list[Any] | None:
        """What became of some of its records; each is settled once. When that was the last of them the
        batch is done, whoever waits is woken, and what ``call_back`` takes is returned; until then None."""
        with self._desk.lock:
            if self._unsettled < 0:
                self._unsettled = self.count
            self._outcomes.append(Outcome(first, stop, base_offset, timestamp_ms, error))
            self._has_failures |= error is not None
            self._unsettled -= stop - first
            if self._unsettled:
                return None
            self._outcomes.sort()
            self.done = True
            listeners, self._listeners = self._listeners, []
            if self._has_failures:
                self._count_unseen(listeners)
            waiters, self.waiters = self.waiters, []
        self.let_go()
        for wake in waiters:
            wake()
        return listeners

    def settle_rest(self, error: KafkaError) -> list[Any]:
        """Fail all records that have no outcome yet, for a batch that is closed."""
        settled = sorted((outcome.first, outcome.stop) for outcome in self._outcomes)
        listeners: list[Any] | None = None
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

    def exception(self, index: int, timeout: float | None) -> KafkaError | None:
        """See Delivery.exception."""
        if not self.done and not self.wait(index, index + 1, timeout):
            raise KafkaTimeoutError(
                f"{self.topic}-{self.partition}: not confirmed within {timeout or 0:.3g} s; "
                "it may still be delivered"
            )
        error = self.outcome(index).error
        if error is None:
            return None
        self.see(index, index + 1)
        return for_another(error)

    def result(self, index: int, timestamp_ms: int, timeout: float | None) -> RecordMetadata:
        """See Delivery.result. *timestamp_ms* is the record's own."""
        error = self.exception(index, timeout)
        if error is not None:
            raise error
        outcome = self.outcome(index)
        offset = outcome.base_offset
        return RecordMetadata(
            self.topic,
            self.partition,
            offset if offset < 0 else offset + index - outcome.first,
            timestamp_ms if outcome.timestamp_ms < 0 else outcome.timestamp_ms,
        )

    def stored(self, index: int, timestamp_ms: int) -> RecordMetadata | None:
        """Where it is, as far as that is known by now."""
        if not self.done:
            return None
        outcome = self.outcome(index)
        if outcome.error is not None or outcome.base_offset < 0:
            return None
        return self.result(index, timestamp_ms, 0)

    def carried(self, index: int) -> tuple[Any, ...]:
        """What a pickle holds of the outcome of one record. Raises TypeError where it is not known."""
        if not self.done:
            raise TypeError("a Delivery under way cannot be pickled; wait for its result() first")
        outcome = self.outcome(index)
        offset = outcome.base_offset
        return index, index + 1, offset if offset < 0 else offset + index - outcome.first, *outcome[3:]

    def recall(self, outcome: tuple[Any, ...]) -> None:
        """The same, out of the pickle: all there is to know of the batch."""
        self.done = True
        self._outcomes = [Outcome(*outcome)]

    def describe(self, index: int) -> str:
        """The repr of a Delivery."""
        state = "under way"
        if self.done:
            outcome = self.outcome(index)
            if outcome.error is not None:
                state = f"failed: {outcome.error}"
            elif outcome.base_offset < 0:
                state = "sent, offset unknown"
            else:
                state = f"stored at offset {outcome.base_offset + index - outcome.first}"
        return f"<Delivery to {self.topic}-{self.partition}, {state}>"

    def wait(self, first: int, stop: int, timeout: float | None) -> bool:
        """Wait until it is done; whether it is. A failure of the records *first* … *stop* - 1 counts as seen
        from now on, unless this times out."""
        indexes = range(first, stop)
        with self._desk.lock:
            if self.done:
                return True
            self._watched.update(indexes)
        try:
            return self._desk.wait(self, timeout) or not self._look_away(indexes)
        except BaseException:
            self._look_away(indexes)
            raise

    def _look_away(self, indexes: range) -> bool:
        """Nobody waits for these records any more; whether that is before it is done."""
        with self._desk.lock:
            if not self.done:
                self._watched.difference_update(indexes)
            return not self.done

    def see(self, first: int, stop: int) -> None:
        """Somebody has looked at the outcome of these records of a batch that is done."""
        with self._desk.lock:
            for outcome in self.outcomes(first, stop):
                if outcome.error is not None:
                    fresh = set(range(outcome.first, outcome.stop)) - self._watched
                    self._watched |= fresh
                    if fresh:
                        self._desk.unseen(self, -len(fresh), outcome.error)

    def listen(self, delivery: Any, callback: Callable[[Any], object]) -> bool:
        """Have *callback* called when it is done; False if it is, and nobody will."""
        with self._desk.lock:
            if not self.done:
                self._listeners.extend((delivery, callback))
            return not self.done

    def _count_unseen(self, listeners: list[Any]) -> None:
        failed = [outcome for outcome in self._outcomes if outcome.error is not None]
        self._watched.update([delivery.place[1] for delivery in listeners[::2]])
        for outcome in failed:
            seen = sum(outcome.first <= index < outcome.stop for index in self._watched)
            if outcome.error is not None and outcome.stop - outcome.first > seen:
                self._desk.unseen(self, outcome.stop - outcome.first - seen, outcome.error)


def _first_of(outcome: Outcome) -> int:
    return outcome.first
