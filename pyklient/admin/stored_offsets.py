"""Reads and writes the committed offsets of a group, in Kafka and in ZooKeeper, without being a member of the
group. Also counts the members of a group."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyklient.admin.groups import describe_group
from pyklient.admin.requests import AdminRequest, ask, coordinator
from pyklient.error_codes import ErrorCode, error_facts
from pyklient.errors import (
    BrokerError,
    CommitError,
    KafkaError,
    NodeContentError,
    UnsupportedVersionError,
    broker_error,
)
from pyklient.net.dialogue import Ask, Dialogue, Refresh, retried
from pyklient.net.lookups.find_coordinator import OFFSETS_TOPIC, find_coordinator
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.net.lookups.offset_commit_request import commit_errors, offset_commit_request, unconfirmed
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import ListGroupsRequest
from pyklient.registry import paths
from pyklient.registry.consumer_nodes import parse_offset
from pyklient.registry.node_content import garbled
from pyklient.registry.requests import Children, Read, RegistryDialogue, all_answers
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = [
    "LogBounds",
    "ZooKeeperOffsets",
    "commit_to_kafka",
    "kafka_stores_offsets",
    "log_bounds",
    "members_at_brokers",
    "members_in_zookeeper",
    "read_zookeeper_offsets",
]

_IN_KAFKA: Final = 1
"""The first version of OffsetCommit that stores offsets in Kafka."""
_BY_NAME: Final = 9
"""The last version of OffsetCommit that identifies topics by name."""
_OF_MEMBERS: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
"""The errors with which brokers reject a commit for a group with members, if the commit does not come from a
member."""


@dataclass(slots=True)
class ZooKeeperOffsets:
    """The offsets that a group has committed to ZooKeeper, and the number of its members there.

    ``versions`` has the version of each partition's node. ``errors`` has the partitions whose nodes exist but
    hold no valid offset, each with the reason.
    """

    members: int = 0
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    versions: dict[TopicPartition, int] = field(default_factory=dict)
    errors: dict[TopicPartition, str] = field(default_factory=dict)


@dataclass(slots=True)
class LogBounds:
    """The first offset and the end of the log of each partition that has a leader. ``errors`` says why each
    of the other partitions has no leader."""

    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    errors: dict[TopicPartition, str]


def read_zookeeper_offsets(group_id: str) -> RegistryDialogue[ZooKeeperOffsets]:
    """Read the offsets that a group has committed to ZooKeeper.

    ZooKeeper keeps the offsets of deleted topics. An offset that was committed before the topic was created
    belongs to an earlier topic of the same name. Members ignore it, and so does this function.
    """
    found = ZooKeeperOffsets()
    if not _may_be_a_node(group_id):
        return found
    found.members = yield from members_in_zookeeper(group_id)
    topics: list[str] = (yield Children(paths.offsets(group_id))) or []
    names = yield from all_answers(Children(paths.committed_offsets(group_id, topic)) for topic in topics)
    created = dict(
        zip(topics, (yield from all_answers(Read(paths.topic(topic)) for topic in topics)), strict=True)
    )
    partitions = [
        TopicPartition(topic, int(name))
        for topic, of_topic in zip(topics, names, strict=True)
        for name in of_topic or ()
        if name.isascii() and name.isdigit() and len(name) < 10
    ]
    nodes = yield from all_answers(Read(paths.committed_offset(group_id, *each)) for each in partitions)
    for each, node in zip(partitions, nodes, strict=True):
        if node is None:
            continue
        found.versions[each] = node.version
        path = paths.committed_offset(group_id, *each)
        topic = created[each.topic]
        if topic is not None and node.written < topic.created:
            found.errors[each] = (
                f"the offset in ZooKeeper's node {path} is ignored, because it was committed before the "
                "topic was created"
            )
            continue
        try:
            offset = parse_offset(path, node.content)
            if offset < 0:
                raise garbled(path, node.content, "the offset is negative")
        except NodeContentError as error:
            found.errors[each] = str(error)
        else:
            found.offsets[each] = offset
    return found


def members_in_zookeeper(group_id: str) -> RegistryDialogue[int]:
    """Return the number of members that a group has in ZooKeeper."""
    if not _may_be_a_node(group_id):
        return 0
    return len((yield Children(paths.consumer_ids(group_id))) or ())


def kafka_stores_offsets() -> RegistryDialogue[bool]:
    """Return True if Kafka has the topic for committed offsets. Brokers create it when a client first asks
    for the coordinator of a group."""
    return (yield Read(paths.topic(OFFSETS_TOPIC))) is not None


def _may_be_a_node(group_id: str) -> bool:
    return group_id not in ("", ".", "..") and "/" not in group_id


def members_at_brokers(group_id: str) -> Dialogue[int | None]:
    """Return the number of members of a group that a broker coordinates. Return None if the brokers do not
    know, because they are older than 0.9.

    DescribeGroups does not find groups of the newer protocol (KIP-848). Such a group counts as one member if
    it is listed with a state that only groups with members have.
    """
    try:
        group = yield from describe_group(group_id)
    except UnsupportedVersionError as error:
        if error.retriable:
            raise
        return None
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    else:
        return len(group.members)
    what = f"cannot list the groups of the coordinator of {group_id}"
    _, listed = yield from ask(
        AdminRequest(what, ListGroupsRequest(), lambda response: response), coordinator(group_id)
    )
    states = [each.group_state for each in listed.groups if each.group_id == group_id]
    return int(any(state not in ("", "Empty", "Dead") for state in states))


def log_bounds(partitions: Collection[TopicPartition]) -> Dialogue[LogBounds]:
    """Return the first offset and the end of the log of each partition in *partitions* that has a leader."""
    metadata: Metadata = yield Refresh({each.topic for each in partitions})
    led = [each for each in partitions if metadata.leader(each) is not None]
    starts = yield from list_offsets(dict.fromkeys(led, EARLIEST))
    ends = yield from list_offsets(dict.fromkeys(led, LATEST))
    return LogBounds(
        {each: starts[each].offset for each in led},
        {each: ends[each].offset for each in led},
        {each: _why_no_leader(metadata, each) for each in partitions if each not in ends},
    )


def _why_no_leader(metadata: Metadata, partition: TopicPartition) -> str:
    if not metadata.partition_count(partition.topic):
        return f"there is no topic {partition.topic}"
    if partition.partition not in metadata.topics[partition.topic].partitions:
        return f"topic {partition.topic} has no partition {partition.partition}"
    return "the partition has no leader at the moment"


def commit_to_kafka(group_id: str, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> Dialogue[None]:
    """Commit *positions* at the coordinator of a group that has no members.

    Raises BrokerError NON_EMPTY_GROUP if the group has members at its coordinator, and CommitError with the
    error of each partition that the broker did not accept.
    """
    if positions:
        yield from retried(partial(_commit, group_id, positions))


def _commit(group_id: str, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> Dialogue[None]:
    node_id = yield from find_coordinator(group_id)
    request = offset_commit_request(group_id, positions)
    response: Any = yield Ask(node_id, request, min_version=_IN_KAFKA, max_version=_BY_NAME)
    what = f"cannot commit offsets of group {group_id}"
    codes = commit_errors(response)
    if any(code in _OF_MEMBERS for code in codes.values()):
        raise broker_error(ErrorCode.NON_EMPTY_GROUP, what)
    for code in codes.values():
        if error_facts(code).retriable and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise broker_error(code, what)
    errors: dict[TopicPartition, KafkaError] = {
        where: broker_error(code, f"cannot commit the offset of {where} for group {group_id}")
        for where, code in codes.items()
    }
    errors.update(unconfirmed(group_id, response, positions))
    if errors:
        raise CommitError("; ".join(map(str, errors.values())), errors)
