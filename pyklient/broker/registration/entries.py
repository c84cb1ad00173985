"""The dialogues by which a broker writes its entries into ZooKeeper: the broker itself, the controller, and
its topics."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyklient.errors import ConfigurationError, NodeContentError, NodeExistsError
from pyklient.registry import paths
from pyklient.registry.broker_nodes import BrokerNode, broker_content, broker_ids, parse_broker
from pyklient.registry.cluster_nodes import (
    cluster_id_content,
    controller_content,
    parse_cluster_id,
    parse_controller,
    parse_controller_epoch,
)
from pyklient.registry.requests import (
    Children,
    Create,
    Delete,
    Node,
    Read,
    RegistryDialogue,
    RegistryPause,
    Write,
)
from pyklient.registry.topic_nodes import (
    PartitionState,
    TopicNode,
    parse_topic,
    parse_topic_config,
    partition_state_content,
    topic_config_content,
    topic_content,
)

__all__ = ["FoundCluster", "FoundTopic", "TopicEntry", "announce", "find_cluster", "mirror_topics"]

_POLL: Final = 0.1


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic as the broker writes it into ZooKeeper: its id, its settings, and a pair (leader, leader epoch)
    for each partition.

    The leader of a partition is also its only replica.
    """

    topic_id: bytes
    config: Mapping[str, str]
    leaders: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic that was found in ZooKeeper."""

    name: str
    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """The cluster id and the topics that were found in ZooKeeper when a broker started. ``ignored`` has an
    error message for each topic whose entry cannot be parsed."""

    cluster_id: str | None
    topics: tuple[FoundTopic, ...]
    ignored: tuple[str, ...]


def find_cluster(broker_id: int) -> RegistryDialogue[FoundCluster]:
    """Return the cluster id and the topics that are in ZooKeeper.

    Raises ConfigurationError if a broker with another id than *broker_id* is registered there, because this
    broker can only be the single broker of a cluster.
    """
    others = [each for each in broker_ids((yield Children(paths.BROKER_IDS))) if each != broker_id]
    if others:
        raise ConfigurationError(
            f"other brokers are registered in this chroot of ZooKeeper ({', '.join(map(str, others))}), but "
            "the reference broker can only be the single broker of a cluster; choose another chroot, as in "
            "'host:2181/another'"
        )
    cluster: Node | None = yield Read(paths.CLUSTER_ID)
    topics, ignored = [], []
    for name in (yield Children(paths.TOPICS)) or ():
        node: Node | None = yield Read(paths.topic(name))
        config: Node | None = yield Read(paths.topic_config(name))
        try:
            replicas = {} if node is None else parse_topic(name, node.content).replicas
            settings = {} if config is None else parse_topic_config(name, config.content)
        except NodeContentError as error:
            ignored.append(str(error))
            continue
        if replicas:
            topics.append(FoundTopic(name, max(replicas) + 1, settings))
    cluster_id = None if cluster is None else parse_cluster_id(cluster.content)
    return FoundCluster(cluster_id, tuple(topics), tuple(ignored))


def announce(broker: BrokerNode, cluster_id: str, wait_seconds: float) -> RegistryDialogue[None]:
    """Register *broker* in ZooKeeper as a broker of the cluster and as its controller.

    If the broker has crashed before, its old entries exist until its old session ends. The broker waits until
    ZooKeeper has deleted them, for at most *wait_seconds*. Raises ConfigurationError if another running
    broker has the same id.
    """
    if (yield Read(paths.CLUSTER_ID)) is None:
        yield from _put(paths.CLUSTER_ID, cluster_id_content(cluster_id))

    def is_own_broker(node: Node) -> bool:
        return parse_broker(broker.broker_id, node.content).endpoints == broker.endpoints

    def is_own_controller(node: Node) -> bool:
        return parse_controller(node.content) == broker.broker_id

    yield from _create_ephemeral(
        paths.broker(broker.broker_id), broker_content(broker), is_own_broker, wait_seconds
    )
    content = controller_content(broker.broker_id, broker.timestamp_ms)
    if (yield from _create_ephemeral(paths.CONTROLLER, content, is_own_controller, wait_seconds)):
        epoch: Node | None = yield Read(paths.CONTROLLER_EPOCH)
        if epoch is None:
            yield Create(paths.CONTROLLER_EPOCH, b"1")
        else:
            next_epoch = parse_controller_epoch(epoch.content) + 1
            yield Write(paths.CONTROLLER_EPOCH, str(next_epoch).encode(), epoch.version)


def mirror_topics(
    before: Mapping[str, TopicEntry], after: Mapping[str, TopicEntry]
) -> RegistryDialogue[None]:
    """Write the differences between the topics *before*, which are in ZooKeeper now, and the topics *after*.

    If the dialogue fails, the caller may run it again.
    """
    epoch: Node | None = yield Read(paths.CONTROLLER_EPOCH)
    controller_epoch = 1 if epoch is None else parse_controller_epoch(epoch.content)
    for name in before.keys() - after.keys():
        yield Delete(paths.topic(name), children=True)
        yield Delete(paths.topic_config(name))
    for name, topic in after.items():
        if before.get(name) == topic:
            continue
        if name in before and before[name].topic_id != topic.topic_id:  # deleted, and created again
            yield Delete(paths.topic(name), children=True)
        yield from _put(paths.topic_config(name), topic_config_content(topic.config))
        replicas = {number: (leader,) for number, (leader, _) in enumerate(topic.leaders)}
        topic_id = urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
        yield from _put(paths.topic(name), topic_content(TopicNode(replicas, topic_id)))
        for number, (leader, leader_epoch) in enumerate(topic.leaders):
            state = PartitionState(leader, (leader,), leader_epoch, controller_epoch)
            yield from _put(paths.partition_state(name, number), partition_state_content(state))


def _create_ephemeral(
    path: str, content: bytes, is_own: Callable[[Node], bool], wait_seconds: float
) -> Generator[Any, Any, bool]:
    """Create the ephemeral node at *path*. Return True, or False if this session has already created it.

    If an earlier session of this broker has left the node, the dialogue waits until ZooKeeper deletes it, for
    at most *wait_seconds*. *is_own* returns True for a node that this broker has created. Raises
    ConfigurationError if the node belongs to another broker, or is not deleted in time.
    """
    waited = 0.0
    while True:
        try:
            yield Create(path, content, ephemeral=True)
        except NodeExistsError:
            node: Node | None = yield Read(path)
            if node is None:
                continue
            if node.mine:
                return False
            if waited > wait_seconds or not is_own(node):
                raise ConfigurationError(
                    f"the node {path} in ZooKeeper belongs to another broker, which is running: "
                    f"{node.content[:300]!r}; choose another node_id or chroot, or stop that broker"
                ) from None
            yield RegistryPause(_POLL)
            waited += _POLL
        else:
            return True


def _put(path: str, content: bytes) -> RegistryDialogue[None]:
    """Create the node at *path* with *content*. If the node exists, replace its content."""
    try:
        yield Create(path, content)
    except NodeExistsError:
        node: Node | None = yield Read(path)
        if node is not None and node.content != content:
            yield Write(path, content, node.version)
