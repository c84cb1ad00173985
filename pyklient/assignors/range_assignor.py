"""The assignor ``range``: each member gets neighbouring partitions of each topic, as in Java."""

from collections.abc import Callable, Iterable, Sequence

from pyklient.assignors.assignor import Assignor, Partitions, Subscriber
from pyklient.assignors.java_orders import utf16
from pyklient.assignors.racks import Racks
from pyklient.topic_partition import TopicPartition

__all__ = ["RangeAssignor", "static_members_first"]


class RangeAssignor(Assignor):
    """Assigns a range of neighbouring partitions to each subscribed member, topic by topic.

    Members in racks get partitions that have a replica in their rack, as far as the numbers of partitions
    stay equal (KIP-881). Topics with the same subscribers and the same number of partitions are assigned
    alike: a member gets the same partition numbers in each of these topics.
    """

    name = "range"

    def assign(
        self, members: Sequence[Subscriber], partitions: Partitions
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member, by member id."""
        ordered = sorted(members, key=static_members_first)
        assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
        topics = [
            _Topic(topic, [member for member in ordered if topic in member.topics], partitions)
            for topic in sorted(partitions, key=utf16)
            if partitions[topic]
        ]
        if any(topic.racks.matter for topic in topics):
            _assign_by_rack(topics, assigned)
        for topic in topics:
            topic.assign_ranges(assigned)
        for each in assigned.values():
            each.sort(key=lambda where: (utf16(where.topic), where.partition))
        return assigned


class _Topic:
    """One topic while the assignor ``range`` assigns its partitions."""

    def __init__(self, name: str, members: Sequence[Subscriber], partitions: Partitions) -> None:
        self.name = name
        self.members = tuple(member.member_id for member in members)
        self.count = len(partitions[name])
        self.racks = Racks(members, partitions, [name])
        self._unassigned = dict.fromkeys(range(self.count))
        self._got = dict.fromkeys(self.members, 0)
        self._each, self._extra = divmod(self.count, len(members)) if members else (0, 0)

    def left_for(self, member_id: str) -> int:
        """Return how many partitions the member may still get."""
        return max(0, self._each + (self._extra > 0) - self._got[member_id])

    def fits(self, member_id: str, number: int) -> bool:
        """Return True if the member is in the rack of a replica of partition *number*, or if the member has
        no rack."""
        return not self.racks.has(member_id) or self.racks.match(member_id, TopicPartition(self.name, number))

    def give(self, member_id: str, numbers: Iterable[int], assigned: dict[str, list[TopicPartition]]) -> None:
        """Assign the partitions *numbers* of this topic to the member, and add them to the member's list in
        *assigned*."""
        for number in numbers:
            del self._unassigned[number]
            self._got[member_id] += 1
            assigned[member_id].append(TopicPartition(self.name, number))
        if self._got[member_id] > self._each:
            self._extra -= 1

    def assign_ranges(
        self,
        assigned: dict[str, list[TopicPartition]],
        allowed: Callable[[str, int], bool] = lambda member_id, number: True,
    ) -> None:
        """Give each member the first unassigned partitions of this topic for which ``allowed(member_id,
        number)`` is true, until the member has as many as it may get. Add them to the member's list in
        *assigned*."""
        for member_id in self.members:
            possible = [number for number in self._unassigned if allowed(member_id, number)]
            if chosen := possible[: self.left_for(member_id)]:
                self.give(member_id, chosen, assigned)


def _assign_by_rack(topics: Iterable[_Topic], assigned: dict[str, list[TopicPartition]]) -> None:
    """Assign partitions of *topics* to members that are in the same rack as a replica. Add them to the
    members' lists in *assigned*, and leave other partitions unassigned."""
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((topic.members, topic.count), []).append(topic)
    for (members, count), group in alike.items():
        if len(group) > 1:
            _assign_alike(group, members, count, assigned)
        elif group[0].racks.matter:
            group[0].assign_ranges(assigned, group[0].fits)


def _assign_alike(
    topics: Sequence[_Topic],
    members: Iterable[str],
    count: int,
    assigned: dict[str, list[TopicPartition]],
) -> None:
    """For each partition number, assign the partitions with this number in all *topics* to one member: one
    without a rack, or one whose rack has a replica of each of them. Add them to the member's list in
    *assigned*. Each of the *topics* has *count* partitions, and *members* subscribe to all of them."""
    remaining = list(members)
    for number in range(count):
        chosen = next(
            (
                each
                for each in remaining
                if all(topic.fits(each, number) and topic.left_for(each) for topic in topics)
            ),
            None,
        )
        if chosen is None:
            continue
        for topic in topics:
            topic.give(chosen, [number], assigned)
        if not any(topic.left_for(chosen) for topic in topics):
            remaining.remove(chosen)


def static_members_first(member: Subscriber) -> tuple[bool, bytes]:
    """Return a key for sorting members as Java does: static members come first, by their instance ids."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, utf16(name)
