"""The assignor ``roundrobin``: members get partitions in turn, as with Java's RoundRobinAssignor."""

from collections.abc import Sequence
from itertools import cycle

from pyklient.assignors.assignor import Assignor, Partitions, Subscriber
from pyklient.assignors.java_orders import utf16
from pyklient.assignors.range_assignor import static_members_first
from pyklient.topic_partition import TopicPartition

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor(Assignor):
    """Assigns the partitions of all topics to the members in turn. Members that do not subscribe to the topic
    of a partition are skipped."""

    name = "roundrobin"

    def assign(
        self, members: Sequence[Subscriber], partitions: Partitions
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member, by member id."""
        ordered = sorted(members, key=static_members_first)
        assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
        wanted = frozenset[str]().union(*(member.topics for member in ordered))
        turn = cycle(ordered)
        for topic in sorted(wanted & partitions.keys(), key=utf16):
            for partition in range(len(partitions[topic])):
                taker = next(member for member in turn if topic in member.topics)
                assigned[taker.member_id].append(TopicPartition(topic, partition))
        return assigned
