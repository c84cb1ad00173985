"""The handlers of AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and WriteTxnMarkers.

InitProducerId, Produce and TxnOffsetCommit have their own modules.
"""

from typing import Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.handlers.fenced_code import fenced_code
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.log.partition_log import ProducerIdentity
from pyklient.broker.log.transaction_markers import TransactionMarker
from pyklient.broker.node_state import NodeState
from pyklient.broker.transactions.transaction import EPOCH_BUMP
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pyklient.topic_partition import TopicPartition

__all__ = ["add_offsets_to_txn", "add_partitions_to_txn", "end_txn", "write_txn_markers"]

_BATCHED: Final = 4
_ABORTABLE: Final = 5
_PRODUCER_FENCED: Final = 2
_IDENTITY_IN_RESPONSE: Final = 5

_Topics = list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic]
_TopicResults = list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult]


def add_partitions_to_txn(
    node: NodeState, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    """Add partitions to a transaction. From version 4 on, a request can name several transactions, or can
    only ask whether the partitions have been added. Brokers send these versions to each other."""
    if context.version < _BATCHED:
        results = _added(
            node,
            request.v3_and_below_transactional_id,
            ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            request.v3_and_below_topics,
            context.version,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=_added(
                    node,
                    each.transactional_id,
                    ProducerIdentity(each.producer_id, each.producer_epoch),
                    each.topics,
                    context.version,
                    verify_only=each.verify_only,
                ),
            )
            for each in request.transactions
        ]
    )


def _added(
    node: NodeState,
    transactional_id: str,
    producer: ProducerIdentity,
    topics: _Topics,
    version: int,
    *,
    verify_only: bool = False,
) -> _TopicResults:
    """Add the partitions in *topics* to one transaction, and return the part of the response for it. If a
    partition does not exist, no partition is added. If *verify_only* is true, only check that the partitions
    have been added.
    """
    partitions = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
    unknown = {each for each in partitions if not _exists(node, each)}
    codes = dict.fromkeys(partitions, ErrorCode.NONE)
    if unknown:
        codes = {
            each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if each in unknown
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for each in partitions
        }
    elif verify_only:
        codes = {each: _checked(node, transactional_id, producer, each, version) for each in partitions}
    else:
        try:
            node.transaction_coordinator_of(transactional_id).add_partitions(
                transactional_id,
                producer,
                set(partitions),
                EPOCH_BUMP if version >= _BATCHED else 0,
                node.now_ms(),
            )
        except ApiError as error:
            codes = dict.fromkeys(
                partitions, fenced_code(error.code, knows_fenced=version >= _PRODUCER_FENCED)
            )
    return [
        AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _exists(node: NodeState, partition: TopicPartition) -> bool:
    try:
        node.cluster.topics.partition(*partition)
    except ApiError:
        return False
    return True


def _checked(
    node: NodeState,
    transactional_id: str,
    producer: ProducerIdentity,
    partition: TopicPartition,
    version: int,
) -> ErrorCode:
    try:
        coordinator = node.transaction_coordinator_of(transactional_id)
        coordinator.check_partition(transactional_id, producer, partition)
    except ApiError as error:
        aborted = error.code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE
        return ErrorCode.INVALID_TXN_STATE if aborted else error.code
    return ErrorCode.NONE


def add_offsets_to_txn(
    node: NodeState, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    """Add a partition of ``__consumer_offsets`` to a transaction: the partition that stores the group."""
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id in the request is empty")
        partition = node.controller.group_partition(request.group_id)
        node.transaction_coordinator_of(request.transactional_id).add_partitions(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            {TopicPartition(OFFSETS_TOPIC, partition.index)},
            0,
            node.now_ms(),
        )
    except ApiError as error:
        return AddOffsetsToTxnResponse(
            error_code=fenced_code(error.code, knows_fenced=context.version >= _PRODUCER_FENCED)
        )
    return AddOffsetsToTxnResponse()


def end_txn(node: NodeState, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    """Commit or abort a transaction.

    From version 5 on, the producer uses transactions version 2, and the response has the producer id and
    epoch for the next transaction.
    """
    try:
        identity = node.transaction_coordinator_of(request.transactional_id).end(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            EPOCH_BUMP if context.version >= _IDENTITY_IN_RESPONSE else 0,
            node.now_ms(),
            commit=request.committed,
        )
    except ApiError as error:
        return EndTxnResponse(
            error_code=fenced_code(error.code, knows_fenced=context.version >= _PRODUCER_FENCED)
        )
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def write_txn_markers(
    node: NodeState, request: WriteTxnMarkersRequest, _: RequestContext
) -> WriteTxnMarkersResponse:
    """Write transaction markers into partitions that this node leads. Tools send this request to end a
    transaction that the transaction coordinator does not know (KIP-664)."""
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponse.WritableTxnMarkerResult(
                producer_id=each.producer_id,
                topics=[
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=_write(node, each, TopicPartition(topic.name, index)),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.markers
        ]
    )


def _write(
    node: NodeState, wanted: WriteTxnMarkersRequest.WritableTxnMarker, where: TopicPartition
) -> ErrorCode:
    marker = TransactionMarker(
        wanted.producer_id, wanted.producer_epoch, wanted.transaction_result, wanted.coordinator_epoch
    )
    try:
        node.leader_log(node.cluster.topics.partition(*where))
        node.controller.markers.write(where, marker, wanted.transaction_version, node.now_ms())
    except ApiError as error:
        return error.code
    return ErrorCode.NONE
