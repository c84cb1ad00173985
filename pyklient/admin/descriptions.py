"""The results of Admin: descriptions of the cluster, its topics and its groups at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import UUID

from pyklient.net.metadata import Node
from pyklient.registry.subscription_patterns import STATIC
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = [
    "ClusterDescription",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "OffsetChange",
    "OffsetCopy",
    "OffsetReset",
    "OpenTransaction",
    "PartitionDescription",
    "PartitionLag",
    "Storage",
    "StoredOffsets",
    "TopicDescription",
    "TransactionDescription",
    "ZooKeeperGroupDescription",
    "ZooKeeperMemberDescription",
    "ZooKeeperPartitionProgress",
]

Storage: TypeAlias = Literal["kafka", "zookeeper"]
"""A place where a group keeps its committed offsets: the brokers, or ZooKeeper."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers, the controller and the id of a cluster.

    Old brokers do not send the ids of the controller and of the cluster. ``controller_id`` is then -1, and
    ``cluster_id`` is None.
    """

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
    """The partitions and the settings of a topic. ``config`` holds the settings that were given to the topic.
    ``topic_id`` is None with brokers before 2.8."""

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    config: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ``Admin.groups`` lists it.

    ``protocol_type`` is ``consumer`` for consumer groups. ``state`` is empty with brokers before 2.6.
    ``coordination`` is ``kafka`` if a broker coordinates the group, and ``zookeeper`` if its members
    coordinate themselves through ZooKeeper. The ``state`` of a group in ZooKeeper is ``Stable`` if it has
    members, and ``Empty`` if it has none.
    """

    group_id: str
    protocol_type: str
    state: str
    coordination: str = "kafka"


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
    """The state and the members of a group. ``protocol`` names the group's assignor, such as ``range``. If
    the group has no members, ``protocol`` is empty."""

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
    offset of the log, even if ``auto_offset_reset`` of the members is ``latest``. If the group has
    committed an offset, ``start`` is None.
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


@dataclass(frozen=True, slots=True)
class ZooKeeperMemberDescription:
    """A member of a group that is coordinated through ZooKeeper.

    ``host`` is None if the user has set the id of the member (the property ``consumer.id``). ``subscription``
    maps topics to numbers of streams. If ``pattern`` is ``white_list`` or ``black_list`` instead of
    ``static``, ``subscription`` has one entry, whose key is a regular expression. ``node_version`` is 0 for
    members of Kafka 0.7. ``registered_ms`` is the time at which the member joined, or -1 if the member's node
    does not contain the time. ``error`` says why the node of the member cannot be parsed; ``subscription`` is
    then empty.
    """

    consumer_id: str
    host: str | None
    subscription: Mapping[str, int] = field(default_factory=dict)
    pattern: str = STATIC
    node_version: int = 1
    registered_ms: int = -1
    assignment: tuple[TopicPartition, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ZooKeeperPartitionProgress:
    """The owner of a partition in a group that is coordinated through ZooKeeper, and the progress of the
    group in it.

    ``owner`` is the id of a member's thread: the id of the member, a hyphen, and the number of its stream.
    The group may commit its offsets to ZooKeeper, to Kafka, or to both. ``end`` is the end of the log.
    ``start`` is the first offset of the log if the group has not committed an offset, and None otherwise.
    ``start`` and ``end`` are None if the brokers did not return them. ``error`` says what is wrong with the
    partition or with one of its nodes.
    """

    owner: str | None = None
    zookeeper_offset: int | None = None
    kafka_offset: int | None = None
    end: int | None = None
    start: int | None = None
    error: str | None = None

    @property
    def committed(self) -> int | None:
        """The larger of the offsets that the group has committed to ZooKeeper and to Kafka; None if there is
        no offset. A member that commits to both resumes at the larger one."""
        found = [offset for offset in (self.zookeeper_offset, self.kafka_offset) if offset is not None]
        return max(found, default=None)

    @property
    def lag(self) -> int | None:
        """The number of offsets still to read, as in PartitionLag. None if the end of the log is not
        known."""
        return None if self.end is None else PartitionLag(self.committed, self.end, self.start).lag


@dataclass(frozen=True, slots=True)
class ZooKeeperGroupDescription:
    """A group that is coordinated through ZooKeeper, as its nodes there and the brokers describe it.

    ``partitions`` has all partitions of the topics to which members subscribe by name, or for which the group
    has ever had owners or offsets. ``errors`` has the errors of the group's other nodes, which belong to no
    member and no partition.
    """

    group_id: str
    members: tuple[ZooKeeperMemberDescription, ...]
    partitions: Mapping[TopicPartition, ZooKeeperPartitionProgress]
    errors: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """``Stable`` if the group has members, and ``Empty`` if it has none."""
        return "Stable" if self.members else "Empty"


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The offsets that a group has committed for one partition to Kafka and to ZooKeeper, and the first
    offset and the end of the partition's log.

    An offset is None if the group has not committed one. ``start`` and ``end`` are None if the partition does
    not exist, or has no leader at the moment. ``error`` says what is wrong with the partition or with its
    node in ZooKeeper.
    """

    kafka: OffsetAndMetadata | None = None
    zookeeper: int | None = None
    start: int | None = None
    end: int | None = None
    error: str | None = None

    @property
    def committed(self) -> int | None:
        """The larger of the offsets in Kafka and in ZooKeeper; None if there is no offset. A member that
        commits to both resumes at the larger one."""
        in_kafka = self.of("kafka")
        if in_kafka is None or self.zookeeper is None:
            return self.zookeeper if in_kafka is None else in_kafka
        return max(in_kafka, self.zookeeper)

    @property
    def lag(self) -> int | None:
        """The number of offsets still to read, as in PartitionLag. None if the end of the log is not
        known."""
        return None if self.end is None else PartitionLag(self.committed, self.end, self.start).lag

    def of(self, storage: Storage) -> int | None:
        """Return the offset that is committed to *storage*, or None if there is none."""
        if storage == "zookeeper":
            return self.zookeeper
        return None if self.kafka is None else self.kafka.offset


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """What a reset changes in one partition: the offsets that were stored for the group ``before``, and the
    committed offset ``after``.

    ``note`` says why the new offset is not exactly the one that was asked for; None if it is.
    """

    before: StoredOffsets
    after: OffsetAndMetadata
    note: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A reset of a group's committed offsets, which was carried out or only computed.

    ``storage`` names the storages to which the reset writes. ``members`` is the number of members that the
    group had when the offsets were computed. A reset is carried out only for a group without members.
    """

    group_id: str
    storage: tuple[Storage, ...]
    changes: Mapping[TopicPartition, OffsetChange]
    members: int
    executed: bool


@dataclass(frozen=True, slots=True)
class OffsetCopy:
    """The offset of a group in one partition before and after it was copied to the other storage.

    ``source`` is the offset in the source storage. ``before`` and ``after`` are the offsets in the target
    storage. Without ``execute``, ``after`` is the offset that would be written.
    """

    source: int
    before: int | None
    after: int | None

    @property
    def ahead(self) -> bool:
        """True if the target storage has a larger offset than the source, and keeps it."""
        return self.after is not None and self.after > self.source


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id, as its transaction coordinator knows it.

    ``state`` is, for example, ``Ongoing`` while a transaction is open, and ``Empty`` before the first one.
    ``began_ms`` is the time at which the open transaction began, and None if none is open. ``partitions`` are
    the partitions of the open transaction that do not have a transaction marker for its end yet. The
    coordinator aborts a transaction ``timeout_ms`` after its beginning. ``coordinator`` is the node id of the
    coordinator.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition, where it begins at the offset ``start``.

    ``last_timestamp_ms`` is the timestamp of the last batch that its producer has written to the partition.
    ``coordinator_epoch`` is the epoch of the coordinator that wrote the end of the producer's last
    transaction there, or -1 if there was none. ``transactional_id`` and ``timeout_ms`` are None if no
    coordinator knows the producer.

    The transaction *hangs* if its coordinator does not know that the partition belongs to it. Neither a
    producer nor a time-out ends such a transaction, so that ``read_committed`` consumers wait for ever.
    """

    partition: TopicPartition
    start: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int
    transactional_id: str | None
    timeout_ms: int | None
    hangs: bool
