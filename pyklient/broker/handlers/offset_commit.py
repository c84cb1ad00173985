"""Committed positions: written by members (or by anyone for an empty group), read by all."""

from collections.abc import Mapping

from pyklient.broker.api_errors import Refusal
from pyklient.broker.groups.offsets_journal import Committed
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pyklient.topic_partition import TopicPartition

__all__ = ["offset_commit", "offset_fetch"]

_TOPIC_IDS = 10
_SEVERAL_GROUPS = 8
_NOTHING = Committed(-1, -1, "")


def offset_commit(node: Node, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Keep positions. A member that may not commit may not for any partition."""
    refused = ErrorCode.NONE
    try:
        node.coordinator.check_commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
        )
    except Refusal as refusal:
        refused = refusal.code
    taken: dict[TopicPartition, Committed] = {}
    topics = [_answer_topic(node, topic, call.version, refused, taken) for topic in request.topics]
    node.coordinator.commit(request.group_id, taken)
    return OffsetCommitResponse(topics=topics)


def _answer_topic(
    node: Node,
    topic: OffsetCommitRequest.OffsetCommitRequestTopic,
    version: int,
    refused: ErrorCode,
    taken: dict[TopicPartition, Committed],
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    name, unknown = _name(node, topic.name, topic.topic_id, version)
    partitions = []
    for one in topic.partitions:
        code = refused or unknown or _check(node, name, one)
        if not code:
            taken[TopicPartition(name, one.partition_index)] = Committed(
                one.committed_offset, one.committed_leader_epoch, one.committed_metadata or ""
            )
        partitions.append(
            OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=code
            )
        )
    return OffsetCommitResponse.OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _name(node: Node, name: str, topic_id: bytes, version: int) -> tuple[str, ErrorCode]:
    if version < _TOPIC_IDS:
        return name, ErrorCode.NONE
    topic = node.topics.find_id(topic_id)
    return (topic.name, ErrorCode.NONE) if topic is not None else ("", ErrorCode.UNKNOWN_TOPIC_ID)


def _check(
    node: Node, topic: str, one: OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition
) -> ErrorCode:
    try:
        node.topics.partition(topic, one.partition_index)
    except Refusal as refusal:
        return refusal.code
    if len(one.committed_metadata or "") > node.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def offset_fetch(node: Node, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """Positions of one group, or from version 8 on of several; -1 where there is none."""
    if call.version < _SEVERAL_GROUPS:
        return _one_group(node, request)
    return OffsetFetchResponse(groups=[_answer_group(node, group, call.version) for group in request.groups])


def _one_group(node: Node, request: OffsetFetchRequest) -> OffsetFetchResponse:
    committed = node.coordinator.offsets.committed(request.group_id)
    wanted = (
        _by_topic(committed)
        if request.topics is None
        else {topic.name: topic.partition_indexes for topic in request.topics}
    )
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=position.offset,
                        committed_leader_epoch=position.leader_epoch,
                        metadata=position.metadata,
                    )
                    for index in indexes
                    for position in [committed.get(TopicPartition(name, index), _NOTHING)]
                ],
            )
            for name, indexes in wanted.items()
        ]
    )


def _answer_group(
    node: Node, group: OffsetFetchRequest.OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    committed = node.coordinator.offsets.committed(group.group_id)
    if group.topics is None:
        topics = [
            _group_topic(committed, name, topic.topic_id, indexes)
            for name, indexes in _by_topic(committed).items()
            if (topic := node.topics.find(name)) is not None
        ]
    else:
        topics = []
        for wanted in group.topics:
            name, unknown = _name(node, wanted.name, wanted.topic_id, version)
            topics.append(_group_topic(committed, name, wanted.topic_id, wanted.partition_indexes, unknown))
    return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _group_topic(
    committed: Mapping[TopicPartition, Committed],
    name: str,
    topic_id: bytes,
    indexes: list[int],
    error: ErrorCode = ErrorCode.NONE,
) -> OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics:
    return OffsetFetchResponse.OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponse.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                metadata=position.metadata,
                error_code=error,
            )
            for index in indexes
            for position in [committed.get(TopicPartition(name, index), _NOTHING)]
        ],
    )


def _by_topic(committed: Mapping[TopicPartition, Committed]) -> dict[str, list[int]]:
    wanted: dict[str, list[int]] = {}
    for topic, partition in committed:
        wanted.setdefault(topic, []).append(partition)
    return wanted
