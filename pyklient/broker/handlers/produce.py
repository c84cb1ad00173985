"""The handler of Produce, which appends records to the logs of their partitions."""

import logging

from pyklient.broker.api_errors import ApiError, CloseConnection
from pyklient.broker.cluster.topics import Partition
from pyklient.broker.handlers.fenced_code import fenced_code
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.log.partition_log import AppendResult, PartitionLog, ProducerIdentity
from pyklient.broker.node_state import NodeState
from pyklient.broker.transactions.transaction import EPOCH_BUMP
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.primitives import Buffer
from pyklient.topic_partition import TopicPartition

__all__ = ["produce"]

_logger = logging.getLogger("pyklient.broker")

_ABORTABLE = 11
_ADDS_PARTITIONS = 12
_TOPIC_IDS = 13
_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""The errors of the transaction coordinator after which the same Produce request may be sent again."""


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
        topics = node.cluster.topics
        partition = (
            topics.partition_by_id(topic_id, data.index)
            if context.version >= _TOPIC_IDS
            else topics.partition(topic, data.index)
        )
        found = topics.find(partition.topic)
        if found is not None and found.is_internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"clients may not write to the internal topic {partition.topic}",
            )
        log = node.leader_log(partition)
        result = _append_valid(node, request, partition, log, data.records, context.version)
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


def _append_valid(
    node: NodeState,
    request: ProduceRequest,
    partition: Partition,
    log: PartitionLog,
    records: Buffer | None,
    version: int,
) -> AppendResult:
    valid = log.validate(records, version=version)
    if valid.stored_as_is and valid.batches[0].is_transactional:
        producer = ProducerIdentity(valid.batches[0].producer_id, valid.batches[0].producer_epoch)
        if request.transactional_id is None:
            raise ApiError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "the request has records of a transaction, but no transactional id",
            )
        if not log.producers.has_open_transaction(*producer):
            where = TopicPartition(partition.topic, partition.index)
            _begin_in_partition(node, request.transactional_id, producer, where, version)
    return log.append_valid(valid, now_ms=node.now_ms())


def _begin_in_partition(
    node: NodeState, transactional_id: str, producer: ProducerIdentity, where: TopicPartition, version: int
) -> None:
    """Make sure that the partition *where* belongs to the transaction of *producer*, so that the transaction
    coordinator will write a transaction marker into it (KIP-890).

    From version 12 of Produce on, the request itself adds the partition. Before version 12, the producer must
    have added it with AddPartitionsToTxn. Raises ApiError if the partition does not belong to the
    transaction.
    """
    try:
        coordinator = node.controller.transaction_coordinator_of(transactional_id)
        if version >= _ADDS_PARTITIONS:
            coordinator.add_partitions(transactional_id, producer, {where}, EPOCH_BUMP, node.now_ms())
        else:
            coordinator.check_partition(transactional_id, producer, where)
    except ApiError as error:
        code = fenced_code(error.code)
        if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE:
            code = ErrorCode.INVALID_TXN_STATE
        if code in _NOT_READY and version < _ADDS_PARTITIONS:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        raise ApiError(code, error.message) from None


def _failed(
    index: int, code: ErrorCode, message: str
) -> ProduceResponse.TopicProduceResponse.PartitionProduceResponse:
    return ProduceResponse.PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, error_message=message
    )
