"""The state of a group's member, such as its generation and its partitions."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from pyklient.assignors.assignor import Assignor, LastAssignment
from pyklient.consumer.group.classic.states import TRANSITIONS, Event, State
from pyklient.consumer.group.next_state import next_state
from pyklient.consumer.group.subscription import Subscription, TopicSelection
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

__all__ = ["Member"]


@dataclass(slots=True)
class Member:
    """The state of one member of a group. Only the group thread and its dialogues change it."""

    coordinator: GroupCoordinatorClient
    instance_id: str | None
    assignors: Sequence[Assignor]
    """The assignors that this member offers to its group, in order of preference."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    rack: str | None = None
    """The rack of this member, which assignors may consider."""
    selection: TopicSelection = field(default_factory=lambda: TopicSelection(Subscription()))
    state: State = State.OUTSIDE
    member_id: str = ""
    generation: int = -1
    owned: frozenset[TopicPartition] = frozenset()
    """The partitions that this member keeps while it joins. Empty if its assignors are not incremental, or if
    the group has removed the member."""
    last: LastAssignment = LastAssignment()
    """The last assignment of this member, even if the member has lost the partitions since then."""
    watched: Mapping[str, int] | None = None
    """The number of partitions that each topic had when this member, as the leader, assigned them. None if
    another member is the leader."""
    confirmed_at: float = -math.inf
    """The time at which this member sent the last request whose response confirmed that the member is in the
    group. It is in seconds of ``time.monotonic``."""
    members: Set[str] = frozenset()
    """The ids of the group's members at the last time when this member was the leader."""

    @property
    def group_id(self) -> str:
        """The group's name."""
        return self.coordinator.group_id

    @property
    def topics(self) -> Set[str]:
        """The topics to which this member subscribes."""
        return self.selection.topics

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription. Any thread may call this."""
        self.selection = TopicSelection(subscription)

    @property
    def identity(self) -> MemberIdentity:
        """The identity (generation, member id and instance id) under which this member commits offsets."""
        return MemberIdentity(self.generation, self.member_id, self.instance_id)

    @property
    def confirmed_until(self) -> float:
        """The time, in seconds of ``time.monotonic``, until which the group keeps this member even if the
        member sends no further heartbeat."""
        return self.confirmed_at + self.session_timeout_ms / 1000

    @property
    def incremental(self) -> bool:
        """True if the member keeps its partitions while the group rebalances.

        All assignors that the member offers must allow this, because the group may choose any of them.
        """
        return all(assignor.incremental for assignor in self.assignors)

    def on(self, event: Event) -> None:
        """Change the state of the member to the state that follows after *event*, by the table in
        ``states.py``."""
        self.state = next_state(TRANSITIONS, self.state, event)

    def forget(self, code: int = 0) -> None:
        """Make the member join as a new member next time. *code* is the error that is the reason, or 0 if the
        member has left.

        After ILLEGAL_GENERATION, the member keeps its member id. With a new id, it would make the group wait
        in vain for a member with the old id.
        """
        self.generation = -1
        self.owned = frozenset()
        if code != ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
