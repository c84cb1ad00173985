"""The results of Admin: descriptions of the cluster, its topics and its groups at one moment."""

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
    """The brokers of a cluster. Old brokers do not send ``controller_id``, which is then -1, or
    ``cluster_id``, which is then None."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """The leader and the replicas of a partition, as broker ids. ``leader`` is -1 while the partition has no
    leader."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. ``config`` holds the settings that were given to the topic. ``topic_id`` is None with brokers
    before 2.8."""

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    config: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ``Admin.groups`` lists it.

    ``protocol_type`` is ``consumer`` for consumer groups. ``state`` is empty with brokers before 2.6.
    """

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group, with the partitions assigned to it and the topics to which it subscribes.

    ``assignment`` and ``subscription`` are empty while the group rebalances, and in groups whose protocol
    type is not ``consumer``.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    subscription: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. ``protocol`` names the group's assignor, such as ``range``. If the group has no members,
    ``protocol`` is empty."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The committed offset of a group in one partition, and the end of the log.

    ``committed`` is None if the group has committed no offset. The lag then counts from ``start``, the first
    offset of the log, whatever ``auto_offset_reset`` the members use. Otherwise ``start`` is None.
    """

    committed: int | None
    end: int
    start: int | None = None

    @property
    def lag(self) -> int:
        """The number of offsets still to read. The offsets of compacted records and transaction markers count
        too."""
        position = self.start if self.committed is None else self.committed
        return max(0, self.end - (position or 0))
