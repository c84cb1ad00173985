"""Lists, describes and deletes groups that are coordinated through ZooKeeper.

``describe_group`` is a dialogue with brokers, and the other functions are dialogues with ZooKeeper. If a node
cannot be parsed, the description of its member or partition has an error, and all other nodes are described
nevertheless.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pyklient.admin.descriptions import (
    GroupListing,
    ZooKeeperGroupDescription,
    ZooKeeperMemberDescription,
    ZooKeeperPartitionProgress,
)
from pyklient.admin.groups import group_offsets
from pyklient.error_codes import ErrorCode
from pyklient.errors import NodeContentError, broker_error
from pyklient.net.dialogue import Dialogue, Refresh
from pyklient.net.lookups.find_coordinator import OFFSETS_TOPIC
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.net.metadata import Metadata
from pyklient.registry import paths
from pyklient.registry.consumer_nodes import parse_consumer, parse_offset, parse_owner
from pyklient.registry.node_content import garbled
from pyklient.registry.requests import Children, Delete, Read, RegistryDialogue, all_answers
from pyklient.registry.subscription_patterns import STATIC
from pyklient.registry.topic_nodes import parse_topic, partition_numbers
from pyklient.topic_partition import TopicPartition

__all__ = ["GroupNodes", "delete_group", "describe_group", "read_group", "read_groups"]

_Value = TypeVar("_Value")


@dataclass(slots=True)
class GroupNodes:
    """The content of the nodes that a group has in ZooKeeper.

    ``partitions`` maps each topic of the group to its partitions, or to None if the topic does not exist.
    ``errors`` maps each partition to its errors; the key None has the errors that belong to no partition.
    ``kafka_stores_offsets`` is false if no group has committed offsets to Kafka yet.
    """

    group_id: str
    members: list[ZooKeeperMemberDescription] = field(default_factory=list)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    partitions: dict[str, list[int] | None] = field(default_factory=dict)
    errors: dict[TopicPartition | None, list[str]] = field(default_factory=lambda: defaultdict(list))
    kafka_stores_offsets: bool = False


def read_groups() -> RegistryDialogue[list[GroupListing]]:
    """Return the groups that have a node in ZooKeeper, sorted by name."""
    found = []
    groups: list[str] = (yield Children(paths.CONSUMERS)) or []
    of_groups = yield from all_answers(Children(paths.consumer_ids(group_id)) for group_id in groups)
    for group_id, members in zip(groups, of_groups, strict=True):
        state = "Stable" if members else "Empty"
        found.append(GroupListing(group_id, "consumer", state, coordination="zookeeper"))
    return found


def read_group(group_id: str) -> RegistryDialogue[GroupNodes | None]:
    """Read the nodes of a group. Return None if the group has no nodes."""
    if not (yield from _exists(group_id)):
        return None
    nodes = GroupNodes(group_id)
    yield from _read_members(nodes)
    topics = {
        *(yield from _read_partitions(nodes, paths.owners(group_id), parse_owner, nodes.owners)),
        *(yield from _read_partitions(nodes, paths.offsets(group_id), _parse_offset, nodes.offsets)),
        *(topic for each in nodes.members if each.pattern == STATIC for topic in each.subscription),
    }
    yield from _read_topics(nodes, sorted(topics))
    nodes.kafka_stores_offsets = (yield Read(paths.topic(OFFSETS_TOPIC))) is not None
    return nodes


def delete_group(group_id: str) -> RegistryDialogue[bool]:
    """Delete the nodes of a group, with its offsets in ZooKeeper. Return False if the group has no nodes.

    Raises BrokerError NON_EMPTY_GROUP if the group has members.
    """
    if not (yield from _exists(group_id)):
        return False
    if (yield Children(paths.consumer_ids(group_id))):
        raise broker_error(
            ErrorCode.NON_EMPTY_GROUP, f"cannot delete group {group_id}, which is in ZooKeeper"
        )
    yield Delete(paths.group(group_id), children=True)
    return True


def _exists(group_id: str) -> RegistryDialogue[bool]:
    if group_id in ("", ".", "..") or "/" in group_id:
        return False  # a node cannot have these names
    return (yield Children(paths.group(group_id))) is not None


def describe_group(nodes: GroupNodes) -> Dialogue[ZooKeeperGroupDescription]:
    """Return the description of a group, made from its *nodes*, the offsets that the group has committed to
    Kafka, and the ends of the logs."""
    committed = (yield from group_offsets(nodes.group_id)) if nodes.kafka_stores_offsets else {}
    partitions = sorted(
        {
            *(
                TopicPartition(topic, number)
                for topic, all_ in nodes.partitions.items()
                for number in all_ or ()
            ),
            *nodes.owners,
            *nodes.offsets,
            *(each for each in nodes.errors if each is not None),
            *committed,
        }
    )
    metadata: Metadata = yield Refresh(
        {each.topic for each in partitions if nodes.partitions.get(each.topic, ()) is not None}
    )
    led = [each for each in partitions if metadata.leader(each) is not None]
    ends = yield from list_offsets(dict.fromkeys(led, LATEST))
    without_offset = [each for each in led if each not in nodes.offsets and each not in committed]
    starts = yield from list_offsets(dict.fromkeys(without_offset, EARLIEST))
    found = {}
    for each in partitions:
        errors = list(nodes.errors.get(each, ()))
        if each not in ends:
            errors.append(_why_no_end(nodes, metadata, each))
        found[each] = ZooKeeperPartitionProgress(
            owner=nodes.owners.get(each),
            zookeeper_offset=nodes.offsets.get(each),
            kafka_offset=committed[each].offset if each in committed else None,
            end=ends[each].offset if each in ends else None,
            start=starts[each].offset if each in starts else None,
            error="; ".join(errors) or None,
        )
    members = tuple(replace(each, assignment=_owned(nodes.owners, each)) for each in nodes.members)
    return ZooKeeperGroupDescription(nodes.group_id, members, found, tuple(nodes.errors.get(None, ())))


def _read_members(nodes: GroupNodes) -> RegistryDialogue[None]:
    members: list[str] = (yield Children(paths.consumer_ids(nodes.group_id))) or []
    found = yield from all_answers(Read(paths.consumer(nodes.group_id, each)) for each in members)
    for consumer_id, node in zip(members, found, strict=True):
        if node is None:
            continue  # the member has just left
        host = _host(nodes.group_id, consumer_id)
        try:
            consumer = parse_consumer(nodes.group_id, consumer_id, node.content)
        except NodeContentError as error:
            member = ZooKeeperMemberDescription(consumer_id, host, error=str(error))
        else:
            member = ZooKeeperMemberDescription(
                consumer_id,
                host,
                consumer.subscription,
                consumer.pattern,
                consumer.version,
                consumer.timestamp_ms,
            )
        nodes.members.append(member)


def _read_partitions(
    nodes: GroupNodes,
    root: str,
    parse: Callable[[str, bytes], _Value],
    found: dict[TopicPartition, _Value],
) -> RegistryDialogue[list[str]]:
    """Read all nodes ``<root>/<topic>/<partition>``. Add their parsed contents to *found*, and errors to
    *nodes*. Return the topics."""
    topics: list[str] = (yield Children(root)) or []
    of_topics = yield from all_answers(Children(f"{root}/{topic}") for topic in topics)
    named: dict[str, TopicPartition] = {}
    for topic, names in zip(topics, of_topics, strict=True):
        # A name such as 0-3, with the broker, is that of Kafka 0.7. The name without it is preferred.
        for name in sorted(names or (), key=lambda name: "-" in name):
            path = f"{root}/{topic}/{name}"
            if numbers := partition_numbers([name]):
                named[path] = TopicPartition(topic, numbers[0])
            else:
                nodes.errors[None].append(f"ZooKeeper's node {path} is not named after a partition")
    contents = yield from all_answers(Read(path) for path in named)
    for (path, partition), node in zip(named.items(), contents, strict=True):
        if node is None:
            continue
        try:
            value = parse(path, node.content)
        except NodeContentError as error:
            nodes.errors[partition].append(str(error))
            continue
        if found.setdefault(partition, value) != value:
            nodes.errors[partition].append(
                f"ZooKeeper's node {path} is ignored, because another node is of the same partition"
            )
    return topics


def _read_topics(nodes: GroupNodes, topics: Sequence[str]) -> RegistryDialogue[None]:
    """Read the nodes of *topics*, and store the partitions of each topic in *nodes*."""
    found = yield from all_answers(Read(paths.topic(topic)) for topic in topics)
    for topic, node in zip(topics, found, strict=True):
        nodes.partitions[topic] = None
        if node is None:
            continue
        try:
            nodes.partitions[topic] = sorted(parse_topic(topic, node.content).replicas)
        except NodeContentError as error:
            nodes.partitions[topic] = []
            nodes.errors[None].append(str(error))


def _parse_offset(path: str, content: bytes) -> int:
    offset = parse_offset(path, content)
    if offset < 0:
        raise garbled(path, content, "the offset is negative")
    return offset


def _why_no_end(nodes: GroupNodes, metadata: Metadata, partition: TopicPartition) -> str:
    if nodes.partitions.get(partition.topic, ()) is None or not metadata.partition_count(partition.topic):
        return f"there is no topic {partition.topic}"
    if partition.partition not in metadata.topics[partition.topic].partitions:
        return f"topic {partition.topic} has no partition {partition.partition}"
    return "the partition has no leader at the moment"


def _host(group_id: str, consumer_id: str) -> str | None:
    """Return the host in *consumer_id*. Return None if the id does not have the default form, which is
    ``<group>_<host>-<ms>-<8 digits>``."""
    match = re.fullmatch(rf"{re.escape(group_id)}_(.+)-[0-9]{{13}}-[0-9a-f]{{1,8}}", consumer_id)
    return None if match is None else match[1]


def _owned(
    owners: Mapping[TopicPartition, str], member: ZooKeeperMemberDescription
) -> tuple[TopicPartition, ...]:
    """Return the partitions that threads of *member* own."""
    return tuple(
        sorted(each for each, owner in owners.items() if owner.rpartition("-")[0] == member.consumer_id)
    )
