"""The handler of OffsetCommit, which stores the offsets that a group commits.

Version 0 of the request stores offsets in ZooKeeper. If the broker does not use ZooKeeper, version 0 is an
error, as in Kafka.
"""

import logging
from collections.abc import Awaitable, Mapping

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.committed_offset import NO_TIMESTAMP, CommittedOffset
from pyklient.broker.handlers.offset_check import check_offset
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.handlers.zookeeper_offsets import zookeeper_error
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError
from pyklient.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from pyklient.registry.committed_offsets import write_offsets
from pyklient.topic_partition import TopicPartition

__all__ = ["offset_commit"]

log = logging.getLogger("pyklient.broker")

_ZOOKEEPER = 0
_TOPIC_IDS = 10


def offset_commit(
    node: NodeState, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Store the offsets that a member commits. If the member may not commit, every partition gets the same
    error."""
    error_for_all = ErrorCode.NONE
    if context.version == _ZOOKEEPER:
        return _commit_to_zookeeper(node, request)
    try:
        node.group_coordinator_of(request.group_id).check_commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
        )
    except ApiError as error:
        error_for_all = error.code
    offsets: dict[TopicPartition, CommittedOffset] = {}
    topics = [_commit(node, topic, context.version, error_for_all, offsets) for topic in request.topics]
    if offsets:
        node.group_coordinator.commit(
            request.group_id, _with_timestamps(offsets, request.retention_time_ms, node.now_ms())
        )
    return OffsetCommitResponse(topics=topics)


async def _commit_to_zookeeper(node: NodeState, request: OffsetCommitRequest) -> OffsetCommitResponse:
    registration, offsets = node.cluster.registration, dict[TopicPartition, CommittedOffset]()
    error_for_all = zookeeper_error(node, request.group_id)
    topics = [_commit(node, topic, _ZOOKEEPER, error_for_all, offsets) for topic in request.topics]
    if offsets and registration is not None:
        written = {partition: committed.offset for partition, committed in offsets.items()}
        try:
            await registration.play(write_offsets(request.group_id, written))
        except KafkaError as error:
            log.warning(
                "the offsets of group %s were not written into ZooKeeper: %s", request.group_id, error
            )
            for topic in topics:
                for one in topic.partitions:
                    one.error_code = one.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
    return OffsetCommitResponse(topics=topics)


def _commit(
    node: NodeState,
    asked: OffsetCommitRequest.OffsetCommitRequestTopic,
    version: int,
    error_for_all: ErrorCode,
    offsets: dict[TopicPartition, CommittedOffset],
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    """Return the part of the response for one topic, and add the offsets that the request commits for the
    topic to *offsets*.

    If *error_for_all* is an error, each partition gets this error, and no offsets are added.
    """
    name, unknown_topic = asked.name, ErrorCode.NONE
    if version >= _TOPIC_IDS:
        topic = node.cluster.topics.find_id(asked.topic_id)
        name, unknown_topic = (
            ("", ErrorCode.UNKNOWN_TOPIC_ID) if topic is None else (topic.name, ErrorCode.NONE)
        )
    partitions = []
    for one in asked.partitions:
        code = (
            error_for_all
            or unknown_topic
            or check_offset(node, name, one.partition_index, one.committed_metadata)
        )
        if not code:
            offsets[TopicPartition(name, one.partition_index)] = CommittedOffset(
                one.committed_offset,
                one.committed_leader_epoch,
                one.committed_metadata or "",
                one.commit_timestamp,
            )
        partitions.append(
            OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=code
            )
        )
    return OffsetCommitResponse.OffsetCommitResponseTopic(
        name=asked.name, topic_id=asked.topic_id, partitions=partitions
    )


def _with_timestamps(
    offsets: Mapping[TopicPartition, CommittedOffset], retention_time_ms: int, now_ms: int
) -> dict[TopicPartition, CommittedOffset]:
    """Return *offsets* with the times at which they were committed and at which they expire.

    The time of the commit is *now_ms*, unless the client has sent a time (version 1). An offset expires at a
    fixed time only if the client has sent a retention time (versions 2 to 4). If the client has not sent one,
    *retention_time_ms* is negative.
    """
    expire_timestamp = NO_TIMESTAMP if retention_time_ms < 0 else now_ms + retention_time_ms
    return {
        partition: each._replace(
            commit_timestamp=now_ms if each.commit_timestamp < 0 else each.commit_timestamp,
            expire_timestamp=expire_timestamp,
        )
        for partition, each in offsets.items()
    }
