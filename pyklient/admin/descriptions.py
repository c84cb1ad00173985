"""What Admin tells about a cluster, its topics and its groups: plain values, each a picture of one moment."""

from dataclasses import dataclass
from uuid import UUID

from pyklient.net.metadata import Node
from pyklient.topic_partition import TopicPartition

__all__ = [
    "ClusterDescription",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "PartitionDescription",
    "PartitionLag",
    "TopicDescription",
]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers known. ``controller_id`` is -1 and ``cluster_id`` None where brokers do not tell."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Who holds a partition, as broker ids. ``leader`` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. ``topic_id`` is None on brokers before 2.8; ``config`` holds what was set on the topic."""

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    config: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group by name. ``state`` is empty on brokers before 2.6; readers have the type ``consumer``."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a group, the partitions it holds and the topics it subscribes to (none of another
    protocol than ``consumer``; while the group rebalances, brokers tell neither)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    subscription: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. ``protocol`` is how it deals its partitions, e.g. ``range``; empty while it has no members."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is in one partition: the next offset it reads, and the next one to be written.

    ``committed`` is None where the group has committed no offset. Only then ``start`` is given, the first
    offset of the log: everything from there on counts as unread, whatever ``auto_offset_reset`` its members
    have.
    """

    committed: int | None
    end: int
    start: int | None = None

    @property
    def lag(self) -> int:
        """Offsets still to read; markers and compacted records count, since offsets cannot tell them."""
        position = self.start if self.committed is None else self.committed
        return max(0, self.end - (position or 0))
