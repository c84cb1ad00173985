"""The offsets that groups have committed in transactions that are still open (KIP-98).

They become committed offsets when their transaction commits. If it aborts, they are forgotten.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.topic_partition import TopicPartition

__all__ = ["NEWEST", "PendingOffsets"]

NEWEST: Final = 1 << 63
"""A number that is greater than each offset of a log. It is the position of a record that is newer than all
others."""


class _PendingOffset(NamedTuple):
    committed: CommittedOffset
    log_offset: int
    is_outdated: bool = False


class PendingOffsets:
    """The pending offsets of all groups that one partition of ``__consumer_offsets`` stores.

    If a group commits several offsets for a partition, the newest record in the log counts. So a pending
    offset is outdated if a later record of the same group and partition takes effect first, before the
    transaction of the pending offset is committed.
    """

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[str, dict[TopicPartition, _PendingOffset]]] = {}

    @property
    def groups(self) -> set[str]:
        """The ids of all groups that have committed offsets in transactions that are still open."""
        return {group_id for groups in self._by_producer.values() for group_id in groups}

    @property
    def topics(self) -> set[str]:
        """The names of all topics for which a transaction that is still open commits an offset."""
        return {partition.topic for group_id in self.groups for partition in self.partitions(group_id)}

    def partitions(self, group_id: str) -> set[TopicPartition]:
        """Return the partitions for which transactions that are still open commit offsets of the group."""
        if not self._by_producer:
            return set()
        return {partition for groups in self._by_producer.values() for partition in groups.get(group_id, ())}

    def add(
        self,
        producer_id: int,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        log_offset: int,
    ) -> None:
        """Add *offsets* that a group commits in the open transaction of a producer. Their records begin at
        *log_offset* in the log."""
        pending = self._by_producer.setdefault(producer_id, {}).setdefault(group_id, {})
        for at, (partition, committed) in enumerate(offsets.items()):
            pending[partition] = _PendingOffset(committed, log_offset + at)

    def outdate(self, group_id: str, partitions: Iterable[TopicPartition], log_offset: int = NEWEST) -> None:
        """Remember that the log has a newer offset of the group for *partitions*, at *log_offset*. A pending
        offset before it has no effect when its transaction commits."""
        if not self._by_producer:
            return
        for partition in partitions:
            for groups in self._by_producer.values():
                pending = groups.get(group_id, {})
                found = pending.get(partition)
                if found is not None and found.log_offset < log_offset:
                    pending[partition] = found._replace(is_outdated=True)

    def end(self, producer_id: int, *, is_commit: bool) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Remove the offsets that a producer committed in its transaction, because the transaction has ended.
        If the transaction has committed, return the offsets that are not outdated, by group."""
        ended = self._by_producer.pop(producer_id, {})
        if not is_commit:
            return {}
        for group_id, pending in ended.items():
            for partition, each in pending.items():
                self.outdate(group_id, [partition], each.log_offset)
        return {
            group_id: {
                partition: each.committed for partition, each in pending.items() if not each.is_outdated
            }
            for group_id, pending in ended.items()
        }
