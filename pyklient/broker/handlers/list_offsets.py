"""Offsets by time, and by leader epoch."""

from pyklient.broker.api_errors import Refusal
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.log.partition_log import PartitionLog, Stamped
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError
from pyklient.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

__all__ = ["list_offsets", "offset_for_leader_epoch"]

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_LEADER_EPOCHS = 4
_NOWHERE = Stamped(-1, -1)


def list_offsets(node: Node, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    """The offset at a time, or at one of the special times; version 0 gets several, by segment."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(node, topic.name, wanted, call.version) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    node: Node, topic: str, wanted: ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition, version: int
) -> ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse:
    answer = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        log = node.topics.partition(topic, wanted.partition_index)
        if version == 0:
            answer.old_style_offsets = log.offsets_before(
                wanted.timestamp, wanted.max_num_offsets, node.now_ms()
            )
            return answer
        if wanted.current_leader_epoch > 0:
            raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, "leader epochs end at 0 here")
        found = _find(log, wanted.timestamp)
    except Refusal as refusal:
        answer.error_code = refusal.code
    except KafkaError:
        answer.error_code = ErrorCode.CORRUPT_MESSAGE
    else:
        answer.offset, answer.timestamp = found
        answer.leader_epoch = 0 if found.offset >= 0 and version >= _LEADER_EPOCHS else -1
    return answer


def _find(log: PartitionLog, timestamp: int) -> Stamped:
    if timestamp == _LATEST:
        return Stamped(log.end_offset, -1)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return Stamped(log.start_offset, -1)
    if timestamp == _MAX_TIMESTAMP:
        return log.newest() or _NOWHERE
    if timestamp == _LATEST_TIERED:
        return _NOWHERE
    if timestamp < 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{timestamp} is no special time")
    return log.first_since(timestamp) or _NOWHERE


def offset_for_leader_epoch(
    node: Node, request: OffsetForLeaderEpochRequest, _: Call
) -> OffsetForLeaderEpochResponse:
    """Where an epoch ended: there is only epoch 0, and it ends at the end of the log."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_epoch_end(node, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _epoch_end(
    node: Node, topic: str, wanted: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset:
    answer = OffsetForLeaderEpochResponse.EpochEndOffset(
        partition=wanted.partition, leader_epoch=-1, end_offset=-1
    )
    try:
        log = node.topics.partition(topic, wanted.partition)
    except Refusal as refusal:
        answer.error_code = refusal.code
        return answer
    if wanted.current_leader_epoch > 0:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif wanted.leader_epoch == 0:
        answer.leader_epoch, answer.end_offset = 0, log.end_offset
    return answer
