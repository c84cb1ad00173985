"""The handlers of DescribeTransactions, ListTransactions and DescribeProducers (KIP-664)."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.linear_pattern import LinearPattern, PatternError
from pyklient.broker.node_state import NodeState
from pyklient.broker.transactions.states import TransactionState
from pyklient.broker.transactions.transaction import Transaction
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from pyklient.topic_partition import numbers_by_topic

__all__ = ["describe_producers", "describe_transactions", "list_transactions"]


def describe_transactions(
    node: NodeState, request: DescribeTransactionsRequest, _: RequestContext
) -> DescribeTransactionsResponse:
    """Describe the transactional ids that the request names. An id that is not known gets an error."""
    return DescribeTransactionsResponse(
        transaction_states=[_described(node, each) for each in request.transactional_ids]
    )


def _described(node: NodeState, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
    try:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id in the request is empty")
        found = node.transaction_coordinator_of(transactional_id).find(transactional_id)
        if found is None:
            raise ApiError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}"
            )
    except ApiError as error:
        return DescribeTransactionsResponse.TransactionState(
            error_code=error.code, transactional_id=transactional_id
        )
    return DescribeTransactionsResponse.TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic=topic, partitions=indexes)
            for topic, indexes in numbers_by_topic(sorted(found.partitions)).items()
        ],
    )


def list_transactions(
    node: NodeState, request: ListTransactionsRequest, _: RequestContext
) -> ListTransactionsResponse:
    """List the transactional ids that this node coordinates and that match all filters of the request.

    If not all of them are loaded yet, the response is an error.
    """
    known = {state.value for state in TransactionState}
    unknown = [state for state in request.state_filters if state not in known]
    coordinator = node.transaction_coordinator
    if coordinator.loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = LinearPattern(request.transactional_id_pattern or ".*")
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = node.now_ms()
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in coordinator.transactions
            if _matches(each, request, now_ms) and pattern.matches(each.transactional_id)
        ],
    )


def _matches(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and transaction.state not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    return request.duration_filter < 0 or now_ms - transaction.started_ms > request.duration_filter


def describe_producers(
    node: NodeState, request: DescribeProducersRequest, _: RequestContext
) -> DescribeProducersResponse:
    """Describe the producers of each partition, and where their open transactions begin."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[_producers(node, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _producers(
    node: NodeState, topic: str, index: int
) -> DescribeProducersResponse.TopicResponse.PartitionResponse:
    try:
        log = node.leader_log(node.cluster.topics.partition(topic, index))
    except ApiError as error:
        return DescribeProducersResponse.PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message
        )
    return DescribeProducersResponse.PartitionResponse(
        partition_index=index,
        active_producers=[
            DescribeProducersResponse.ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.batches[-1].last_sequence if each.batches else -1,
                last_timestamp=each.last_timestamp_ms,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.first_offset,
            )
            for each in log.producers.snapshot()
        ],
    )
