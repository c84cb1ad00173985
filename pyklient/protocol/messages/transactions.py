"""The requests and responses about the transactions of a producer, and about offsets that are committed in a
transaction.

InitProducerId is in ``produce``, because idempotent producers need it too.
"""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    message,
    since,
    struct,
    until,
)

__all__ = [
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
]


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest(ApiMessage):
    """Add partitions to a transaction before records are sent to them. Only brokers send version 4 and
    later."""

    @struct
    class AddPartitionsToTxnTransaction(Struct):
        @struct
        class AddPartitionsToTxnTopic(Struct):
            name: String = ""
            partitions: list[Int32] = EMPTY

        transactional_id: String = since(4)
        producer_id: Int64 = since(4)
        producer_epoch: Int16 = since(4)
        verify_only: Boolean = since(4)
        topics: list[AddPartitionsToTxnTopic] = since(4)

    AddPartitionsToTxnTopic = AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic

    transactions: list[AddPartitionsToTxnTransaction] = since(4)
    v3_and_below_transactional_id: String = until(3)
    v3_and_below_producer_id: Int64 = until(3)
    v3_and_below_producer_epoch: Int16 = until(3)
    v3_and_below_topics: list[AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic] = until(3)


@message(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse(ApiMessage):
    """The result of adding each partition to a transaction."""

    @struct
    class AddPartitionsToTxnResult(Struct):
        @struct
        class AddPartitionsToTxnTopicResult(Struct):
            @struct
            class AddPartitionsToTxnPartitionResult(Struct):
                partition_index: Int32 = 0
                partition_error_code: Int16 = 0

            name: String = ""
            results_by_partition: list[AddPartitionsToTxnPartitionResult] = EMPTY

        transactional_id: String = since(4)
        topic_results: list[AddPartitionsToTxnTopicResult] = since(4)

    AddPartitionsToTxnPartitionResult = (
        AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult.AddPartitionsToTxnPartitionResult
    )
    AddPartitionsToTxnTopicResult = AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult] = until(3)


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest(ApiMessage):
    """Add a group to a transaction, before offsets of the group are committed in the transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse(ApiMessage):
    """The result of adding the offsets of a group to a transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest(ApiMessage):
    """Commit or abort a transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Boolean = False


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnResponse(ApiMessage):
    """The result of ending a transaction. From version 5 on, it has the producer epoch for the next
    transaction (KIP-890)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest(ApiMessage):
    """Commit offsets of a group as part of a transaction."""

    @struct
    class TxnOffsetCommitRequestTopic(Struct):
        @struct
        class TxnOffsetCommitRequestPartition(Struct):
            partition_index: Int32 = 0
            committed_offset: Int64 = 0
            committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
            committed_metadata: String | None = ""

        name: String = ""
        partitions: list[TxnOffsetCommitRequestPartition] = EMPTY

    TxnOffsetCommitRequestPartition = TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = since(3, default=-1)
    member_id: String = since(3)
    group_instance_id: String | None = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = EMPTY


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse(ApiMessage):
    """The result of committing offsets in a transaction, for each partition."""

    @struct
    class TxnOffsetCommitResponseTopic(Struct):
        @struct
        class TxnOffsetCommitResponsePartition(Struct):
            partition_index: Int32 = 0
            error_code: Int16 = 0

        name: String = ""
        partitions: list[TxnOffsetCommitResponsePartition] = EMPTY

    TxnOffsetCommitResponsePartition = TxnOffsetCommitResponseTopic.TxnOffsetCommitResponsePartition

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = EMPTY


@message(key=27, versions=(0, 2), flexible=1)
class WriteTxnMarkersRequest(ApiMessage):
    """Write transaction markers, which end transactions, into partitions. Brokers send this request, and so
    do tools that end a hanging transaction (KIP-664)."""

    @struct
    class WritableTxnMarker(Struct):
        @struct
        class WritableTxnMarkerTopic(Struct):
            name: String = ""
            partition_indexes: list[Int32] = EMPTY

        producer_id: Int64 = 0
        producer_epoch: Int16 = 0
        transaction_result: Boolean = False
        topics: list[WritableTxnMarkerTopic] = EMPTY
        coordinator_epoch: Int32 = 0
        transaction_version: Int8 = since(2, ignorable=True)

    WritableTxnMarkerTopic = WritableTxnMarker.WritableTxnMarkerTopic

    markers: list[WritableTxnMarker] = EMPTY


@message(key=27, versions=(0, 2), flexible=1)
class WriteTxnMarkersResponse(ApiMessage):
    """The result of writing a transaction marker into each partition."""

    @struct
    class WritableTxnMarkerResult(Struct):
        @struct
        class WritableTxnMarkerTopicResult(Struct):
            @struct
            class WritableTxnMarkerPartitionResult(Struct):
                partition_index: Int32 = 0
                error_code: Int16 = 0

            name: String = ""
            partitions: list[WritableTxnMarkerPartitionResult] = EMPTY

        producer_id: Int64 = 0
        topics: list[WritableTxnMarkerTopicResult] = EMPTY

    WritableTxnMarkerTopicResult = WritableTxnMarkerResult.WritableTxnMarkerTopicResult
    WritableTxnMarkerPartitionResult = WritableTxnMarkerTopicResult.WritableTxnMarkerPartitionResult

    markers: list[WritableTxnMarkerResult] = EMPTY


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest(ApiMessage):
    """Ask the leaders of partitions for the producers that have written to them."""

    @struct
    class TopicRequest(Struct):
        name: String = ""
        partition_indexes: list[Int32] = EMPTY

    topics: list[TopicRequest] = EMPTY


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse(ApiMessage):
    """The idempotent and transactional producers of each partition. For each producer, the response has the
    offset at which its open transaction begins."""

    @struct
    class TopicResponse(Struct):
        @struct
        class PartitionResponse(Struct):
            @struct
            class ProducerState(Struct):
                producer_id: Int64 = 0
                producer_epoch: Int32 = 0
                last_sequence: Int32 = -1
                last_timestamp: Int64 = -1
                coordinator_epoch: Int32 = 0
                current_txn_start_offset: Int64 = -1

            partition_index: Int32 = 0
            error_code: Int16 = 0
            error_message: String | None = None
            active_producers: list[ProducerState] = EMPTY

        name: String = ""
        partitions: list[PartitionResponse] = EMPTY

    PartitionResponse = TopicResponse.PartitionResponse
    ProducerState = TopicResponse.PartitionResponse.ProducerState

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = EMPTY


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest(ApiMessage):
    """Ask a transaction coordinator for the state of transactional ids."""

    transactional_ids: list[String] = EMPTY


@message(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse(ApiMessage):
    """The state of each transactional id, and the partitions of its transaction. While a transaction is being
    ended, only partitions without a transaction marker are listed."""

    @struct
    class TransactionState(Struct):
        @struct
        class TopicData(Struct):
            topic: String = ""
            partitions: list[Int32] = EMPTY

        error_code: Int16 = 0
        transactional_id: String = ""
        transaction_state: String = ""
        transaction_timeout_ms: Int32 = 0
        transaction_start_time_ms: Int64 = 0
        producer_id: Int64 = 0
        producer_epoch: Int16 = 0
        topics: list[TopicData] = EMPTY

    TopicData = TransactionState.TopicData

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = EMPTY


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest(ApiMessage):
    """Ask a transaction coordinator for its transactional ids. Only those that match all filters are
    listed."""

    state_filters: list[String] = EMPTY
    producer_id_filters: list[Int64] = EMPTY
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: String | None = since(2, default=None)


@message(key=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse(ApiMessage):
    """The transactional ids of a transaction coordinator, with their producer ids and states."""

    @struct
    class TransactionState(Struct):
        transactional_id: String = ""
        producer_id: Int64 = 0
        transaction_state: String = ""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = EMPTY
    transaction_states: list[TransactionState] = EMPTY
