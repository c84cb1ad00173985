"""Counts what a consumer fetches, hands out, commits and is assigned. One thread at a time counts."""

import time
from collections.abc import Collection
from operator import itemgetter

from pyklient.metrics.counters import DurationHistogram, Meter, add_errors, count_error
from pyklient.metrics.snapshots import CommitMetrics, RebalanceMetrics, Throughput
from pyklient.topic_partition import TopicPartition

__all__ = ["CommitCounts", "ConsumerCounts", "PartitionCounts", "RebalanceCounts"]

_MOST_UNUSED = 10_000
"""The largest number of partitions that are not read any more and still have counts of their own."""


class PartitionCounts:
    """The counts of what was read of one partition. The fetcher and the loop that read the partition add to
    them."""

    __slots__ = ("consumed", "errors", "fetched", "readable_to")

    def __init__(self, began: float = 0.0) -> None:
        self.fetched = Meter(began)
        """The responses with records, counted as batches. Only the fetcher's thread adds to it."""
        self.consumed = Meter(began)
        """The records that were handed out. A thread that adds to it must hold the lock of the stream."""
        self.errors: dict[str, int] = {}
        self.readable_to: int | None = None
        """The offset up to which the partition can be read, as of the last response: the high watermark or
        the last stable offset."""

    def count_error(self, code: int) -> None:
        """Count an error response to a fetch. The thread of the fetcher calls this."""
        count_error(self.errors, code)


class ConsumerCounts:
    """The counts of the records that one consumer has read so far, by partition. Partitions that were read
    earlier are included."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._partitions: dict[TopicPartition, PartitionCounts] = {}
        self._gone = PartitionCounts(self.began)
        """The sum of the counts of partitions that have no counts of their own any more."""

    def of(self, at: TopicPartition) -> PartitionCounts:
        """Return the counts of a partition. They contain what was read of it before."""
        found = self._partitions.get(at)
        if found is None:
            found = self._partitions[at] = PartitionCounts(self.began)
        return found

    def partitions(self) -> dict[TopicPartition, PartitionCounts]:
        """Return a copy of the counts by partition, in order."""
        return dict(sorted(self._partitions.items(), key=itemgetter(0)))

    def keep(self, in_use: Collection[TopicPartition]) -> None:
        """If very many partitions are not *in_use*, replace their counts by one sum, to limit the memory."""
        if len(self._partitions) <= len(in_use) + _MOST_UNUSED:
            return
        for at in self._partitions.keys() - set(in_use):
            counts = self._partitions.pop(at)
            self._gone.fetched.add_total(counts.fetched)
            self._gone.consumed.add_total(counts.consumed)
            self._gone.errors = add_errors([self._gone.errors, counts.errors])

    def total(self, now: float) -> tuple[Throughput, Throughput, dict[str, int]]:
        """Return the counts of all partitions together at the time *now*: consumed, fetched, and the number
        of each error."""
        every = [*self._partitions.values(), self._gone]
        return (
            Throughput.sum(each.consumed.snapshot(now) for each in every),
            Throughput.sum(each.fetched.snapshot(now) for each in every),
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
        """Note the time at which partitions are given up, unless a rebalance has begun already."""
        if self._since is None:
            self._since = time.monotonic()

    def end(self) -> None:
        """Count an assignment."""
        self.assignments += 1
        if self._since is not None:
            now = time.monotonic()
            self.durations.add(now - self._since, now)
            self._since = None

    def snapshot(self, now: float) -> RebalanceMetrics:
        """Return the counts at the time *now*."""
        return RebalanceMetrics(
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
        """Count a commit that has stored *stored* offsets."""
        self.commits += stored > 0
        self.offsets += stored
        self.failed += failed

    def plus(self, other: "CommitCounts") -> CommitMetrics:
        """Return the sum of these counts and the counts of *other*."""
        return CommitMetrics(
            commits=self.commits + other.commits,
            offsets=self.offsets + other.offsets,
            failed=self.failed + other.failed,
        )
