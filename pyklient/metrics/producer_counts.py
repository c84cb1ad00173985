"""Counts the batches of one producer. A thread that counts must hold the sender lock. Any thread may read the
counts."""

from typing import Final

from pyklient.metrics.counters import DurationHistogram, Meter, count_error
from pyklient.metrics.snapshots import ProducedPartition
from pyklient.topic_partition import TopicPartition

__all__ = ["ProducerCounts"]


_MOST: Final = 10_000
"""The number of partitions up to which the counts of idle topics are kept."""


class _Partition:
    """The counts of the batches of one partition, or of all partitions."""

    __slots__ = ("delivered", "errors", "failed_records", "retried_batches")

    def __init__(self, began: float) -> None:
        self.delivered = Meter(began)
        self.failed_records = 0
        self.retried_batches = 0
        self.errors: dict[str, int] = {}

    def snapshot(self, now: float) -> ProducedPartition:
        """Return the counts at the time *now*."""
        return ProducedPartition(
            delivered=self.delivered.snapshot(now),
            failed_records=self.failed_records,
            retried_batches=self.retried_batches,
            errors=dict(self.errors),
        )


class ProducerCounts:
    """The counts of the batches of a producer that was made at the time *began*, in monotonic seconds."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.total = _Partition(began)
        self.sealed = Meter(began)
        """The batches that were sent for the first time, before compression."""
        self.compressed = Meter(began)
        """The batches that were sent for the first time, after compression."""
        self.queue_time = DurationHistogram()
        self.delivery_time = DurationHistogram()
        self._partitions: dict[TopicPartition, _Partition] = {}

    def partitions(self, now: float) -> dict[TopicPartition, ProducedPartition]:
        """Return the counts of each partition at the time *now*."""
        return {at: each.snapshot(now) for at, each in list(self._partitions.items())}

    def seal(self, records: int, size: int, compressed_size: int, seconds: float, now: float) -> None:
        """Count a batch that is sent for the first time, *seconds* after it was begun."""
        self.sealed.add(records, size, now)
        self.compressed.add(records, compressed_size, now)
        self.queue_time.add(seconds, now)

    def deliver(self, at: TopicPartition, records: int, size: int, seconds: float, now: float) -> None:
        """Count a batch that is confirmed, *seconds* after it was begun."""
        self.total.delivered.add(records, size, now)
        self._partition(at).delivered.add(records, size, now)
        self.delivery_time.add(seconds, now)

    def fail(self, at: TopicPartition, records: int) -> None:
        """Count records that were not delivered."""
        self.total.failed_records += records
        self._partition(at).failed_records += records

    def retry(self, at: TopicPartition) -> None:
        """Count a batch that is sent again."""
        self.total.retried_batches += 1
        self._partition(at).retried_batches += 1

    def error(self, at: TopicPartition, code: int) -> None:
        """Count an error response to a batch."""
        count_error(self.total.errors, code)
        count_error(self._partition(at).errors, code)

    def forget(self, topic: str) -> None:
        """Drop the counts of the partitions of *topic*, which is not used any more, if there are very
        many partitions. The totals do not change."""
        if len(self._partitions) <= _MOST:
            return
        for at in [at for at in self._partitions if at.topic == topic]:
            del self._partitions[at]

    def _partition(self, at: TopicPartition) -> _Partition:
        found = self._partitions.get(at)
        if found is None:
            found = self._partitions[at] = _Partition(self.began)
        return found
