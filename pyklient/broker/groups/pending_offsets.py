"""The pending offsets: those that groups have committed in transactions that have not ended yet (KIP-98).

When a transaction commits, its pending offsets become committed offsets. When it aborts, they are discarded.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.topic_partition import TopicPartition

__all__ = ["NEWEST", "PendingOffsets"]

NEWEST: Final = 1 << 63
"""A number that is greater than each offset in a log. It stands for the offset of the newest record."""


class _PendingOffset(NamedTuple):
    committed: CommittedOffset
    log_offset: int
    is_outdated: bool = False


class PendingOffsets:
    """The pending offsets in one partition of ``__consumer_offsets``: those that groups have committed in
    transactions that have not ended yet.

    If a group commits several offsets for a partition, the one whose record is last in the log counts. So a
    pending offset is outdated, and has no effect, if a later record for the same group and partition takes
    effect before the transaction of the pending offset ends.
    """

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[str, dict[TopicPartition, _PendingOffset]]] = {}

    @property
    def groups(self) -> set[str]:
        """The ids of all groups that have pending offsets."""
        return {group_id for groups in self._by_producer.values() for group_id in groups}

    @property
    def topics(self) -> set[str]:
        """The names of all topics for which groups have pending offsets."""
        return {partition.topic for group_id in self.groups for partition in self.partitions(group_id)}

    def partitions(self, group_id: str) -> set[TopicPartition]:
        """Return the partitions for which the group has pending offsets."""
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
        """Mark the pending offsets of the group for *partitions* as outdated if their records are before
        *log_offset*, where the log has a newer offset. They have no effect when their transaction commits."""
        if not self._by_producer:
            return
        for partition in partitions:
            for groups in self._by_producer.values():
                pending = groups.get(group_id, {})
                found = pending.get(partition)
                if found is not None and found.log_offset < log_offset:
                    pending[partition] = found._replace(is_outdated=True)

    def end(self, producer_id: int, *, is_commit: bool) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Remove the pending offsets of a producer, whose transaction has ended. Return those that take
        effect now, by group: the offsets that are not outdated if *is_commit* is true, and otherwise none."""
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
