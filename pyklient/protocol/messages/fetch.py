"""The request and the response for reading records."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Int8,
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

__all__ = ["FetchRequest", "FetchResponse"]


@message(key=1, versions=(0, 18), flexible=12)
class FetchRequest(ApiMessage):
    """Ask a leader for records from given offsets on. The leader waits until it has ``min_bytes`` bytes of
    records, but not longer than ``max_wait_ms``.

    With a fetch session (KIP-227, from version 7 on), a request does not name unchanged partitions again.
    From version 13 on, topics have ids instead of names.
    """

    @struct
    class ReplicaState(Struct):
        replica_id: Int32 = since(15, default=-1)
        replica_epoch: Int64 = since(15, default=-1)

    @struct
    class FetchTopic(Struct):
        @struct
        class FetchPartition(Struct):
            partition: Int32 = 0
            current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
            fetch_offset: Int64 = 0
            last_fetched_epoch: Int32 = since(12, default=-1)
            log_start_offset: Int64 = since(5, default=-1, ignorable=True)
            partition_max_bytes: Int32 = 0
            replica_directory_id: Uuid = tagged(0, since=17, ignorable=True)
            high_watermark: Int64 = tagged(1, since=18, default=0x7FFFFFFFFFFFFFFF, ignorable=True)

        topic: String = until(12, ignorable=True)
        topic_id: Uuid = since(13, ignorable=True)
        partitions: list[FetchPartition] = EMPTY

    @struct
    class ForgottenTopic(Struct):
        topic: String = since(7, until=12, ignorable=True)
        topic_id: Uuid = since(13, ignorable=True)
        partitions: list[Int32] = since(7)

    FetchPartition = FetchTopic.FetchPartition

    cluster_id: String | None = tagged(0, since=12, default=None, ignorable=True)
    replica_id: Int32 = until(14, default=-1)
    replica_state: ReplicaState = tagged(1, since=15)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = since(3, default=0x7FFFFFFF, ignorable=True)
    isolation_level: Int8 = since(4, ignorable=True)
    session_id: Int32 = since(7, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: list[FetchTopic] = EMPTY
    forgotten_topics_data: list[ForgottenTopic] = since(7)
    rack_id: String = since(11, ignorable=True)


@message(key=1, versions=(0, 18), flexible=12)
class FetchResponse(ApiMessage):
    """Record bytes of each partition, as the broker stores them.

    The first batch may begin before the requested offset, and the last batch may be cut off.
    """

    @struct
    class FetchableTopicResponse(Struct):
        @struct
        class PartitionData(Struct):
            @struct
            class EpochEndOffset(Struct):
                epoch: Int32 = since(12, default=-1)
                end_offset: Int64 = since(12, default=-1)

            @struct
            class LeaderIdAndEpoch(Struct):
                leader_id: Int32 = since(12, default=-1)
                leader_epoch: Int32 = since(12, default=-1)

            @struct
            class SnapshotId(Struct):
                end_offset: Int64 = -1
                epoch: Int32 = -1

            @struct
            class AbortedTransaction(Struct):
                producer_id: Int64 = since(4)
                first_offset: Int64 = since(4)

            partition_index: Int32 = 0
            error_code: Int16 = 0
            high_watermark: Int64 = 0
            last_stable_offset: Int64 = since(4, default=-1, ignorable=True)
            log_start_offset: Int64 = since(5, default=-1, ignorable=True)
            diverging_epoch: EpochEndOffset = tagged(0, since=12)
            current_leader: LeaderIdAndEpoch = tagged(1, since=12)
            snapshot_id: SnapshotId = tagged(2, since=12)
            aborted_transactions: list[AbortedTransaction] | None = since(4, ignorable=True)
            preferred_read_replica: Int32 = since(11, default=-1)
            records: Records | None = None

        topic: String = until(12, ignorable=True)
        topic_id: Uuid = since(13, ignorable=True)
        partitions: list[PartitionData] = EMPTY

    @struct
    class NodeEndpoint(Struct):
        node_id: Int32 = since(16)
        host: String = since(16)
        port: Int32 = since(16)
        rack: String | None = since(16, default=None)

    EpochEndOffset = FetchableTopicResponse.PartitionData.EpochEndOffset
    LeaderIdAndEpoch = FetchableTopicResponse.PartitionData.LeaderIdAndEpoch
    SnapshotId = FetchableTopicResponse.PartitionData.SnapshotId
    AbortedTransaction = FetchableTopicResponse.PartitionData.AbortedTransaction
    PartitionData = FetchableTopicResponse.PartitionData

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = since(7, ignorable=True)
    session_id: Int32 = since(7)
    responses: list[FetchableTopicResponse] = EMPTY
    node_endpoints: list[NodeEndpoint] = tagged(0, since=16)
