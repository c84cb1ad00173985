"""The assignors ``sticky`` and ``cooperative-sticky``: members keep partitions as far as balance allows.

Both assign each partition to the same member as Java's StickyAssignor and CooperativeStickyAssignor (Kafka
3.5 and later), and send the same user data. They differ from Java in three cases in which Java makes a
mistake:

- A member that subscribes to nothing gets nothing.
- A partition that does not exist any more is not counted.
- A partition does not go back to a member that no longer subscribes to the topic.
"""

from collections.abc import Callable, Mapping, Sequence, Set

from pyklient.assignors.assignor import Assignor, LastAssignment, Partitions, Subscriber
from pyklient.assignors.different_subscriptions import DifferentSubscriptions
from pyklient.assignors.equal_subscriptions import EqualSubscriptions
from pyklient.assignors.incremental import leave_out_owned
from pyklient.assignors.java_orders import computed_order, hash_order
from pyklient.assignors.owned_claims import owned_claims
from pyklient.assignors.racks import Racks
from pyklient.errors import ProtocolError
from pyklient.protocol.messages.sticky_user_data import CooperativeStickyUserData, StickyUserData
from pyklient.protocol.primitives import Reader
from pyklient.topic_partition import TopicPartition, numbers_by_topic

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]


class StickyAssignor(Assignor):
    """Assigns equal numbers of partitions, and lets members keep the partitions that they had last.

    Members give all partitions back before each rebalance. The user data of a member tells which partitions
    it had.
    """

    name = "sticky"

    def assign(
        self, members: Sequence[Subscriber], partitions: Partitions
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member, by member id."""
        return _assign(members, partitions, _had_last)[0]

    def user_data(self, topics: Set[str], last: LastAssignment) -> bytes | None:
        """Return *last*, the partitions that the member got last, as user data. Return None if the member has
        not got any assignment yet."""
        if last.generation < 0:
            return None
        by_topic = numbers_by_topic(last.partitions)
        previous = [
            StickyUserData.TopicAssignment(topic=topic, partitions=by_topic[topic])
            for topic in computed_order([each.topic for each in last.partitions])
        ]
        return b"".join(StickyUserData(previous_assignment=previous, generation=last.generation).encode(1))


class CooperativeStickyAssignor(Assignor):
    """Assigns equal numbers of partitions, and lets members keep the partitions that they own while the group
    rebalances (KIP-429).

    A partition that moves is assigned to nobody until its owner has given it back, and a second rebalance
    follows.
    """

    name = "cooperative-sticky"
    incremental = True

    def assign(
        self, members: Sequence[Subscriber], partitions: Partitions
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member, by member id."""
        assigned, transferred = _assign(members, partitions, _owns)
        if transferred is None:
            return leave_out_owned(members, assigned)
        return {
            name: [each for each in of_member if transferred.get(each) != name]
            for name, of_member in assigned.items()
        }

    def user_data(self, topics: Set[str], last: LastAssignment) -> bytes | None:
        """Return the generation of the member's last assignment, as user data."""
        return b"".join(CooperativeStickyUserData(generation=last.generation).encode(0))


def _assign(
    members: Sequence[Subscriber],
    partitions: Partitions,
    said_by: Callable[[Subscriber], LastAssignment],
) -> tuple[dict[str, list[TopicPartition]], Mapping[TopicPartition, str] | None]:
    """Return the partitions of each member, and the new owner of each partition that moves from one member to
    another. *said_by* returns the partitions that a member says it owned.

    The second result is None if it is not known which partitions move.
    """
    by_id = {each.member_id: each for each in members}
    ordered = [by_id[member_id] for member_id in hash_order(by_id)]
    wanted = frozenset[str]().union(*(each.topics for each in members))
    existing = {topic: racks for topic, racks in partitions.items() if racks and topic in wanted}
    claims = owned_claims(ordered, {each.member_id: said_by(each) for each in members}, existing)
    racks = Racks(members, existing, existing)
    if len({each.topics for each in members}) == 1:
        equal = EqualSubscriptions([each.member_id for each in ordered], existing, claims, racks)
        return equal.assign(), equal.transferred
    return DifferentSubscriptions(ordered, existing, claims, racks).assign(), None


def _had_last(member: Subscriber) -> LastAssignment:
    """Return the last assignment of *member*, read from the user data that it sent for the assignor
    ``sticky``. Without such user data, the assignment is empty."""
    for version in (1, 0):
        try:
            data = StickyUserData.read(Reader(member.user_data or b""), version)
        except ProtocolError:
            continue
        had = [
            TopicPartition(each.topic, partition)
            for each in data.previous_assignment
            for partition in each.partitions
        ]
        return LastAssignment(had, data.generation)
    return LastAssignment()


def _owns(member: Subscriber) -> LastAssignment:
    """Return the partitions that *member* owns, and their generation. The generation comes from the
    subscription of the member, or from its user data if the subscription has none."""
    generation = member.generation
    if generation < 0 and member.user_data:
        try:
            generation = CooperativeStickyUserData.read(Reader(member.user_data), 0).generation
        except ProtocolError:
            generation = -1
    return LastAssignment(sorted(member.owned), generation)
