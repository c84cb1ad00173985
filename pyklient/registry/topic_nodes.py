"""Parses and writes the content of a topic's ZooKeeper nodes: the replicas of its partitions, the state of
each partition, and its settings.

From version 2 (Kafka 2.4) on, a topic's node also has the replicas that a reassignment adds and removes. From
version 3 (Kafka 2.8) on, it also has the topic id.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyklient.registry import paths
from pyklient.registry.node_content import NodeFields, json_content, whole_number

__all__ = [
    "PartitionState",
    "TopicNode",
    "parse_hosted_partitions",
    "parse_partition_state",
    "parse_topic",
    "parse_topic_config",
    "partition_numbers",
    "partition_state_content",
    "topic_config_content",
    "topic_content",
]


@dataclass(frozen=True, slots=True)
class TopicNode:
    """The content of a topic's ZooKeeper node: the partitions of the topic, each with the ids of its
    replicas. ``topic_id`` is a UUID in base64."""

    replicas: Mapping[int, tuple[int, ...]]
    topic_id: str | None = None
    adding_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    version: int = 3


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The leader (-1: none), the in-sync replicas and the epochs of one partition."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    controller_epoch: int = 1


def parse_topic(topic: str, content: bytes) -> TopicNode:
    """Parse the content of a topic's ZooKeeper node, in any version of its format. Raises NodeContentError if
    *content* is malformed."""
    found = NodeFields(paths.topic(topic), content)
    if "partitions" not in found:
        found.wrong("'partitions' is missing")
    return TopicNode(
        found.number_lists("partitions"),
        topic_id=found.optional_text("topic_id"),
        adding_replicas=found.number_lists("adding_replicas"),
        removing_replicas=found.number_lists("removing_replicas"),
        version=found.number("version", 1),
    )


def topic_content(topic: TopicNode) -> bytes:
    """Return the content of a topic's ZooKeeper node, in version ``topic.version`` of its format."""
    values: dict[str, object] = {"version": topic.version, "partitions": _lists(topic.replicas)}
    if topic.version >= 2:
        values["adding_replicas"] = _lists(topic.adding_replicas)
        values["removing_replicas"] = _lists(topic.removing_replicas)
    if topic.version >= 3 and topic.topic_id is not None:
        values["topic_id"] = topic.topic_id
    return json_content(**values)


def parse_partition_state(topic: str, partition: int, content: bytes) -> PartitionState:
    """Parse the content of the ZooKeeper node with the state of a partition. Raises NodeContentError if
    *content* is malformed."""
    found = NodeFields(paths.partition_state(topic, partition), content)
    return PartitionState(
        found.number("leader"),
        found.numbers("isr"),
        leader_epoch=found.number("leader_epoch"),
        controller_epoch=found.number("controller_epoch"),
    )


def partition_state_content(state: PartitionState) -> bytes:
    """Return the content of the ZooKeeper node with the state of a partition, as Kafka writes it."""
    return json_content(
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        version=1,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
    )


def parse_topic_config(topic: str, content: bytes) -> dict[str, str]:
    """Return the settings of *topic* from *content*, the content of their ZooKeeper node. Raises
    NodeContentError if *content* is malformed."""
    return NodeFields(paths.topic_config(topic), content).texts_by_text("config")


def topic_config_content(config: Mapping[str, str]) -> bytes:
    """Return the content of the ZooKeeper node with the settings of a topic, as Kafka writes it."""
    return json_content(version=1, config=dict(config))


def parse_hosted_partitions(topic: str, broker_id: int, content: bytes) -> int:
    """Return the number of partitions of *topic* that a broker of Kafka 0.7 stores.

    *content* is the content of the ZooKeeper node ``<topic>/<broker id>``. Raises NodeContentError if
    *content* is not a number.
    """
    return whole_number(f"{paths.topic(topic)}/{broker_id}", content)


def partition_numbers(children: Iterable[str] | None) -> list[int]:
    """Return the sorted partition numbers in *children*, the names of the ZooKeeper nodes of a topic's owners
    or committed offsets.

    Kafka 0.8 and later name such a node ``<partition>``. Kafka 0.7 and some documentation of later versions
    have ``<broker>-<partition>``. Both forms are accepted, and other names are ignored.
    """
    matches = (re.fullmatch("(?:[0-9]{1,10}-)?([0-9]{1,10})", name) for name in children or ())
    return sorted({int(match[1]) for match in matches if match is not None})


def _lists(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(ids) for partition, ids in replicas.items()}
