"""One partition's records on their way to its leader: what waits, what is on the wire, what goes again.

Records of a queue go out, and are confirmed, in order. While nothing fails, several batches are on the wire
at once. After a failure the queue waits until nothing of it is on the wire any more, and then sends what
failed again, one batch at a time and the oldest first, before anything new.

With idempotence, what may have been stored is sent again with the same identity. A batch that fails for good
leaves a gap in the sequence, behind which the broker takes nothing:

- Where it has certainly not been stored, neither has anything behind it, and all of that is numbered anew
  in the next epoch.
- Where it is in doubt, what is on the wire or failed behind it keeps its identity, for it may have been
  stored too. If the broker takes it, there was no gap; if it finds it out of sequence, there was one, and
  nothing behind it has been stored.

The outcomes of batches are told in the order of the batches: one that is known waits in ``_outcomes`` until
nothing before it is under way. No more wait than were on the wire when a batch failed.

The first batch of a sequence goes alone. A broker takes any number from a producer that it does not know:
were the first one refused because the partition is not ready yet, the second would be stored in its place.

When the leader moves, a batch may still be unanswered at the old one. With idempotence the new leader refuses
batches that would overtake it. Without, nothing goes to the new leader until the old one has answered, or its
time is up. ``max_in_flight_requests_per_connection`` bounds the batches of a partition too, over all brokers.

Sans I/O: the sender calls, with the time in monotonic seconds, and carries out what comes back.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable

from pyklient.errors import KafkaError
from pyklient.producer.deliver.producer_identity import NO_IDENTITY, Sequences
from pyklient.producer.deliver.sealed_batch import ProducerBatch
from pyklient.protocol.records.kernel import Batch
from pyklient.protocol.records.layout import BATCH_SIZE
from pyklient.topic_partition import TopicPartition

__all__ = ["PartitionQueue"]

Place = tuple[int, int]
_Outcome = tuple[int, int, int, int, KafkaError | None]
"""What ``Settlement.settle`` takes: first, stop, base offset, timestamp, error."""

_BATCHES_REMEMBERED = 5
"""Batches of a producer that the broker remembers for each partition, to tell one that is sent again. What
is not confirmed must stay among them, also where later ones are confirmed before it."""


class PartitionQueue:
    """*linger* and *patience* (``delivery_timeout_ms``) are in seconds; *sequences* is None where producer
    ids are not wanted. *max_in_flight* bounds the batches on the wire. *seal* closes a batch and makes a
    ProducerBatch of it."""

    def __init__(
        self,
        at: TopicPartition,
        sequences: Sequences | None,
        *,
        linger: float,
        patience: float,
        max_in_flight: int,
        seal: Callable[[Batch], ProducerBatch],
    ) -> None:
        self.at = at
        self.topic, self.partition = at
        self.sequences = sequences
        self.timer = self.alarm = float("inf")
        """When the sender looks at it next: the sender's."""
        self.queued = False
        """Whether it stands in line at a BrokerQueue: that one's."""
        self.blocked_by: KafkaError | None = None
        """Why nothing of it could be sent lately. Newer than what a batch in it failed with."""
        self._linger = linger
        self._patience = patience
        self._max_in_flight = max_in_flight
        self._seal = seal
        self._waiting: deque[Batch] = deque()
        self._to_retry: list[ProducerBatch] = []
        self._in_flight: list[ProducerBatch] = []
        self._sent_to = -1
        self._outcomes: list[tuple[Place, Batch, _Outcome]] = []
        """Known, and not told yet because something before them is still under way. By place."""
        self._sealed = 0
        self._rest_until = 0.0
        self._gap: Place | None = None
        self._doubt: Place | None = None
        self._known = False

    def __repr__(self) -> str:
        return (
            f"<PartitionQueue of {self.at}: {len(self._waiting)} batches wait, "
            f"{len(self._in_flight)} batches are on the wire, {len(self._to_retry)} to be sent again>"
        )

    @property
    def idle(self) -> bool:
        """Whether there is nothing in it."""
        return not (self._waiting or self._to_retry or self._in_flight)

    @property
    def trouble(self) -> KafkaError | None:
        """Why its oldest batch is not confirmed yet, if something has failed. From any thread."""
        failures = (batch.failure for batch in (*self._to_retry[:1], *self._in_flight[:1]))
        return self.blocked_by or next(failures, None)

    @property
    def has_more(self) -> bool:
        """Whether anything in it is not on the wire. If not, there is nothing to send, and a timer that is
        set goes off too early at worst."""
        return bool(self._waiting or self._to_retry)

    def add(self, gathered: Batch) -> None:
        """A batch has been begun; the one before it takes no more records."""
        self._waiting.append(gathered)

    def ready(self, now: float) -> bool:
        """Whether there is something to send now."""
        if self._to_retry:
            return not self._in_flight and now >= self._rest_until
        if not self._waiting or self._gap is not None or self._doubt is not None:
            return False
        if self.sequences is not None and self._in_flight:
            since_oldest = self._sealed - self._in_flight[0].order + 1
            if since_oldest >= (min(_BATCHES_REMEMBERED, self._max_in_flight) if self._known else 1):
                return False
        head = self._waiting[0]
        return head.closed or head.created + self._linger <= now

    def must_wait_for(self, node_id: int) -> bool:
        """Return True if nothing may go to broker *node_id* before another broker has answered."""
        return self.sequences is None and bool(self._in_flight) and self._sent_to != node_id

    def next_look(self, now: float) -> float:
        """When to look at it again if nothing happens: something has lingered or rested enough, or expires.
        What is due already waits for something to happen."""
        look = self._next_expiry()
        if self._to_retry and not self._in_flight and now < self._rest_until < look:
            look = self._rest_until
        if self._waiting and not self._waiting[0].closed:
            lingered = self._waiting[0].created + self._linger
            if now < lingered < look:
                look = lingered
        return look

    def peek_size(self) -> int:
        """Bytes of what ``take`` would return, before compression."""
        return self._to_retry[0].size if self._to_retry else self._waiting[0].size + BATCH_SIZE

    def take(self, node_id: int) -> ProducerBatch | None:
        """Return the next batch, for a queue that is ready; it counts as on the wire to broker *node_id*.
        None for an empty batch."""
        if self._to_retry:
            batch = self._to_retry.pop(0)
        else:
            batch = self._seal(self._waiting.popleft())
            if not batch.count:
                return None
            self._sealed += 1
            batch.order = self._sealed
        if batch.identity is None:
            batch.identity = NO_IDENTITY if self.sequences is None else self.sequences.identify(batch.count)
        batch.attempts += 1
        self._sent_to = node_id
        self._in_flight.append(batch)
        return batch

    def blocked(self, error: KafkaError) -> None:
        """Nothing of it can be sent, because of *error*, until something else fails, or is stored."""
        self.blocked_by = error

    def stored(self, batch: ProducerBatch) -> None:
        """The broker has it."""
        self.blocked_by = None
        self._in_flight.remove(batch)
        self._known = True
        if self._doubt is not None and batch.place > self._doubt:
            self._doubt = None
        self._close_gap()

    def failed(self, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool, rest_until: float) -> None:
        """It is to be sent again, not before *rest_until*. *in_doubt*: it may have been stored."""
        self._in_flight.remove(batch)
        batch.in_doubt |= in_doubt
        batch.failure = error
        self.blocked_by = None
        if self.sequences is None:
            batch.identity = None
        if batch.expired:
            self._lost(batch)
        else:
            insort(self._to_retry, batch, key=_place_of)
            self._rest_until = max(self._rest_until, rest_until)
        self._close_gap()

    def out_of_sequence(self, batch: ProducerBatch, error: KafkaError, *, rest_until: float) -> None:
        """The broker misses something before it, or knows nothing of its sequence. If there is nothing
        before it in this queue either, the sequence has to begin anew."""
        others = [other.place for other in (*self._to_retry, *self._in_flight) if other is not batch]
        batch.in_doubt = False
        if batch.place < min(others, default=(batch.order + 1, 0)):
            self._gap = batch.place
        self.failed(batch, error, in_doubt=False, rest_until=rest_until)

    def lost(self, batch: ProducerBatch) -> None:
        """It has failed for good."""
        self._in_flight.remove(batch)
        self._lost(batch)
        self._close_gap()

    def split(self, batch: ProducerBatch) -> None:
        """It is too large: its halves go instead of it, at once."""
        self._in_flight.remove(batch)
        for part in batch.halves():
            insort(self._to_retry, part, key=_place_of)
        self._close_gap()

    def note(
        self, batch: ProducerBatch, base_offset: int, timestamp_ms: int, error: KafkaError | None
    ) -> None:
        """Note the outcome of *batch*, which is not in the queue any more, or has expired on the wire."""
        outcome = (batch.first, batch.stop, base_offset, timestamp_ms, error)
        insort(self._outcomes, (batch.place, batch.gathered, outcome), key=_noted_place)

    def tell(self) -> list[tuple[Batch, _Outcome]]:
        """Return the outcomes that may be told now, in order: nothing before them is under way."""
        outcomes = self._outcomes
        stop = len(outcomes)
        for batches in (self._in_flight, self._to_retry):  # each by place
            first = next((batch for batch in batches if not batch.expired), None)
            if first is not None:
                stop = bisect_left(outcomes, first.place, 0, stop, key=_noted_place)
        told, self._outcomes = outcomes[:stop], outcomes[stop:]
        return [(gathered, outcome) for _, gathered, outcome in told]

    def without_idempotence(self) -> None:
        """The topic cannot have producer ids: go on without."""
        self.sequences = self._gap = self._doubt = None
        for batch in self._to_retry:
            batch.identity = None  # those on the wire lose theirs if they come back

    def expire(self, now: float) -> tuple[list[ProducerBatch], list[Batch]]:
        """What has taken too long: batches, and those that were never sealed. They are out of the queue,
        but for batches on the wire, whose answer is still waited for."""
        if now < self._next_expiry():
            return [], []
        patience = self._patience
        gone = [batch for batch in self._to_retry if batch.gathered.created + patience <= now]
        for batch in gone:
            self._to_retry.remove(batch)
            self._lost(batch)
        for batch in self._in_flight:
            if batch.gathered.created + patience <= now and not batch.expired:
                batch.expired = True
                gone.append(batch)
        unsealed = []
        while self._waiting and self._waiting[0].created + patience <= now:
            unsealed.append(self._waiting.popleft())
        self._close_gap()
        return gone, unsealed

    def _next_expiry(self) -> float:
        """When the oldest of what has not expired yet does."""
        oldest = self._waiting[0].created if self._waiting else float("inf")
        for batch in self._to_retry[:1]:
            oldest = min(oldest, batch.gathered.created)
        for batch in self._in_flight:
            if not batch.expired:
                oldest = min(oldest, batch.gathered.created)
                break
        return oldest + self._patience

    def _lost(self, batch: ProducerBatch) -> None:
        if self.sequences is None or not batch.idempotent:
            return
        if batch.in_doubt:
            self._doubt = max(self._doubt or batch.place, batch.place)
        else:
            self._gap = min(self._gap or batch.place, batch.place)

    def _close_gap(self) -> None:
        """Begin a new epoch behind a gap, once nothing before it, and nothing on the wire, is left."""
        if self.sequences is None or self._in_flight:
            return
        if self._gap is not None:
            closed = not self._to_retry or self._to_retry[0].place >= self._gap
        else:
            closed = self._doubt is not None and not self._to_retry
        if closed:
            self._gap = self._doubt = None
            self.sequences.restart()
            self._known = False
            for batch in self._to_retry:
                batch.identity = None
                batch.in_doubt = False


def _place_of(batch: ProducerBatch) -> Place:
    return batch.place


def _noted_place(noted: tuple[Place, Batch, _Outcome]) -> Place:
    return noted[0]
