"""The ZooKeeper paths of the nodes that Kafka's brokers and consumers use. The paths are relative to the
chroot."""

from typing import Final

__all__ = [
    "BROKER_IDS",
    "CLUSTER_ID",
    "CONSUMERS",
    "CONTROLLER",
    "CONTROLLER_EPOCH",
    "TOPICS",
    "broker",
    "committed_offset",
    "committed_offsets",
    "consumer",
    "consumer_ids",
    "group",
    "offsets",
    "owners",
    "partition_owner",
    "partition_owners",
    "partition_state",
    "topic",
    "topic_config",
]

BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONSUMERS: Final = "/consumers"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"


def broker(broker_id: int) -> str:
    """Return the ZooKeeper path of a broker's ephemeral node, which has the addresses of the broker."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """Return the ZooKeeper path of the node with the replicas of all partitions of a topic."""
    return f"{TOPICS}/{name}"


def partition_state(topic_name: str, partition: int) -> str:
    """Return the ZooKeeper path of the node with the leader and the in-sync replicas of a partition."""
    return f"{TOPICS}/{topic_name}/partitions/{partition}/state"


def topic_config(name: str) -> str:
    """Return the ZooKeeper path of the node with the settings of a topic."""
    return f"/config/topics/{name}"


def group(group_id: str) -> str:
    """Return the ZooKeeper path of a group. All nodes of the group are below it."""
    return f"{CONSUMERS}/{group_id}"


def consumer_ids(group_id: str) -> str:
    """Return the ZooKeeper path of the node whose children are the members of a group."""
    return f"{CONSUMERS}/{group_id}/ids"


def consumer(group_id: str, consumer_id: str) -> str:
    """Return the ZooKeeper path of the ephemeral node of one member of a group."""
    return f"{consumer_ids(group_id)}/{consumer_id}"


def owners(group_id: str) -> str:
    """Return the ZooKeeper path of the node whose children are the topics that members of a group have
    read."""
    return f"{CONSUMERS}/{group_id}/owners"


def partition_owners(group_id: str, topic_name: str) -> str:
    """Return the ZooKeeper path of the node whose children are the partitions of a topic that the members of
    a group own."""
    return f"{owners(group_id)}/{topic_name}"


def partition_owner(group_id: str, topic_name: str, partition: int) -> str:
    """Return the ZooKeeper path of the ephemeral node that names a partition's owner in a group."""
    return f"{partition_owners(group_id, topic_name)}/{partition}"


def offsets(group_id: str) -> str:
    """Return the ZooKeeper path of the node whose children are the topics for which a group has committed
    offsets."""
    return f"{CONSUMERS}/{group_id}/offsets"


def committed_offsets(group_id: str, topic_name: str) -> str:
    """Return the ZooKeeper path of the node whose children are the partitions of a topic for which a group
    has committed offsets."""
    return f"{offsets(group_id)}/{topic_name}"


def committed_offset(group_id: str, topic_name: str, partition: int) -> str:
    """Return the ZooKeeper path of the node with the offset that a group has committed for a partition."""
    return f"{committed_offsets(group_id, topic_name)}/{partition}"
