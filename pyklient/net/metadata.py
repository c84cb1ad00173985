"""The metadata of the cluster: an immutable snapshot, which every refresh replaces."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pyklient.error_codes import ErrorCode, error_facts
from pyklient.errors import BrokerError, broker_error
from pyklient.net.connection.transport import Endpoint
from pyklient.protocol.messages import MetadataResponse
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.topic_partition import TopicPartition

__all__ = ["Metadata", "MetadataHolder", "Node", "PartitionInfo", "TopicInfo"]


_PASSING = (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
_NEXT = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A broker of the cluster, and the address that it advertises."""

    id: int
    host: str
    port: int
    rack: str | None = None
    endpoint: Endpoint = field(init=False, repr=False, compare=False)
    """The node id of the broker, and the address to connect to."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint", Endpoint(self.id, self.host, self.port))


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition in the metadata. ``leader`` is the node id of its leader, or -1 if it has none. ``error``
    is an error code, or 0."""

    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    error: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic in the metadata. ``id`` has the 16 bytes of its UUID, or zeros if the brokers have no topic
    ids. ``error`` is an error code, or 0."""

    name: str
    id: bytes = ZERO_UUID
    internal: bool = False
    error: int = 0
    partitions: Mapping[int, PartitionInfo] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Metadata:
    """The nodes and topics of the cluster, as a broker described them. Only topics that were asked for are in
    it."""

    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicInfo] = field(default_factory=lambda: MappingProxyType({}))
    controller_id: int = -1
    cluster_id: str | None = None

    def leader(self, partition: TopicPartition) -> Node | None:
        """Return the leader of a partition; None if it has no leader, or the partition is not known."""
        topic = self.topics.get(partition.topic)
        info = topic.partitions.get(partition.partition) if topic is not None else None
        return self.nodes.get(info.leader) if info is not None else None

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of *topic*; 0 if the topic is not known."""
        info = self.topics.get(topic)
        return 0 if info is None else len(info.partitions)

    def knows(self, topics: Iterable[str]) -> bool:
        """Return True if the metadata has brokers, and has each of *topics* without an error."""
        infos = [self.topics.get(topic) for topic in topics]
        return bool(self.nodes) and all(info is not None and not info.error for info in infos)

    def topic_errors(self, topics: Iterable[str]) -> dict[str, BrokerError]:
        """Return the error of each of *topics* that this client cannot use, for instance because the client
        is not authorized.

        Errors that may soon pass, such as a failure of the broker (UNKNOWN_SERVER_ERROR), are left out.
        """
        codes = {topic: info.error for topic in topics if (info := self.topics.get(topic)) is not None}
        return {
            topic: broker_error(code, f"cannot read topic {topic}")
            for topic, code in codes.items()
            if code not in _PASSING and not error_facts(code).retriable
        }

    def updated(self, response: MetadataResponse, *, all_topics: bool) -> "Metadata":
        """Return this metadata with the nodes and topics in *response*.

        The nodes in *response* replace all earlier nodes. Topics that are not in *response* are kept, unless
        *all_topics* is true, which means that the request asked for all topics.
        """
        topics = {} if all_topics else dict(self.topics)
        for entry in response.topics:
            if entry.name:
                topics[entry.name] = _topic(entry, self.topics.get(entry.name))
        nodes = {
            node.node_id: Node(node.node_id, node.host, node.port, node.rack) for node in response.brokers
        }
        return Metadata(
            nodes=MappingProxyType(nodes),
            topics=MappingProxyType(topics),
            controller_id=response.controller_id,
            cluster_id=response.cluster_id,
        )

    def without(self, topics: Collection[str]) -> "Metadata":
        """Return this metadata without *topics*."""
        left = {name: topic for name, topic in self.topics.items() if name not in topics}
        return replace(self, topics=MappingProxyType(left))


def _topic(entry: "MetadataResponse.MetadataResponseTopic", before: TopicInfo | None) -> TopicInfo:
    same = before is not None and before.id == bytes(entry.topic_id) != ZERO_UUID
    known = before.partitions if before is not None and same else {}
    partitions = {}
    for item in entry.partitions:
        info = PartitionInfo(
            leader=item.leader_id,
            leader_epoch=item.leader_epoch,
            replicas=tuple(item.replica_nodes),
            isr=tuple(item.isr_nodes),
            error=item.error_code,
        )
        older = known.get(item.partition_index)
        # An epoch never decreases (KIP-320): a broker that lags behind still names the former leader. Without
        # topic ids, this case looks like a topic that was deleted and created again, whose epochs start at 0.
        if older is not None and 0 <= info.leader_epoch < older.leader_epoch:
            info = older
        partitions[item.partition_index] = info
    return TopicInfo(
        name=entry.name or "",
        id=bytes(entry.topic_id),
        internal=entry.is_internal,
        error=entry.error_code,
        partitions=MappingProxyType(dict(sorted(partitions.items()))),
    )


class MetadataHolder:
    """Holds the current Metadata of a client. Safe to use from several threads.

    A thread derives the next Metadata from the current one. If another thread replaces the current Metadata
    meanwhile, the first thread starts again from the new one, so that the changes of both threads are kept.
    """

    def __init__(self) -> None:
        self.current = Metadata()
        self._version = _Version(self.current)

    def update(self, response: MetadataResponse, *, all_topics: bool) -> Metadata:
        """Update the current Metadata with *response*, and return the new Metadata."""
        return self._replace(lambda before: before.updated(response, all_topics=all_topics))

    def forget(self, topics: Collection[str]) -> None:
        """Remove *topics* from the current Metadata."""
        self._replace(lambda before: before.without(topics))

    def _replace(self, change: Callable[[Metadata], Metadata]) -> Metadata:
        while True:
            before = self._version
            after = _Version(change(before.metadata))
            if before.successor.setdefault(_NEXT, after) is after:
                self.current = after.metadata
                self._version = after
                return after.metadata


class _Version:
    """A Metadata, and the ``successor`` that replaces it. ``successor`` is empty until a thread sets it.

    If several threads call ``successor.setdefault`` at the same time, only one of them sets the successor.
    """

    __slots__ = ("metadata", "successor")

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.successor: dict[int, _Version] = {}
