"""Assignors: the rules by which the leader of a group assigns partitions to its members.

``range`` and ``roundrobin`` assign each partition to the same member as Java's RangeAssignor and
RoundRobinAssignor do, so it does not matter which member of a mixed group becomes its leader.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, pairwise
from typing import NamedTuple, TypeAlias, TypeVar

from pyklient.topic_partition import TopicPartition

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "Partitions",
    "Subscriber",
    "assign_range",
    "assign_round_robin",
    "split_evenly",
]

_T = TypeVar("_T")


class Subscriber(NamedTuple):
    """A member of a group, as an assignor sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: frozenset[TopicPartition] = frozenset()
    """The partitions that the member owned when it joined. Empty if it had given them back before it
    joined."""
    generation: int = -1
    """The generation in which the member owned these partitions. -1 if the member does not say which."""
    rack: str | None = None


Partitions: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""For each topic, a sequence with one entry per partition, in the order of their numbers. Each entry contains
the racks of the partition's replicas. A topic that does not exist has no partitions."""

Assign: TypeAlias = Callable[[Iterable[Subscriber], Partitions], dict[str, list[TopicPartition]]]
"""A pure function that is called with members and partitions, and returns the partitions of each member by
member id."""


class Assignor(NamedTuple):
    """A rule that assigns partitions to members, and the name under which members offer it to their group."""

    name: str
    assign: Assign
    incremental: bool = False
    """True if members keep their partitions while the group rebalances (KIP-429). The rule must then not
    assign a partition to a member while another member owns it."""


def split_evenly(items: Sequence[_T], takers: int) -> list[Sequence[_T]]:
    """Divide *items* into *takers* runs of consecutive items. The sizes of the runs differ by at most one,
    and longer runs come first.

    >>> split_evenly(range(10), 3)
    [range(0, 4), range(4, 7), range(7, 10)]
    """
    share, extra = divmod(len(items), takers)
    starts = [share * taker + min(taker, extra) for taker in range(takers + 1)]
    return [items[start:end] for start, end in pairwise(starts)]


def assign_range(members: Iterable[Subscriber], partitions: Partitions) -> dict[str, list[TopicPartition]]:
    """Assign each subscribed member a range of neighbouring partitions, topic by topic."""
    ordered = sorted(members, key=_rank)
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
    for topic in sorted(partitions):
        takers = [member.member_id for member in ordered if topic in member.topics]
        if takers:
            for taker, run in zip(
                takers, split_evenly(range(len(partitions[topic])), len(takers)), strict=True
            ):
                assigned[taker].extend(TopicPartition(topic, partition) for partition in run)
    return assigned


def assign_round_robin(
    members: Iterable[Subscriber], partitions: Partitions
) -> dict[str, list[TopicPartition]]:
    """Assign the partitions of all topics to the members in turn. A member that does not subscribe to the
    topic is skipped."""
    ordered = sorted(members, key=_rank)
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
    wanted = frozenset().union(*(member.topics for member in ordered))
    turn = cycle(ordered)
    for topic in sorted(wanted & partitions.keys()):
        for partition in range(len(partitions[topic])):
            taker = next(member for member in turn if topic in member.topics)
            assigned[taker.member_id].append(TopicPartition(topic, partition))
    return assigned


ASSIGNORS: dict[str, Assignor] = {
    each.name: each for each in (Assignor("range", assign_range), Assignor("roundrobin", assign_round_robin))
}
"""The assignors by their names, which the option ``partition_assignment_strategy`` accepts."""


def _rank(member: Subscriber) -> tuple[bool, bytes]:
    # Java puts static members first, by instance id, and compares strings by their UTF-16 units.
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")
