"""The records that a mirror has sent: which of them the target cluster has confirmed, and up to which offset
of each source partition all records are confirmed.

Records with consecutive offsets in a source partition, which were appended one after the other to the same
batch of the producer, form a run. A run takes the same memory however many records it has.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeAlias

from pyklient.errors import KafkaError
from pyklient.kernel import Batch, Delivery
from pyklient.topic_partition import TopicPartition

__all__ = ["ConfirmedRecords", "FailedRecords", "Sent", "SentRecords"]

Sent: TypeAlias = tuple[TopicPartition, int, int, Delivery | Batch | None]
"""A record or a whole batch that was sent: its source partition, its first offset there, the position of the
mirror as soon as it is confirmed, and its delivery or the new batch. None stands for an offset for which no
record was sent."""


class ConfirmedRecords(NamedTuple):
    """Records of one source partition that the target cluster has stored one after the other.

    Their offsets are consecutive: from ``offset`` on in ``source``, and from ``target_offset`` on in
    ``target``. ``target_offset`` is -1 if the target cluster does not tell it (``acks=0``).
    """

    source: TopicPartition
    offset: int
    target: TopicPartition
    target_offset: int
    record_count: int


class FailedRecords(NamedTuple):
    """Records of one source partition that could not be delivered to the target cluster. Their offsets begin
    with ``offset``."""

    source: TopicPartition
    offset: int
    record_count: int
    error: KafkaError


class _Run:
    """The records *first* to *stop* - 1 of a batch of the producer. *offset* is the source offset of the
    first of them, and *position* that of the mirror as soon as they are confirmed.

    ``batch`` is None if no records were sent for these offsets.
    """

    __slots__ = ("batch", "first", "offset", "position", "stop")

    def __init__(self, batch: Batch | None, first: int, stop: int, offset: int, position: int) -> None:
        self.batch = batch
        self.first = first
        self.stop = stop
        self.offset = offset
        self.position = position

    def extend(self, batch: Batch, index: int, offset: int, position: int) -> bool:
        """Add record *index* of *batch* to this run if it is the next one. Return False if it is not."""
        if not (self.batch is batch and self.stop == index and self.position == offset < position):
            return False
        self.stop += 1
        self.position = position
        return True


class SentRecords:
    """The records of the assigned source partitions that were sent, until they are confirmed. One thread
    uses it.

    If *skip_failed* is true, the position moves past records that could not be delivered. Otherwise it stays
    before the first of them.
    """

    def __init__(self, skip_failed: bool) -> None:
        self._skip_failed = skip_failed
        self._runs: dict[TopicPartition, deque[_Run]] = {}
        self._confirmed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget what is known of *partitions*, because they are assigned anew, or belong to another member
        now."""
        for each in partitions:
            self._runs.pop(each, None)
            self._confirmed.pop(each, None)
            self._committed.pop(each, None)

    def add(self, sent: Iterable[Sent]) -> None:
        """Add records that were sent, those of a partition in the order of their offsets."""
        runs: deque[_Run] = deque()
        last: TopicPartition | None = None
        for source, offset, position, delivery in sent:
            if source is not last:
                runs, last = self._runs.setdefault(source, deque()), source
            if delivery is None or isinstance(delivery, Batch):
                runs.append(_Run(delivery, 0, position - offset, offset, position))
                continue
            batch, index = delivery.batch_and_index
            if not (runs and runs[-1].extend(batch, index, offset, position)):
                runs.append(_Run(batch, index, index + 1, offset, position))

    def pop_done(self) -> tuple[list[ConfirmedRecords], list[FailedRecords]]:
        """Remove and return the records that are confirmed, and those that have failed. Those of a partition
        are in the order of their offsets. Records behind an unconfirmed record of their partition stay, and
        so do those behind a failed one if failed records are not skipped."""
        confirmed: list[ConfirmedRecords] = []
        failed: list[FailedRecords] = []
        for source, runs in self._runs.items():
            while runs and ((batch := runs[0].batch) is None or batch.done):
                errors = [] if batch is None else _results(source, runs[0], batch, confirmed)
                failed += errors
                if errors and not self._skip_failed:
                    break
                self._confirmed[source] = runs.popleft().position
        return confirmed, failed

    def positions(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return the position of each partition in which it is not committed yet: the offset before which all
        records are confirmed. With *partitions*, return only those of them."""
        return {
            source: position
            for source, position in self._confirmed.items()
            if self._committed.get(source) != position and (partitions is None or source in partitions)
        }

    def committed(self, positions: dict[TopicPartition, int]) -> None:
        """Record that *positions* are committed."""
        self._committed.update(positions)


def _results(
    source: TopicPartition, run: _Run, batch: Batch, confirmed: list[ConfirmedRecords]
) -> list[FailedRecords]:
    """Add the stored records of *run* to *confirmed*, and return its failed records."""
    batch.mark_seen(run.first, run.stop)
    target = TopicPartition(batch.topic, batch.partition)
    failed: list[FailedRecords] = []
    for first, stop, base_offset, _, error in batch.reports(run.first, run.stop):
        offset, count = run.offset + first - run.first, stop - first
        if error is None:
            confirmed.append(ConfirmedRecords(source, offset, target, base_offset, count))
        else:
            failed.append(FailedRecords(source, offset, count, error))
    return failed
