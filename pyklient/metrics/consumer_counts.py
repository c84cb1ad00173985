"""Counts the records that a consumer fetches and hands out, its commits and its assignments.

Only one thread at a time may add to a count. Any thread may read the counts.
"""

import time
from collections.abc import Collection
from operator import itemgetter
from typing import NamedTuple

from pyklient import metrics
from pyklient.metrics.counters import DurationHistogram, Meter, add_errors, count_error
from pyklient.topic_partition import TopicPartition

__all__ = ["CommitCounts", "ConsumerCounts", "CorruptCounts", "PartitionCounts", "RebalanceCounts"]

_MOST_UNUSED = 10_000
"""The largest number of partitions that keep counts of their own after they are no longer read."""


class CorruptCounts(NamedTuple):
    """The number of batches that were skipped because they cannot be read, and the number of offsets in these
    batches."""

    batches: int = 0
    offsets: int = 0

    def plus(self, other: "CorruptCounts") -> "CorruptCounts":
        """Return the sum of these counts and the counts of *other*."""
        return CorruptCounts(self.batches + other.batches, self.offsets + other.offsets)


class PartitionCounts:
    """The counts of one partition: records, batches and bytes that were read, and errors. The fetcher and the
    loop that read the partition add to these counts."""

    __slots__ = ("consumed", "corrupt", "errors", "fetched", "readable_to")

    def __init__(self, began: float = 0.0) -> None:
        self.fetched = Meter(began)
        """The fetch responses that had records of the partition. Each response counts as one batch. Only the
        fetcher's thread adds to this count."""
        self.consumed = Meter(began)
        """The records that were handed out. A thread that adds to this count must hold the lock of the
        stream."""
        self.corrupt = CorruptCounts()
        """The batches that were skipped because they cannot be read. A thread that changes it must hold the
        lock of the stream."""
        self.errors: dict[str, int] = {}
        self.readable_to: int | None = None
        """The offset up to which the partition can be read, as of the last fetch response: the high watermark
        or the last stable offset. None until the first response."""

    def count_error(self, code: int) -> None:
        """Count an error response to a fetch. The thread of the fetcher calls this."""
        count_error(self.errors, code)


class ConsumerCounts:
    """The counts of one consumer, by partition. Partitions that the consumer no longer reads are included."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._partitions: dict[TopicPartition, PartitionCounts] = {}
        self._gone = PartitionCounts(self.began)
        """The sum of the counts of partitions whose own counts were dropped."""

    def of(self, at: TopicPartition) -> PartitionCounts:
        """Return the counts of a partition. If the consumer has read the partition before, the counts
        continue."""
        found = self._partitions.get(at)
        if found is None:
            found = self._partitions[at] = PartitionCounts(self.began)
        return found

    def partitions(self) -> dict[TopicPartition, PartitionCounts]:
        """Return a copy of the counts by partition, in order."""
        return dict(sorted(self._partitions.items(), key=itemgetter(0)))

    def keep(self, in_use: Collection[TopicPartition]) -> None:
        """If very many partitions are not *in_use*, replace the counts of these partitions by one sum, to
        save memory."""
        if len(self._partitions) <= len(in_use) + _MOST_UNUSED:
            return
        for at in self._partitions.keys() - set(in_use):
            counts = self._partitions.pop(at)
            self._gone.fetched.add_total(counts.fetched)
            self._gone.consumed.add_total(counts.consumed)
            self._gone.corrupt = self._gone.corrupt.plus(counts.corrupt)
            self._gone.errors = add_errors([self._gone.errors, counts.errors])

    def corrupt(self) -> CorruptCounts:
        """Return the counts of skipped batches, for all partitions together."""
        found = self._gone.corrupt
        for each in list(self._partitions.values()):
            found = found.plus(each.corrupt)
        return found

    def total(self, now: float) -> "tuple[metrics.Throughput, metrics.Throughput, dict[str, int]]":
        """Return the counts of all partitions together at the time *now*: consumed records, fetched batches,
        and the number of errors by name."""
        every = [*self._partitions.values(), self._gone]
        return (
            metrics.Throughput.sum(each.consumed.snapshot(now) for each in every),
            metrics.Throughput.sum(each.fetched.snapshot(now) for each in every),
            add_errors(each.errors for each in every),
        )


class RebalanceCounts:
    """The counts of the assignments of one consumer. Only the thread that changes the assignment adds to
    them."""

    def __init__(self) -> None:
        self.assignments = 0
        self.revoked = 0
        self.lost = 0
        self.durations = DurationHistogram()
        self._since: float | None = None

    def begin(self) -> None:
        """Store the present time as the beginning of a rebalance, unless a rebalance has begun already."""
        if self._since is None:
            self._since = time.monotonic()

    def end(self) -> None:
        """Count an assignment. If a rebalance has begun, the assignment ends it."""
        self.assignments += 1
        if self._since is not None:
            now = time.monotonic()
            self.durations.add(now - self._since, now)
            self._since = None

    def snapshot(self, now: float) -> "metrics.RebalanceMetrics":
        """Return the counts at the time *now*."""
        return metrics.RebalanceMetrics(
            assignments=self.assignments,
            revoked_partitions=self.revoked,
            lost_partitions=self.lost,
            durations=DurationHistogram.snapshot([self.durations], now),
        )


class CommitCounts:
    """The counts of commits of one kind: those of ``commit_offsets``, or automatic commits."""

    def __init__(self) -> None:
        self.commits = 0
        self.offsets = 0
        self.failed = 0

    def count(self, stored: int, *, failed: bool) -> None:
        """Count a commit. *stored* is the number of offsets that it has stored. *failed* is true if at least
        one offset was not stored."""
        self.commits += stored > 0
        self.offsets += stored
        self.failed += failed

    def plus(self, other: "CommitCounts") -> "metrics.CommitMetrics":
        """Return the sum of these counts and the counts in *other*, as metrics."""
        return metrics.CommitMetrics(
            commits=self.commits + other.commits,
            offsets=self.offsets + other.offsets,
            failed=self.failed + other.failed,
        )
