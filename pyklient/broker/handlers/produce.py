"""Taking records in."""

import logging

from pyklient.broker.api_errors import Hangup, Refusal
from pyklient.broker.cluster.topics import Topic
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

__all__ = ["init_producer_id", "produce"]

_logger = logging.getLogger("pyklient.broker")

_TOPIC_IDS = 13


def produce(node: Node, request: ProduceRequest, call: Call) -> ProduceResponse:
    """Append each partition's records. ``acks`` of 1 and -1 are the same here: there is one replica.

    With ``acks=0`` nobody reads the answer; a failure closes the connection (Hangup), as Kafka does.
    """
    topics = []
    for data in request.topic_data:
        topic = (
            node.topics.find_id(data.topic_id) if call.version >= _TOPIC_IDS else node.topics.find(data.name)
        )
        partitions = [_store(node, request, call, topic, one) for one in data.partition_data]
        topics.append(
            ProduceResponse.TopicProduceResponse(
                name=data.name, topic_id=data.topic_id, partition_responses=partitions
            )
        )
        if request.acks == 0:
            _hang_up_on_failure(data.name or data.topic_id.hex(), partitions)
    return ProduceResponse(responses=topics)


def _hang_up_on_failure(
    topic: str, partitions: list[ProduceResponse.TopicProduceResponse.PartitionProduceResponse]
) -> None:
    for partition in partitions:
        if partition.error_code:
            raise Hangup(
                f"records for {topic}-{partition.index} with acks=0 failed: {partition.error_message}"
            )


def _store(
    node: Node,
    request: ProduceRequest,
    call: Call,
    topic: Topic | None,
    data: ProduceRequest.TopicProduceData.PartitionProduceData,
) -> ProduceResponse.TopicProduceResponse.PartitionProduceResponse:
    try:
        if request.acks not in (-1, 0, 1):
            raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is -1, 0 or 1, not {request.acks}")
        if request.transactional_id is not None:
            raise Refusal(ErrorCode.INVALID_TXN_STATE, "this broker has no transactions")
        log = _log(topic, data.index, call.version)
        appended = log.append(data.records, version=call.version, now_ms=node.now_ms())
    except Refusal as refusal:
        return _failed(data.index, refusal.code, refusal.sentence)
    except OSError as error:
        _logger.error("cannot write to partition %d: %s", data.index, error)
        return _failed(
            data.index, ErrorCode.KAFKA_STORAGE_ERROR, f"the broker cannot write: {error.strerror}"
        )
    return ProduceResponse.PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=log.start_offset,
    )


def _log(topic: Topic | None, index: int, version: int) -> PartitionLog:
    if topic is None and version >= _TOPIC_IDS:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    if topic is None or not 0 <= index < len(topic.logs):
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no such topic, or no partition {index}"
        )
    return topic.logs[index]


def _failed(
    index: int, code: ErrorCode, sentence: str
) -> ProduceResponse.TopicProduceResponse.PartitionProduceResponse:
    return ProduceResponse.PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, error_message=sentence
    )


def init_producer_id(node: Node, request: InitProducerIdRequest, _: Call) -> InitProducerIdResponse:
    """A producer id for an idempotent producer: a new one every time, with epoch 0, as Kafka gives.

    A producer that failed takes the next epoch by itself (KIP-360); the partitions notice.
    """
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=node.new_producer_id(), producer_epoch=0)
