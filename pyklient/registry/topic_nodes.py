"""The nodes of a topic: the replicas of its partitions, the state of each partition, and its settings.

Since version 2 (Kafka 2.4), a topic's node also has the replicas that a reassignment adds and removes. Since
version 3 (Kafka 2.8), it also has the topic id.
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
    """The partitions of a topic, each with the ids of its replicas. ``topic_id`` is a UUID in base64."""

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
    """Parse *content*, the content of the node of *topic* in any version. Raises NodeContentError if no
    version of Kafka writes such content."""
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
    """Return the content of the node of a topic, as Kafka writes it in the version ``topic.version``."""
    values: dict[str, object] = {"version": topic.version, "partitions": _lists(topic.replicas)}
    if topic.version >= 2:
        values["adding_replicas"] = _lists(topic.adding_replicas)
        values["removing_replicas"] = _lists(topic.removing_replicas)
    if topic.version >= 3 and topic.topic_id is not None:
        values["topic_id"] = topic.topic_id
    return json_content(**values)


def parse_partition_state(topic: str, partition: int, content: bytes) -> PartitionState:
    """Parse *content*, the content of the node with the state of a partition. Raises NodeContentError if
    Kafka does not write such content."""
    found = NodeFields(paths.partition_state(topic, partition), content)
    return PartitionState(
        found.number("leader"),
        found.numbers("isr"),
        leader_epoch=found.number("leader_epoch"),
        controller_epoch=found.number("controller_epoch"),
    )


def partition_state_content(state: PartitionState) -> bytes:
    """Return the content of the node with the state of a partition, as Kafka writes it."""
    return json_content(
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        version=1,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
    )


def parse_topic_config(topic: str, content: bytes) -> dict[str, str]:
    """Return the settings of *topic* from *content*, the content of the node with its settings. Raises
    NodeContentError if Kafka does not write such content."""
    return NodeFields(paths.topic_config(topic), content).texts_by_text("config")


def topic_config_content(config: Mapping[str, str]) -> bytes:
    """Return the content of the node with the settings of a topic, as Kafka writes it."""
    return json_content(version=1, config=dict(config))


def parse_hosted_partitions(topic: str, broker_id: int, content: bytes) -> int:
    """Return the number of partitions of *topic* that a broker of Kafka 0.7 has.

    *content* is the content of the broker's node below the topic's node. Raises NodeContentError if it is not
    a number.
    """
    return whole_number(f"{paths.topic(topic)}/{broker_id}", content)


def partition_numbers(children: Iterable[str] | None) -> list[int]:
    """Return the sorted numbers of the partitions that *children* name, the children of an owners or offsets
    node.

    Kafka 0.8 names such a child ``<partition>``. Kafka 0.7 and the documents of later versions have
    ``<broker>-<partition>``. Both forms are accepted, and other names are ignored.
    """
    matches = (re.fullmatch("(?:[0-9]{1,10}-)?([0-9]{1,10})", name) for name in children or ())
    return sorted({int(match[1]) for match in matches if match is not None})


def _lists(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(ids) for partition, ids in replicas.items()}
