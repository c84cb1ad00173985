"""Assignor: the rule by which a group assigns partitions to its members. An application may write its own."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from pyklient.topic_partition import TopicPartition

__all__ = ["Assignor", "LastAssignment", "Partitions", "Subscriber"]


class Subscriber(NamedTuple):
    """A member of a group, as an assignor sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: frozenset[TopicPartition] = frozenset()
    """The partitions that the member owned when it joined. Empty if the member gave its partitions back
    before it joined."""
    generation: int = -1
    """The generation in which the member owned the partitions in ``owned``. -1 if the member does not tell
    the generation."""
    rack: str | None = None
    """The option ``client_rack`` of the member."""
    user_data: bytes | None = None
    """The bytes that the member's assignor has sent to the leader of the group (``Assignor.user_data``)."""


class LastAssignment(NamedTuple):
    """The partitions that a member got last, and the generation in which it got them. The generation is -1 if
    the member has not got partitions yet."""

    partitions: Sequence[TopicPartition] = ()
    generation: int = -1


Partitions: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""For each topic, a sequence with one entry per partition, in the order of their numbers. Each entry contains
the racks of the partition's replicas. A topic that does not exist has no partitions."""


class Assignor(ABC):
    """A rule by which the leader of a group assigns partitions to the members.

    Applications may write assignors, and pass them in the option ``partition_assignment_strategy``. All
    members of the group must offer an assignor with the same ``name``. An assignor must not keep state from
    call to call, because any member can become the leader, and several connectors may use one object.
    """

    name: str
    """The name under which members offer the assignor to their group."""
    incremental: bool = False
    """True if members keep their partitions while the group rebalances (KIP-429).

    If the assignor assigns a partition that another member still owns, nobody gets the partition in this
    rebalance. The owner gives it back, and then another rebalance follows, in which the partition is
    assigned.
    """

    @abstractmethod
    def assign(
        self, members: Sequence[Subscriber], partitions: Partitions
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the partitions of each member, by member id.

        The leader of the group calls this, on the group thread, which sends no heartbeats meanwhile. Members
        that are not in the result get no partitions. *members* are in the order in which the group
        coordinator names them.
        """

    def user_data(self, topics: Set[str], last: LastAssignment) -> bytes | None:
        """Return bytes that the leader of the group gets as ``user_data`` of this member, or None.

        Each member calls this before it joins. *topics* are those to which the member subscribes, and *last*
        is the member's last assignment.
        """
        return None
