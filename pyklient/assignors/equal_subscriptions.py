"""The sticky rule for a group whose members all subscribe to the same topics.

The numbers of partitions of two members differ by at most one, and each member keeps as many of its own
partitions as that allows. The steps are those of ConstrainedAssignmentBuilder in Java's
AbstractStickyAssignor, so the result is the same.
"""

from collections import deque
from collections.abc import Sequence

from pyklient.assignors.assignor import Partitions
from pyklient.assignors.java_orders import utf16
from pyklient.assignors.owned_claims import OwnedClaims
from pyklient.assignors.racks import Racks
from pyklient.topic_partition import TopicPartition

__all__ = ["EqualSubscriptions"]


class EqualSubscriptions:
    """The computation of one assignment for members that subscribe to the same topics. *claims* says which
    member owned which partitions before, and *racks* knows the racks of the members and of the replicas.

    After :meth:`assign`, ``transferred`` has the new owner of each partition that moves between members.
    """

    def __init__(
        self, members: Sequence[str], partitions: Partitions, claims: OwnedClaims, racks: Racks
    ) -> None:
        self.transferred: dict[TopicPartition, str] = {}
        self._claims = claims
        self._racks = racks
        self._everything = [
            TopicPartition(topic, number)
            for topic in sorted(partitions, key=utf16)
            for number in range(len(partitions[topic]))
        ]
        self._assigned: dict[str, list[TopicPartition]] = {name: [] for name in members}
        self._fewest, self._larger_members = divmod(len(self._everything), len(members))
        self._most = self._fewest + (self._larger_members > 0)
        self._larger = 0
        """The number of members that have more than ``_fewest`` partitions so far. ``_fewest`` is the
        smallest number of partitions that each member gets."""
        self._needy: list[str] = []
        """The members that have fewer than ``_fewest`` partitions, the smallest number that each member
        gets."""
        self._expandable: deque[str] = deque()
        """The members that have ``_fewest`` partitions, the smallest number that each member gets, and may
        get one more."""
        self._given_up: dict[TopicPartition, str] = {}

    def assign(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        for member, owned in self._claims.owned.items():
            self._keep(member, owned)
        kept = {where for partitions in self._assigned.values() for where in partitions}
        unassigned = [where for where in self._everything if where not in kept]
        self._needy.sort(key=utf16)
        self._expandable = deque(sorted(self._expandable, key=utf16))
        unassigned = self._racks.fewest_members_first(unassigned)
        if self._racks.matter:
            unassigned = self._assign_within_racks(unassigned)
        self._assign_in_turn(unassigned)
        return self._assigned

    def _keep(self, member: str, owned: Sequence[TopicPartition]) -> None:
        """Assign the partitions in *owned* to *member* again, up to the number that it may have. Leave out
        partitions that have no replica in the rack of the member."""
        fitting = []
        for each in sorted(owned, key=lambda where: (where.partition, utf16(where.topic))):
            if self._racks.differ(member, each):
                self._given_up[each] = member
            elif each not in self._claims.disputed:
                fitting.append(each)
        quota = len(fitting)
        if quota < self._fewest:
            self._needy.append(member)
        elif quota >= self._most and self._larger < self._larger_members:
            quota = self._most
            self._larger += 1
            if self._larger == self._larger_members:
                self._expandable.clear()
        else:
            quota = self._fewest
            if self._larger < self._larger_members:
                self._expandable.append(member)
        self._assigned[member] += fitting[:quota]
        self._given_up.update(dict.fromkeys(fitting[quota:], member))

    def _assign_within_racks(self, unassigned: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members that are in the same rack as a replica. Return the partitions that are
        not assigned yet."""
        left = []
        turn = 0
        for each in unassigned:
            if (found := self._next_in_rack(each, self._needy, turn)) is not None:
                member = self._needy[found]
                count = len(self._assigned[member]) + 1
                if count >= self._fewest:
                    del self._needy[found]
                    if count < self._most and self._larger < self._larger_members:
                        self._expandable.append(member)
                else:
                    found += 1
                turn = found % len(self._needy) if self._needy else 0
            elif (found := self._next_in_rack(each, self._expandable, 0)) is not None:
                member = self._expandable[found]
                if len(self._assigned[member]) + 1 == self._most:
                    del self._expandable[found]
                    self._larger += 1
                    if self._larger == self._larger_members:
                        self._expandable.clear()
            else:
                left.append(each)
                continue
            self._give(each, member)
        return left

    def _next_in_rack(
        self, partition: TopicPartition, members: Sequence[str] | deque[str], first: int
    ) -> int | None:
        for step in range(len(members)):
            index = (first + step) % len(members)
            if self._racks.match(members[index], partition):
                return index
        return None

    def _assign_in_turn(self, unassigned: Sequence[TopicPartition]) -> None:
        turn = 0
        for each in unassigned:
            if self._needy:
                turn %= len(self._needy)
                member = self._needy[turn]
            else:
                member = self._expandable.popleft()
            self._give(each, member)
            if self._needy and len(self._assigned[member]) == self._fewest:
                del self._needy[turn]
                self._expandable.append(member)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._assigned[member].append(partition)
        if self._given_up.get(partition, member) != member or partition in self._claims.disputed:
            self.transferred[partition] = member
