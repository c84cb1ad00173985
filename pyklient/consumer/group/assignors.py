"""Who gets which partitions: Kafka's own range and round-robin rules.

The result is, partition for partition, that of Java's RangeAssignor and RoundRobinAssignor, so it does not
matter which member of a mixed group becomes its leader.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, pairwise
from typing import NamedTuple, TypeAlias, TypeVar

from pyklient.topic_partition import TopicPartition

__all__ = ["ASSIGNORS", "Assignor", "Subscriber", "assign_range", "assign_round_robin", "deal"]

_T = TypeVar("_T")


class Subscriber(NamedTuple):
    """A member as an assignor sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None


Assignor: TypeAlias = Callable[[Iterable[Subscriber], Mapping[str, int]], dict[str, list[TopicPartition]]]
"""(members, partition count of each topic that exists) → partitions of each member, by member id."""


def deal(items: Sequence[_T], takers: int) -> list[Sequence[_T]]:
    """The range rule: runs of neighbours, as even as can be, longer ones first.

    >>> deal(range(10), 3)
    [range(0, 4), range(4, 7), range(7, 10)]
    """
    share, extra = divmod(len(items), takers)
    starts = [share * taker + min(taker, extra) for taker in range(takers + 1)]
    return [items[start:end] for start, end in pairwise(starts)]


def assign_range(
    members: Iterable[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Topic by topic, each subscribed member gets a run of neighbouring partitions."""
    ordered = sorted(members, key=_rank)
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
    for topic in sorted(partition_counts):
        takers = [member.member_id for member in ordered if topic in member.topics]
        if takers:
            for taker, run in zip(takers, deal(range(partition_counts[topic]), len(takers)), strict=True):
                assigned[taker].extend(TopicPartition(topic, partition) for partition in run)
    return assigned


def assign_round_robin(
    members: Iterable[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """All partitions of all topics in a row, dealt one by one; who lacks the topic is passed over."""
    ordered = sorted(members, key=_rank)
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
    wanted = frozenset().union(*(member.topics for member in ordered))
    turn = cycle(ordered)
    for topic in sorted(wanted & partition_counts.keys()):
        for partition in range(partition_counts[topic]):
            taker = next(member for member in turn if topic in member.topics)
            assigned[taker.member_id].append(TopicPartition(topic, partition))
    return assigned


ASSIGNORS: dict[str, Assignor] = {"range": assign_range, "roundrobin": assign_round_robin}
"""By the name under which a member offers them to its group."""


def _rank(member: Subscriber) -> tuple[bool, bytes]:
    # Java puts static members first, by instance id, and compares strings by their UTF-16 units.
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")
