"""One partition's batches on their way to its leader: they wait, are in flight, or are to be retried.

The batches of a queue are sent and confirmed in order. While nothing fails, several batches are in flight at
once. After a failure the queue waits until nothing is in flight any more. Then it sends the failed batches
again, one at a time and the oldest first, before it sends new batches.

With idempotence, a batch that may have been stored is sent again with the same identity (producer id, epoch
and sequence number). A batch that fails permanently leaves a gap in the sequence, and the broker stores
nothing after a gap:

- If the failed batch was certainly not stored, no later batch was stored either. All later batches get new
  sequence numbers in the next epoch.
- If the failed batch may have been stored, the later batches keep their identities, because they may have
  been stored too. If the broker stores one of the later batches, there was no gap. If the broker reports one
  of them as out of sequence, there was a gap, and no later batch was stored.

Outcomes are reported in the order of the batches: the outcome of a batch waits in ``outcomes`` until all
earlier batches have finished. Few outcomes wait: those of batches that were in flight when an earlier batch
failed.

When the leader moves, the old leader may not have answered a batch yet. With idempotence, the new leader
rejects batches that would overtake that batch. Without idempotence, nothing is sent to the new leader until
the old leader has answered, or its time-out is over. The in-flight limit of a partition counts the batches at
all brokers.

This module does no I/O: the sender calls it, with times in monotonic seconds, and acts on the results.
"""

from bisect import insort
from collections import deque

from pyklient.counted import counted
from pyklient.errors import KafkaError
from pyklient.kernel import Batch
from pyklient.producer.deliver.batch_compression import BatchCompressor
from pyklient.producer.deliver.in_flight_limits import InFlightLimits
from pyklient.producer.deliver.outcomes import Order, Outcome, Outcomes
from pyklient.producer.deliver.sealed_batch import SealedBatch
from pyklient.producer.deliver.sequence_gap import SequenceGap
from pyklient.producer.deliver.sequences import NO_IDENTITY, Sequences
from pyklient.producer.threads.timers import NEVER, Timed
from pyklient.protocol.records.layout import BATCH_SIZE
from pyklient.topic_partition import TopicPartition

__all__ = ["PartitionQueue"]


class PartitionQueue(Timed):
    """The batches of one partition on their way to its leader. Callers must hold the sender lock.

    *sequences* is None without idempotence. *linger* and *delivery_timeout* are in seconds. The queue adds
    itself to *changed* when the sender should check it again.
    """

    def __init__(
        self,
        at: TopicPartition,
        sequences: Sequences | None,
        compressor: BatchCompressor,
        limits: InFlightLimits,
        changed: "dict[PartitionQueue, None]",
        *,
        linger: float,
        delivery_timeout: float,
    ) -> None:
        self.at = at
        self.topic, self.partition = at
        self.sequences = sequences
        self.transactional = sequences is not None and sequences.transactional
        self.in_line = False
        """True while the queue is in line: it waits in a BrokerQueue."""
        self.routed = True
        """False if a queue in line must leave it and be routed again: it needs another producer id, or its
        partition must be added to the next transaction."""
        self.blocked_by: KafkaError | None = None
        """The failure because of which the queue cannot send now, such as an unreachable leader. It is newer
        than the failures of the batches."""
        self._compressor = compressor
        self._linger = linger
        self._limits = limits
        self._changed = changed
        self._delivery_timeout = delivery_timeout
        self._waiting: deque[Batch] = deque()
        self._to_retry: list[SealedBatch] = []
        self._in_flight: list[SealedBatch] = []
        self._sent_to = -1
        self.outcomes = Outcomes()
        """The outcomes that must not be reported yet, because an earlier batch has not finished."""
        self._sealed = 0
        self._retry_at = 0.0
        self._gap = SequenceGap()
        self._checked: Batch | None = None
        """The first waiting batch at the time when the sender last checked the queue. None if that batch was
        still open."""

    def __repr__(self) -> str:
        return (
            f"<PartitionQueue of {self.at}: {counted(len(self._waiting), 'batch', 'batches')} waiting, "
            f"{len(self._in_flight)} in flight, {len(self._to_retry)} to be retried>"
        )

    @property
    def idle(self) -> bool:
        """True if the queue is empty and nothing is in flight."""
        return not (self._waiting or self._to_retry or self._in_flight)

    @property
    def last_failure(self) -> KafkaError | None:
        """The reason why the oldest batch is not confirmed yet. None if nothing has failed. Any thread may
        read it."""
        failures = (batch.failure for batch in (*self._to_retry[:1], *self._in_flight[:1]))
        return self.blocked_by or next(failures, None)

    def on_timer(self) -> None:
        """Tell the sender to check the queue, because the time for the next check has come."""
        self._changed[self] = None

    def add(self, batch: Batch) -> None:
        """Add *batch*, the newest batch of the partition. Earlier batches accept no more records."""
        self._waiting.append(batch)
        self.note_change()

    def note_change(self) -> None:
        """Tell the sender to check the queue, because a batch was added or sealed.

        Do nothing if the sender has checked the queue since its first waiting batch was sealed, because it
        checks the queue again after a response or when the timer of the queue fires.
        """
        if self._waiting and self._waiting[0] is not self._checked:
            self._changed[self] = None

    def leave_line(self) -> None:
        """Record that the queue is not in line any more. If it has a batch, tell the sender to check it."""
        self.in_line = False
        if self._waiting or self._to_retry:
            self._changed[self] = None

    def stays_in_line(self, now: float) -> bool:
        """Return True if the queue, from which a batch was just drained, has a sealed batch, or another batch
        that may be sent now. Otherwise, record that the queue is not in line any more."""
        if self._waiting and (self._waiting[0].sealed or self.ready(now)):
            return True
        self.in_line = False
        if self._waiting or not self._in_flight:
            self._changed[self] = None
        return False

    def ready(self, now: float) -> bool:
        """Return True if the next batch of the queue may be sent now."""
        if self.in_line and not self.routed:
            return False
        if self._to_retry:
            return not self._in_flight and now >= self._retry_at
        if not self._waiting or self._gap.first is not None or self._gap.doubt is not None:
            return False
        if (sequences := self.sequences) is not None:
            since_oldest = self._sealed - self._in_flight[0].number + 1 if self._in_flight else 0
            limit = self._limits.batches if sequences.known else self._limits.first_batches
            if sequences.broken or since_oldest >= limit:
                return False
        return self._waiting[0].sealed or self._waiting[0].created + self._linger <= now

    @property
    def is_complete(self) -> bool:
        """True if the next batch of the queue accepts no more records."""
        return bool(self._to_retry or (self._waiting and self._waiting[0].sealed))

    def must_wait_for(self, node_id: int) -> bool:
        """Return True if another broker must answer before anything may be sent to broker *node_id*."""
        return self.sequences is None and bool(self._in_flight) and self._sent_to != node_id

    def next_check(self, now: float) -> float:
        """Return the time at which to check the queue again if nothing else happens.

        At that time a batch expires, or its ``linger_ms`` have passed, or it may be retried. A batch that is
        already due is left out, because it waits for an event, such as a response.
        """
        check = self._next_expiry()
        if self._to_retry and not self._in_flight and now < self._retry_at < check:
            check = self._retry_at
        if self._waiting:
            first = self._waiting[0]
            if first.sealed:
                self._checked = first
            elif now < (lingered := first.created + self._linger) < check:
                check = lingered
        return check

    def next_size(self) -> int:
        """Return the size of the next batch in bytes, before compression."""
        return self._to_retry[0].size if self._to_retry else self._waiting[0].size + BATCH_SIZE

    def drain(self, node_id: int) -> SealedBatch | None:
        """Return the next batch of a queue that is ready. The batch is then in flight to broker *node_id*.
        Return None if the batch has no records."""
        retried = self._to_retry.pop(0) if self._to_retry else None
        batch = retried or self._compressor.compress(self._waiting.popleft())
        if batch is None:
            return None
        if retried is None:
            self._sealed += 1
            batch.number = self._sealed
        if batch.identity is None:
            batch.identity = NO_IDENTITY if self.sequences is None else self.sequences.identify(batch.count)
        batch.attempts += 1
        self._sent_to = node_id
        self._in_flight.append(batch)
        return batch

    def stored(self, batch: SealedBatch) -> bool:
        """Remove *batch* from the queue, because the broker has stored it. Return True if its outcome may be
        reported now, because all earlier batches have finished and no outcome waits."""
        self.blocked_by = None
        self._in_flight.remove(batch)
        if self.sequences is not None and batch.identity is not None:
            self.sequences.stored(batch.identity, batch.count)
        if self._gap.doubt is not None:
            self._gap.stored(batch)
        if not self._in_flight and (self._gap.first is not None or self._gap.doubt is not None):
            self._close_gap()
        # A queue in line is looked at anyway as soon as its broker accepts a request.
        if not self.in_line and (self._waiting or self._to_retry):
            self._changed[self] = None
        first = not self._in_flight or self._in_flight[0].number > batch.number
        return first and not self._to_retry and not self.outcomes.waiting

    def retry(self, batch: SealedBatch, error: KafkaError, *, in_doubt: bool, not_before: float) -> None:
        """Put *batch* back into the queue after *error*, to be sent again at *not_before* or later.

        *in_doubt* is True if the broker may have stored *batch* nevertheless.
        """
        self._in_flight.remove(batch)
        batch.in_doubt |= in_doubt
        batch.failure = error
        self.blocked_by = None
        if self.sequences is None:
            batch.identity = None
        if batch.expired:
            self._note_gap(batch)
        else:
            insort(self._to_retry, batch, key=_order_of)
            self._retry_at = max(self._retry_at, not_before)
        self._close_gap()
        self._changed[self] = None

    def retry_in_sequence(self, batch: SealedBatch, error: KafkaError, *, not_before: float) -> None:
        """Put *batch* back into the queue, because the broker lacks an earlier batch, or does not know the
        producer's sequence numbers.

        If *batch* is the oldest unfinished batch, it will be sent in a new epoch.
        """
        batch.in_doubt = False
        if self.is_oldest(batch):
            self._gap.first = batch.order
        self.retry(batch, error, in_doubt=False, not_before=not_before)

    def failed(self, batch: SealedBatch) -> None:
        """Remove *batch* from the queue, because it has failed permanently."""
        self._in_flight.remove(batch)
        self._note_gap(batch)
        self._close_gap()
        self._changed[self] = None

    def split(self, batch: SealedBatch) -> None:
        """Replace *batch*, which is too large for the broker, by its two halves."""
        self._in_flight.remove(batch)
        for part in batch.halves():
            insort(self._to_retry, part, key=_order_of)
        self._close_gap()
        self._changed[self] = None

    def drain_outcomes(self) -> list[tuple[Batch, Outcome]]:
        """Return, in order, the outcomes that may be reported, because no earlier batch is unfinished."""
        return self.outcomes.drain((self._in_flight, self._to_retry))

    def without_idempotence(self) -> None:
        """Send batches without producer ids from now on: the topic or the broker does not support them."""
        self.sequences = None
        self._gap.clear()
        for batch in self._to_retry:
            batch.identity = None  # a batch in flight loses its identity when it is retried

    def expire(self, now: float) -> tuple[list[SealedBatch], list[Batch]]:
        """Remove the batches whose delivery time-out has passed, except for batches in flight, whose response
        may still arrive. Return two lists with the sealed and the open batches that have expired."""
        if now < self._next_expiry():
            return [], []
        timeout = self._delivery_timeout
        expired = [batch for batch in self._to_retry if batch.batch.created + timeout <= now]
        for batch in expired:
            self._to_retry.remove(batch)
            self._note_gap(batch)
        # In a transaction, only a response ends a batch in flight: after the end of the transaction, the
        # batch must not arrive any more.
        for batch in () if self.transactional else self._in_flight:
            if batch.batch.created + timeout <= now and not batch.expired:
                batch.expired = True
                expired.append(batch)
        unsealed = []
        while self._waiting and self._waiting[0].created + timeout <= now:
            unsealed.append(self._waiting.popleft())
        self._close_gap()
        return expired, unsealed

    def remove_unsent(self) -> tuple[list[SealedBatch], list[Batch]]:
        """Remove the batches that are not in flight. Return two lists with the sealed and open batches."""
        sealed, unsealed = self._to_retry, list(self._waiting)
        self._to_retry, self._waiting = [], deque()
        for batch in sealed:
            self._note_gap(batch)
        return sealed, unsealed

    def is_oldest(self, batch: SealedBatch) -> bool:
        """Return True if *batch*, which is in flight, is the oldest unfinished batch."""
        others = [other.order for other in (*self._to_retry, *self._in_flight) if other is not batch]
        return batch.order < min(others, default=(batch.number + 1, 0))

    def _next_expiry(self) -> float:
        """Return the time at which the oldest batch that has not expired will expire."""
        oldest = self._waiting[0].created if self._waiting else NEVER
        for batch in self._to_retry[:1]:
            oldest = min(oldest, batch.batch.created)
        for batch in () if self.transactional else self._in_flight:
            if not batch.expired:
                oldest = min(oldest, batch.batch.created)
                break
        return oldest + self._delivery_timeout

    def _note_gap(self, batch: SealedBatch) -> None:
        """Remember that *batch*, which failed permanently, leaves a gap in the sequence, or may leave one."""
        if self.sequences is None or not batch.idempotent:
            return
        if self.sequences.transactional:
            self.sequences.broken = True
            return
        self._gap.note(batch)

    def _close_gap(self) -> None:
        """Begin a new epoch after a gap, if nothing is in flight and no batch before the gap is left."""
        if self.sequences is None or self._in_flight or not self._gap.may_close(self._to_retry):
            return
        self._gap.clear()
        self.sequences.restart()
        self.routed = self.sequences.producer_id >= 0
        for batch in self._to_retry:
            batch.identity = None
            batch.in_doubt = False


def _order_of(batch: SealedBatch) -> Order:
    return batch.order
