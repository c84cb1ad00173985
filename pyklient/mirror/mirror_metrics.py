"""The snapshots that ``Mirror.metrics`` returns."""

from dataclasses import dataclass
from typing import Final

from pyklient.metrics.snapshots import ConsumerMetrics, ProducerMetrics, Throughput
from pyklient.mirror.sync_topic import SYNC_TOPIC
from pyklient.topic_partition import TopicPartition

__all__ = ["MirrorMetrics"]

_SYNCS: Final = TopicPartition(SYNC_TOPIC, 0)


@dataclass(frozen=True, slots=True)
class MirrorMetrics:
    """The work of a Mirror since it began to run: records, bytes, rates and lag."""

    sources: tuple[ConsumerMetrics, ...]
    """The metrics of the consumers, in the order of the source clusters."""
    target: ProducerMetrics
    """The metrics of the producer. If the mirror has ``groups``, they include the records in which it stores
    how offsets are translated."""
    dropped_records: int
    """The number of records that could not be sent, and were dropped (``abort_on_send_failure=False``)."""
    has_assignment: bool = True
    """True if the mirror has an assignment in each source cluster. An assignment may be empty. False before
    the mirror has joined its groups, and during a rebalance."""

    @property
    def copied(self) -> Throughput:
        """The numbers and rates of the copied records that the target cluster has confirmed."""
        every, syncs = self.target.delivered, self.target.partitions.get(_SYNCS)
        return every if syncs is None else every.without(syncs.delivered)

    @property
    def lag(self) -> int | None:
        """The number of offsets in the source clusters that are not copied yet: the lag of the consumers, and
        the records that were sent and are not confirmed. None while the lag of an assigned partition is not
        known, and while the mirror has no assignment."""
        if not self.has_assignment:
            return None
        lags = [each.lag for each in self.sources]
        known = [lag for lag in lags if lag is not None]
        return sum(known) + self.target.waiting_records if len(known) == len(lags) else None
