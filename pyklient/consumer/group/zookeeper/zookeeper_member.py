"""The state of a member of a group that ZooKeeper coordinates."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyklient.consumer.group.next_state import next_state
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.group.zookeeper.states import TRANSITIONS, Event, State
from pyklient.consumer.group.zookeeper.thread_assignment import ZOOKEEPER_ASSIGNORS, AssignToThreads
from pyklient.consumer.group.zookeeper.thread_ids import ThreadId
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import RegistryError
from pyklient.topic_partition import TopicPartition

__all__ = ["ZooKeeperMember"]

_BETWEEN_REBALANCES = 2
"""The number by which the generation of a ZooKeeper member grows at each assignment.

It is 2, because consecutive generations would mean that nobody else owned the member's partitions between the
two assignments. In a ZooKeeper group, another member may have owned one.
"""


@dataclass(slots=True)
class ZooKeeperMember:
    """The state of one member of a ZooKeeper group. Only the dialogues and the member's thread change it."""

    group_id: str
    consumer_id: str
    assignor: str
    subscription: Subscription = field(default_factory=Subscription)
    state: State = State.OUTSIDE
    generation: int = 0
    """A number that grows with each assignment. Only this client knows the number: ZooKeeper groups have no
    generations, and offsets are committed without a generation."""
    session_id: int | None = None
    """The id of the ZooKeeper session in which the member got its present assignment. None before that."""
    owned: Mapping[TopicPartition, ThreadId] = field(default_factory=dict)
    """The partitions that this member reads, each with the thread (the stream of this member) to which it is
    assigned."""
    waits_for: str = ""
    """A text for errors and the log, which names the partitions that other members had not given back at the
    last attempt to rebalance, each with its owner."""
    nodes: set[TopicPartition] = field(default_factory=set)
    """The partitions whose owner nodes this member has created, or may have created."""

    missing: frozenset[str] = frozenset()
    """The topics of the subscription that did not exist when the member last read the group."""

    @property
    def assign(self) -> AssignToThreads:
        """The function by which the member's assignor computes the assignment of the whole group."""
        return ZOOKEEPER_ASSIGNORS[self.assignor]

    @property
    def identity(self) -> MemberIdentity:
        """The identity of the member's present assignment. The client does not send it with its commits."""
        return MemberIdentity(self.generation, self.consumer_id)

    def name_taken(self) -> RegistryError:
        """Return the error to raise if another session has a node with this member's name."""
        return RegistryError(
            f"group {self.group_id} has a member {self.consumer_id} already, in another session with "
            "ZooKeeper; give each consumer a consumer_id of its own, or leave the option out"
        )

    def on(self, event: Event) -> None:
        """Change the state of the member to the state that follows after *event*, by the table in
        ``states.py``."""
        self.state = next_state(TRANSITIONS, self.state, event)

    def begin_generation(self, session_id: int | None) -> None:
        """Remember that a new assignment of the member begins, whose owner nodes belong to the ZooKeeper
        session *session_id*."""
        self.session_id = session_id
        self.generation += _BETWEEN_REBALANCES
