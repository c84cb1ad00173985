"""The handler of Produce, which appends records to the logs of their partitions."""

import logging

from pyklient.broker.api_errors import ApiError, CloseConnection
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    ProduceRequest,
    ProduceResponse,
)

__all__ = ["produce"]

_logger = logging.getLogger("pyklient.broker")

_TOPIC_IDS = 13


def produce(node: NodeState, request: ProduceRequest, context: RequestContext) -> ProduceResponse:
    """Append the records of the request to the logs of their partitions.

    Each partition has one replica, so ``acks`` of 1 and -1 have the same effect. With ``acks=0`` there is no
    response, and a failure closes the connection, as in Kafka.
    """
    topics = []
    for data in request.topic_data:
        partitions = [
            _append(node, request, context, data.name, data.topic_id, one) for one in data.partition_data
        ]
        topics.append(
            ProduceResponse.TopicProduceResponse(
                name=data.name, topic_id=data.topic_id, partition_responses=partitions
            )
        )
        if request.acks == 0:
            _close_on_failure(data.name or data.topic_id.hex(), partitions)
    return ProduceResponse(responses=topics)


def _close_on_failure(
    topic: str, partitions: list[ProduceResponse.TopicProduceResponse.PartitionProduceResponse]
) -> None:
    for partition in partitions:
        if partition.error_code:
            raise CloseConnection(
                f"records with acks=0 were not stored in {topic}-{partition.index}: {partition.error_message}"
            )


def _append(
    node: NodeState,
    request: ProduceRequest,
    context: RequestContext,
    topic: str,
    topic_id: bytes,
    data: ProduceRequest.TopicProduceData.PartitionProduceData,
) -> ProduceResponse.TopicProduceResponse.PartitionProduceResponse:
    try:
        if request.acks not in (-1, 0, 1):
            raise ApiError(
                ErrorCode.INVALID_REQUIRED_ACKS,
                f"acks of a Produce request must be -1, 0 or 1, not {request.acks}",
            )
        if request.transactional_id is not None:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "this broker does not support transactions")
        topics = node.cluster.topics
        partition = (
            topics.partition_by_id(topic_id, data.index)
            if context.version >= _TOPIC_IDS
            else topics.partition(topic, data.index)
        )
        if partition.topic == OFFSETS_TOPIC:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"clients may not write to the internal topic {OFFSETS_TOPIC}",
            )
        log = node.leader_log(partition)
        result = log.append(data.records, version=context.version, now_ms=node.now_ms())
    except ApiError as error:
        return _failed(data.index, error.code, error.message)
    except OSError as error:
        _logger.error("cannot write to the log of %s-%d: %s", topic or topic_id.hex(), data.index, error)
        return _failed(
            data.index, ErrorCode.KAFKA_STORAGE_ERROR, f"the broker cannot write to the log: {error.strerror}"
        )
    return ProduceResponse.PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=log.start_offset,
    )


def _failed(
    index: int, code: ErrorCode, message: str
) -> ProduceResponse.TopicProduceResponse.PartitionProduceResponse:
    return ProduceResponse.PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, error_message=message
    )
