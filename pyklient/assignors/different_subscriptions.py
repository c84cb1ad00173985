"""The sticky rule for a group whose members subscribe to different topics.

Members first keep the partitions that they own. Then unassigned partitions go to the members with the fewest
partitions, and partitions move as long as that makes the numbers of partitions more equal. The steps are
those of GeneralAssignmentBuilder in Java's AbstractStickyAssignor, so the result is the same.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations

from pyklient.assignors.assignor import Partitions, Subscriber
from pyklient.assignors.java_orders import PartitionSet, utf16
from pyklient.assignors.owned_claims import OwnedClaims
from pyklient.assignors.racks import Racks
from pyklient.topic_partition import TopicPartition

__all__ = ["DifferentSubscriptions"]


class DifferentSubscriptions:
    """The computation of one assignment for members that subscribe to different topics. *claims* says which
    member owned which partitions before, and *racks* knows the racks of the members and of the replicas."""

    def __init__(
        self, members: Sequence[Subscriber], partitions: Partitions, claims: OwnedClaims, racks: Racks
    ) -> None:
        self._claims = claims
        self._racks = racks
        self._counts = {topic: len(of_topic) for topic, of_topic in partitions.items()}
        self._topics_of = {each.member_id: each.topics & partitions.keys() for each in members}
        self._takers: dict[str, list[str]] = {topic: [] for topic in partitions}
        for member_id, topics in self._topics_of.items():
            for topic in topics:
                self._takers[topic].append(member_id)
        self._topics_by_takers: dict[tuple[str, ...], set[str]] = {}
        for topic, takers in self._takers.items():
            self._topics_by_takers.setdefault(tuple(takers), set()).add(topic)
        ordered = sorted(partitions, key=lambda topic: (len(self._takers[topic]), utf16(topic)))
        self._everything = [
            TopicPartition(topic, number) for topic in ordered for number in range(self._counts[topic])
        ]
        self._assigned: dict[str, set[TopicPartition]] = {}
        self._owner: dict[TopicPartition, str] = {}
        self._by_load = _ByLoad(self._assigned)
        self._movements = _Movements()
        self._balanced = False
        """True if the assignment has been found to be balanced, and no partition has moved since."""

    def assign(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        took_away = self._keep_owned()
        unassigned = [each for each in self._everything if each not in self._owner]
        for member in self._assigned:
            self._by_load.add(member)
        begun_empty = not self._assigned[self._by_load.last()]
        if self._racks.matter:
            unassigned_in_racks = [each for each in unassigned if not self._give(each, within_racks=True)]
        else:
            unassigned_in_racks = unassigned
        for each in unassigned_in_racks:
            self._give(each)
        fixed = self._set_aside_fixed()
        before = {member: set(partitions) for member, partitions in self._assigned.items()}
        if not took_away:
            self._balance([each for each in unassigned if len(self._takers[each.topic]) > 1])
        moved = self._balance([each for each in self._everything if len(self._takers[each.topic]) > 1])
        found = self._assigned
        if moved and not begun_empty and _unevenness(self._assigned) >= _unevenness(before):
            found = before
        return {member: sorted(partitions) for member, partitions in (found | fixed).items()}

    def _keep_owned(self) -> bool:
        """Assign to each member the partitions that it owns. Return True if a member had to give up a
        partition."""
        took_away = False
        for member, owned in self._claims.owned.items():
            mine = self._assigned[member] = set()
            for each in owned:
                if each.topic not in self._topics_of[member] or self._racks.differ(member, each):
                    took_away = True
                else:
                    mine.add(each)
                    self._owner[each] = member
        return took_away

    def _give(self, partition: TopicPartition, *, within_racks: bool = False) -> bool:
        """Assign *partition* to the member with the fewest partitions among those that subscribe to its
        topic. If *within_racks* is true, leave out members in a rack that has no replica of the partition.
        Return False if there is no such member."""
        for member in self._by_load:
            if partition.topic in self._topics_of[member] and not (
                within_racks and self._racks.differ(member, partition)
            ):
                self._by_load.remove(member)
                self._assigned[member].add(partition)
                self._owner[partition] = member
                self._by_load.add(member)
                return True
        return False

    def _set_aside_fixed(self) -> dict[str, set[TopicPartition]]:
        """Find the members that can neither get nor lose partitions, and exclude them from the moves of
        partitions. Return the partitions of each of these members."""
        fixed = {}
        for member, topics in self._topics_of.items():
            mine = self._assigned[member]
            if len(mine) == sum(self._counts[topic] for topic in topics) and not any(
                len(self._takers[each.topic]) > 1 for each in mine
            ):
                self._by_load.remove(member)
                fixed[member] = self._assigned.pop(member)
        return fixed

    def _balance(self, movable: Iterable[TopicPartition]) -> bool:
        """Move partitions as long as that makes the members' numbers of partitions more equal. Return True if
        a partition was moved."""
        ordered = list(movable)
        moved_any, moved = False, True
        while moved:
            moved = False
            for each in ordered:
                if self._is_balanced():
                    break
                owner = self._owner[each]
                load = len(self._assigned[owner])
                before = self._claims.before.get(each)
                if (
                    before in self._assigned
                    and each.topic in self._topics_of[before]
                    and load > len(self._assigned[before]) + 1
                ):
                    self._move(each, before)
                elif load > len(self._assigned[taker := self._least_loaded(each.topic)]) + 1:
                    self._move(each, taker)
                else:
                    continue
                moved = moved_any = True
        return moved_any

    def _least_loaded(self, topic: str) -> str:
        return next(member for member in self._by_load if topic in self._topics_of[member])

    def _move(self, partition: TopicPartition, taker: str) -> None:
        """Move *partition* to the member *taker*. If another partition of the same topic has moved in the
        opposite direction before, move this other partition back instead, so that fewer partitions change
        their owners."""
        chosen = self._movements.better_choice(partition, self._owner[partition], taker)
        giver = self._owner[chosen]
        self._by_load.remove(giver)
        self._by_load.remove(taker)
        self._movements.note(chosen, giver, taker)
        self._assigned[giver].remove(chosen)
        self._assigned[taker].add(chosen)
        self._owner[chosen] = taker
        self._by_load.add(taker)
        self._by_load.add(giver)
        self._balanced = False

    def _is_balanced(self) -> bool:
        """Return True if no move of a partition would make the members' numbers of partitions more equal."""
        if not self._balanced:
            loads = {member: len(partitions) for member, partitions in self._assigned.items()}
            self._balanced = max(loads.values()) <= min(loads.values()) + 1 or not any(
                load > fewest + 1 and any(each.topic in topics for each in self._assigned[member])
                for topics, fewest in self._fewest_by_takers(loads)
                for member, load in loads.items()
            )
        return self._balanced

    def _fewest_by_takers(self, loads: Mapping[str, int]) -> Iterator[tuple[Set[str], int]]:
        """Group the topics that have the same subscribers. Yield each group of topics, with the number of
        partitions of its least loaded subscriber. *loads* has the number of partitions of each member."""
        for takers, topics in self._topics_by_takers.items():
            if movable := [loads[member] for member in takers if member in loads]:
                yield topics, min(movable)


class _ByLoad:
    """The members, ordered by how many partitions they have, and then by their names. Remove a member before
    its partitions change, and add the member again afterwards."""

    def __init__(self, assigned: dict[str, set[TopicPartition]]) -> None:
        self._assigned = assigned
        self._entries: list[tuple[int, bytes, str]] = []

    def __iter__(self) -> Iterator[str]:
        return (name for _, _, name in self._entries)

    def last(self) -> str:
        return self._entries[-1][2]

    def add(self, member: str) -> None:
        insort(self._entries, self._entry(member))

    def remove(self, member: str) -> None:
        del self._entries[bisect_left(self._entries, self._entry(member))]

    def _entry(self, member: str) -> tuple[int, bytes, str]:
        return len(self._assigned[member]), utf16(member), member


class _Movements:
    """The moves of partitions between members so far. They are recorded so that no two partitions of a topic
    move in opposite directions."""

    def __init__(self) -> None:
        self._pair_of: dict[TopicPartition, tuple[str, str]] = {}
        self._moved: dict[tuple[str, str, str], PartitionSet] = {}

    def better_choice(self, partition: TopicPartition, giver: str, taker: str) -> TopicPartition:
        """Return the partition to move from *giver* to *taker*. This is a partition of the same topic that
        has moved from *taker* to *giver* before, or *partition* itself if there is none."""
        if partition in self._pair_of:
            giver = self._pair_of[partition][0]
        back = self._moved.get((partition.topic, taker, giver))
        return back.first() if back else partition

    def note(self, partition: TopicPartition, giver: str, taker: str) -> None:
        """Remember that *partition* moves from *giver* to *taker*."""
        if partition in self._pair_of:
            giver, previous = self._pair_of.pop(partition)
            self._discard((partition.topic, giver, previous), partition)
            if giver == taker:
                return
        self._pair_of[partition] = giver, taker
        self._moved.setdefault((partition.topic, giver, taker), PartitionSet()).add(partition)

    def _discard(self, move: tuple[str, str, str], partition: TopicPartition) -> None:
        self._moved[move].remove(partition)
        if not self._moved[move]:
            del self._moved[move]


def _unevenness(assigned: dict[str, set[TopicPartition]]) -> int:
    return sum(abs(len(one) - len(other)) for one, other in combinations(assigned.values(), 2))
