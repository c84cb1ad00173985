"""The handler of OffsetCommit, which stores the offsets that a group commits."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.offsets_journal import CommittedOffset
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["offset_commit"]

_TOPIC_IDS = 10


def offset_commit(
    node: NodeState, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse:
    """Store the offsets that a member commits. If the member may not commit, every partition gets the same
    error."""
    error_for_all = ErrorCode.NONE
    try:
        node.group_coordinator.check_commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
        )
    except ApiError as error:
        error_for_all = error.code
    offsets: dict[TopicPartition, CommittedOffset] = {}
    topics = [_commit(node, topic, context.version, error_for_all, offsets) for topic in request.topics]
    node.group_coordinator.commit(request.group_id, offsets)
    return OffsetCommitResponse(topics=topics)


def _commit(
    node: NodeState,
    asked: OffsetCommitRequest.OffsetCommitRequestTopic,
    version: int,
    error_for_all: ErrorCode,
    offsets: dict[TopicPartition, CommittedOffset],
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    """Add the offsets that the request commits for one topic to *offsets*, and return the part of the
    response for the topic."""
    name, unknown_topic = asked.name, ErrorCode.NONE
    if version >= _TOPIC_IDS:
        topic = node.cluster.topics.find_id(asked.topic_id)
        name, unknown_topic = (
            ("", ErrorCode.UNKNOWN_TOPIC_ID) if topic is None else (topic.name, ErrorCode.NONE)
        )
    partitions = []
    for one in asked.partitions:
        code = error_for_all or unknown_topic or _check(node, name, one)
        if not code:
            offsets[TopicPartition(name, one.partition_index)] = CommittedOffset(
                one.committed_offset, one.committed_leader_epoch, one.committed_metadata or ""
            )
        partitions.append(
            OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=code
            )
        )
    return OffsetCommitResponse.OffsetCommitResponseTopic(
        name=asked.name, topic_id=asked.topic_id, partitions=partitions
    )


def _check(
    node: NodeState,
    topic: str,
    one: OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition,
) -> ErrorCode:
    try:
        node.cluster.topics.partition(topic, one.partition_index)
    except ApiError as error:
        return error.code
    if len(one.committed_metadata or "") > node.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE
