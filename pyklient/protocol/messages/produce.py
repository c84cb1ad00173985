"""The requests and responses for storing records, and for producer ids, by which a broker recognizes
duplicates."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
    tagged,
    until,
)

__all__ = ["ProduceRequest", "ProduceResponse", "InitProducerIdRequest", "InitProducerIdResponse"]


@message(key=0, versions=(0, 13), flexible=9)
class ProduceRequest(ApiMessage):
    """Store batches of records. If ``acks`` is 0, there is no response."""

    @struct
    class TopicProduceData(Struct):
        @struct
        class PartitionProduceData(Struct):
            index: Int32 = 0
            records: Records | None = None

        name: String = until(12, ignorable=True)
        topic_id: Uuid = since(13, ignorable=True)
        partition_data: list[PartitionProduceData] = EMPTY

    PartitionProduceData = TopicProduceData.PartitionProduceData

    transactional_id: String | None = since(3, default=None)
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = EMPTY


@message(key=0, versions=(0, 13), flexible=9)
class ProduceResponse(ApiMessage):
    """The offset of the first stored record in each partition, or an error."""

    @struct
    class TopicProduceResponse(Struct):
        @struct
        class PartitionProduceResponse(Struct):
            @struct
            class BatchIndexAndErrorMessage(Struct):
                batch_index: Int32 = since(8)
                batch_index_error_message: String | None = since(8, default=None)

            @struct
            class LeaderIdAndEpoch(Struct):
                leader_id: Int32 = since(10, default=-1)
                leader_epoch: Int32 = since(10, default=-1)

            index: Int32 = 0
            error_code: Int16 = 0
            base_offset: Int64 = 0
            log_append_time_ms: Int64 = since(2, default=-1, ignorable=True)
            log_start_offset: Int64 = since(5, default=-1, ignorable=True)
            record_errors: list[BatchIndexAndErrorMessage] = since(8, ignorable=True)
            error_message: String | None = since(8, default=None, ignorable=True)
            current_leader: LeaderIdAndEpoch = tagged(0, since=10)

        name: String = until(12, ignorable=True)
        topic_id: Uuid = since(13, ignorable=True)
        partition_responses: list[PartitionProduceResponse] = EMPTY

    @struct
    class NodeEndpoint(Struct):
        node_id: Int32 = since(10)
        host: String = since(10)
        port: Int32 = since(10)
        rack: String | None = since(10, default=None)

    BatchIndexAndErrorMessage = TopicProduceResponse.PartitionProduceResponse.BatchIndexAndErrorMessage
    LeaderIdAndEpoch = TopicProduceResponse.PartitionProduceResponse.LeaderIdAndEpoch
    PartitionProduceResponse = TopicProduceResponse.PartitionProduceResponse

    responses: list[TopicProduceResponse] = EMPTY
    throttle_time_ms: Int32 = since(1, ignorable=True)
    node_endpoints: list[NodeEndpoint] = tagged(0, since=10)


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest(ApiMessage):
    """Ask for a new producer id. If the request has a transactional id, ask for the producer id of that
    transactional id, with a new producer epoch."""

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable2_pc: Boolean = since(6)
    keep_prepared_txn: Boolean = since(6)


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse(ApiMessage):
    """The producer id and producer epoch for the batches of a producer."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)
