"""Counts the batches of one producer. A thread that counts must hold the sender lock. Any thread may read the
counts."""

from typing import Final

from pyklient import metrics
from pyklient.metrics.counters import DurationHistogram, Meter, add_errors, count_error
from pyklient.topic_partition import TopicPartition

__all__ = ["ProducerCounts"]


_MOST: Final = 10_000
"""If there are more partitions than this number, the counts of topics that are no longer used are dropped."""


class _Partition:
    """The counts of the batches of one partition, or of several partitions that have no counts of their own
    any more."""

    __slots__ = ("delivered", "errors", "failed_records", "retried_batches")

    def __init__(self, began: float) -> None:
        self.delivered = Meter(began)
        self.failed_records = 0
        self.retried_batches = 0
        self.errors: dict[str, int] = {}

    def snapshot(self, now: float) -> "metrics.ProducedPartition":
        """Return the counts at the time *now*."""
        return metrics.ProducedPartition(
            delivered=self.delivered.snapshot(now),
            failed_records=self.failed_records,
            retried_batches=self.retried_batches,
            errors=dict(self.errors),
        )


class ProducerCounts:
    """The counts of the batches of a producer that was made at the time *began*, in monotonic seconds."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.sealed = Meter(began)
        """The batches that were sent at least once, with their size before compression."""
        self.compressed = Meter(began)
        """The batches that were sent at least once, with their size after compression."""
        self.queue_time = DurationHistogram()
        self.delivery_time = DurationHistogram()
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._gone = _Partition(began)
        """The sum of the counts of the partitions that are not in ``_partitions`` any more."""

    def partitions(self, now: float) -> "dict[TopicPartition, metrics.ProducedPartition]":
        """Return the counts of each partition at the time *now*."""
        return {at: each.snapshot(now) for at, each in list(self._partitions.items())}

    def total(self, now: float) -> "metrics.ProducedPartition":
        """Return the counts of all partitions together at the time *now*."""
        every = [each.snapshot(now) for each in (*self._partitions.values(), self._gone)]
        return metrics.ProducedPartition(
            delivered=metrics.Throughput.sum(each.delivered for each in every),
            failed_records=sum(each.failed_records for each in every),
            retried_batches=sum(each.retried_batches for each in every),
            errors=add_errors(each.errors for each in every),
        )

    def seal(
        self, records: int, size: int, compressed_size: int, queue_times: list[float], now: float
    ) -> None:
        """Count the batches of a request that are sent for the first time.

        *records*, *size* and *compressed_size* are the totals of these batches; *size* is the size before
        compression. *queue_times* has the seconds since each of the batches was begun.
        """
        self.sealed.add(records, size, now, len(queue_times))
        self.compressed.add(records, compressed_size, now, len(queue_times))
        self.queue_time.add_all(queue_times, now)

    def deliver(self, at: TopicPartition, records: int, size: int, seconds: float, now: float) -> None:
        """Count a batch that is confirmed, *seconds* after it was begun."""
        self._partition(at).delivered.add(records, size, now)
        self.delivery_time.add(seconds, now)

    def fail(self, at: TopicPartition, records: int) -> None:
        """Count records that were not delivered."""
        self._partition(at).failed_records += records

    def retry(self, at: TopicPartition) -> None:
        """Count a batch that is sent again."""
        self._partition(at).retried_batches += 1

    def error(self, at: TopicPartition, code: int) -> None:
        """Count an error response to a batch."""
        count_error(self._partition(at).errors, code)

    def forget(self, topic: str) -> None:
        """If there are very many partitions, drop the counts of *topic*, which the producer no longer uses.
        The totals do not change, except for their rates."""
        if len(self._partitions) <= _MOST:
            return
        for at in [at for at in self._partitions if at.topic == topic]:
            counts = self._partitions.pop(at)
            self._gone.delivered.add_total(counts.delivered)
            self._gone.failed_records += counts.failed_records
            self._gone.retried_batches += counts.retried_batches
            self._gone.errors = add_errors([self._gone.errors, counts.errors])

    def _partition(self, at: TopicPartition) -> _Partition:
        found = self._partitions.get(at)
        if found is None:
            found = self._partitions[at] = _Partition(self.began)
        return found
