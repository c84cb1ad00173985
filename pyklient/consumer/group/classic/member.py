"""A member of a group, as it and its coordinator know it."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from pyklient.consumer.group.assignors import Assignor
from pyklient.consumer.group.classic.states import Event, State, next_state
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

__all__ = ["Member"]


@dataclass(slots=True)
class Member:
    """The state of one member. Changed by the dialogues and the steps of the group thread only."""

    coordinator: GroupCoordinatorClient
    instance_id: str | None
    assignors: Sequence[Assignor]
    """The assignors that this member offers to its group, in order of preference."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: Set[str] = frozenset()
    state: State = State.OUTSIDE
    member_id: str = ""
    generation: int = -1
    owned: frozenset[TopicPartition] = frozenset()
    """The partitions that this member still owns when it joins. Empty for assignors that are not
    incremental, and after the group has removed the member."""
    watched: Mapping[str, int] | None = None
    """Partition counts by which this member, as the leader, assigned; None if another member leads."""
    members: Set[str] = frozenset()
    """The group's members, as this member knew them when it last was the leader."""

    @property
    def group_id(self) -> str:
        """The group's name."""
        return self.coordinator.group_id

    @property
    def identity(self) -> MemberIdentity:
        """The identity under which offsets are committed."""
        return MemberIdentity(self.generation, self.member_id, self.instance_id)

    @property
    def incremental(self) -> bool:
        """True if partitions are kept while the group rebalances. All assignors offered must allow it,
        because any of them may be chosen."""
        return all(assignor.incremental for assignor in self.assignors)

    def on(self, event: Event) -> None:
        """Move through the table of states."""
        self.state = next_state(self.state, event)

    def forget(self, code: int = 0) -> None:
        """Join as a newcomer next time. After ILLEGAL_GENERATION, join as a known member: the group would
        wait for the old name."""
        self.generation = -1
        self.owned = frozenset()
        if code != ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
