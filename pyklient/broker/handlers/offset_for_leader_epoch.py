"""The handler of OffsetForLeaderEpoch, which returns the end offset of a leader epoch: the offset after its
last record."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

__all__ = ["offset_for_leader_epoch"]


def offset_for_leader_epoch(
    node: NodeState, request: OffsetForLeaderEpochRequest, _: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of a leader epoch, which is the offset after its last record.

    In this broker, leaders do not change, and all records belong to the current epoch. For any other epoch,
    the end offset in the response is -1.
    """
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(node, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(
    node: NodeState,
    topic: str,
    asked: OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition,
) -> OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset:
    response = OffsetForLeaderEpochResponse.EpochEndOffset(
        partition=asked.partition, leader_epoch=-1, end_offset=-1
    )
    try:
        partition = node.cluster.topics.partition(topic, asked.partition)
        log = node.leader_log(partition, asked.current_leader_epoch)
    except ApiError as error:
        response.error_code = error.code
        return response
    if asked.leader_epoch == partition.leader_epoch:
        response.leader_epoch, response.end_offset = partition.leader_epoch, log.end_offset
    return response
