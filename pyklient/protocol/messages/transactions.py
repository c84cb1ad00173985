"""The messages about the transactions of a producer, and about offsets that are committed in a
transaction."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
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
