"""The racks of members and of partitions, as far as assignors use them (KIP-881)."""

from collections.abc import Collection, Sequence

from pyklient.assignors.assignor import Partitions, Subscriber
from pyklient.topic_partition import TopicPartition

__all__ = ["Racks"]


class Racks:
    """The racks of *members* and of the partitions of *topics*.

    ``matter`` is True if racks make a difference: at least one member is in the rack of a replica, and the
    partitions do not all have replicas in the same racks.
    """

    def __init__(
        self, members: Collection[Subscriber], partitions: Partitions, topics: Collection[str]
    ) -> None:
        self._of_member = {each.member_id: each.rack for each in members if each.rack}
        self._of_partition = {
            TopicPartition(topic, number): racks
            for topic in topics
            for number, racks in enumerate(partitions[topic])
        }
        everywhere = frozenset[str]().union(*self._of_partition.values())
        self.matter = not everywhere.isdisjoint(self._of_member.values()) and any(
            racks != everywhere for racks in self._of_partition.values()
        )

    def has(self, member_id: str) -> bool:
        """Return True if the member is in a rack."""
        return member_id in self._of_member

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Return True if *partition* has a replica in the rack of the member."""
        return self._of_member.get(member_id) in self._of_partition[partition]

    def differ(self, member_id: str, partition: TopicPartition) -> bool:
        """Return True if racks matter, and the member is in a rack in which *partition* has no replica."""
        return self.matter and self.has(member_id) and not self.match(member_id, partition)

    def fewest_members_first(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return *partitions*, ordered by the number of members that are in the same rack as a replica of the
        partition. Partitions with few such members come first."""
        if not self._of_member:
            return list(partitions)
        members_in = dict.fromkeys(self._of_member.values(), 0)
        for rack in self._of_member.values():
            members_in[rack] += 1
        return sorted(
            partitions, key=lambda each: sum(members_in.get(rack, 0) for rack in self._of_partition[each])
        )
