"""The handler of ListOffsets, which finds the first and the last offset of a partition, and offsets by
time."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.log.offset_by_time import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
    first_since,
    newest_record,
    segment_offsets_before,
)
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError
from pyklient.protocol.messages import ListOffsetsRequest, ListOffsetsResponse

__all__ = ["list_offsets"]

_LEADER_EPOCHS = 4
_NOT_FOUND = OffsetAndTimestamp(-1, -1)


def list_offsets(
    node: NodeState, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse:
    """Return the offset that the request asks for in each partition. In version 0, return a list with the
    first offsets of several segments."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _partition(node, topic.name, asked, request.isolation_level, context.version)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(
    node: NodeState,
    topic: str,
    asked: ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
    isolation_level: int,
    version: int,
) -> ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse:
    response = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        partition = node.cluster.topics.partition(topic, asked.partition_index)
        if version == 0:
            response.old_style_offsets = segment_offsets_before(
                node.leader_log(partition).segments, asked.timestamp, asked.max_num_offsets, node.now_ms()
            )
            return response
        found = _find(
            node.leader_log(partition, asked.current_leader_epoch), asked.timestamp, isolation_level
        )
    except ApiError as error:
        response.error_code = error.code
    except KafkaError:
        response.error_code = ErrorCode.CORRUPT_MESSAGE
    else:
        response.offset, response.timestamp = found
        epochs = found.offset >= 0 and version >= _LEADER_EPOCHS
        response.leader_epoch = partition.leader_epoch if epochs else -1
    return response


def _find(log: PartitionLog, timestamp: int, isolation_level: int) -> OffsetAndTimestamp:
    if timestamp == LATEST:
        return OffsetAndTimestamp(log.watermarks.limit(isolation_level), -1)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return OffsetAndTimestamp(log.start_offset, -1)
    if timestamp == MAX_TIMESTAMP:
        return _readable(log, newest_record(log.segments), isolation_level)
    if timestamp == LATEST_TIERED:
        return _NOT_FOUND
    if timestamp < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"timestamp {timestamp} is not supported: a negative timestamp must be from -5 to -1, which "
            "have special meanings",
        )
    return _readable(log, first_since(log.segments, timestamp), isolation_level)


def _readable(
    log: PartitionLog, found: OffsetAndTimestamp | None, isolation_level: int
) -> OffsetAndTimestamp:
    """Return *found*. If a consumer with *isolation_level* cannot read the record yet, return the same result
    as if no record was found."""
    if found is None or found.offset >= log.watermarks.limit(isolation_level):
        return _NOT_FOUND
    return found
