"""Counts what a consumer fetches, hands out, commits and is assigned. One thread at a time counts."""

import time
from collections.abc import Collection

from pyklient.metrics.counters import DurationHistogram, Meter, add_errors, count_error
from pyklient.metrics.snapshots import CommitMetrics, RebalanceMetrics, Throughput
from pyklient.topic_partition import TopicPartition

__all__ = ["CommitCounts", "ConsumerCounts", "PartitionCounts", "RebalanceCounts"]

_MOST_UNUSED = 10_000
"""The number of partitions that are not read any more and whose counts are kept one by one."""


class PartitionCounts:
    """What was read of one partition. The fetcher of its leader and the loop that reads it count."""

    __slots__ = ("consumed", "errors", "fetched", "readable_to")

    def __init__(self, began: float = 0.0) -> None:
        self.fetched = Meter(began)
        """The responses with records. The thread of the fetcher counts."""
        self.consumed = Meter(began)
        """The records that were handed out. The lock of the stream guards it."""
        self.errors: dict[str, int] = {}
        self.readable_to: int | None = None
        """The offset up to which the partition can be read, as of the last response: the high watermark or
        the last stable offset."""

    def count_error(self, code: int) -> None:
        """Count an error response to a fetch. The thread of the fetcher calls this."""
        count_error(self.errors, code)


class ConsumerCounts:
    """What one consumer has read so far, by partition. Partitions that were read earlier are included."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._partitions: dict[TopicPartition, PartitionCounts] = {}
        self._gone = PartitionCounts(self.began)
        """The counts of partitions that are not kept one by one any more."""

    def of(self, at: TopicPartition) -> PartitionCounts:
        """Return the counts of a partition, which go on if it was read before."""
        found = self._partitions.get(at)
        if found is None:
            found = self._partitions[at] = PartitionCounts(self.began)
        return found

    def keep(self, in_use: Collection[TopicPartition]) -> None:
        """Add up the counts of the partitions that are not *in_use*, if there are very many of them."""
        if len(self._partitions) <= len(in_use) + _MOST_UNUSED:
            return
        for at in self._partitions.keys() - set(in_use):
            counts = self._partitions.pop(at)
            self._gone.fetched.add_total(counts.fetched)
            self._gone.consumed.add_total(counts.consumed)
            self._gone.errors = add_errors([self._gone.errors, counts.errors])

    def total(self, now: float) -> tuple[Throughput, Throughput, dict[str, int]]:
        """Return what was consumed and fetched of all partitions, and the errors, at the time *now*."""
        every = [*self._partitions.values(), self._gone]
        return (
            Throughput.sum(each.consumed.snapshot(now) for each in every),
            Throughput.sum(each.fetched.snapshot(now) for each in every),
            add_errors(each.errors for each in every),
        )


class RebalanceCounts:
    """The assignments of one consumer. The thread that changes the assignment counts."""

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
        """Return what is counted at the time *now*."""
        return RebalanceMetrics(
            assignments=self.assignments,
            revoked_partitions=self.revoked,
            lost_partitions=self.lost,
            durations=DurationHistogram.snapshot([self.durations], now),
        )


class CommitCounts:
    """Commits of one kind: those that a caller waits for, or those that nobody waits for."""

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
        """Return the sum of the commits here and in *other*."""
        return CommitMetrics(
            commits=self.commits + other.commits,
            offsets=self.offsets + other.offsets,
            failed=self.failed + other.failed,
        )
