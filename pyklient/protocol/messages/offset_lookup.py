"""The requests and responses for looking up offsets by timestamp and by leader epoch."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
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
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
]


@message(key=2, versions=(0, 11), flexible=6)
class ListOffsetsRequest(ApiMessage):
    """Ask for the first offset at or after a timestamp. The timestamp -1 means the end of the log, -2 its
    beginning."""

    @struct
    class ListOffsetsTopic(Struct):
        @struct
        class ListOffsetsPartition(Struct):
            partition_index: Int32 = 0
            current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
            timestamp: Int64 = 0
            max_num_offsets: Int32 = until(0, default=1)

        name: String = ""
        partitions: list[ListOffsetsPartition] = EMPTY

    ListOffsetsPartition = ListOffsetsTopic.ListOffsetsPartition

    replica_id: Int32 = 0
    isolation_level: Int8 = since(2)
    topics: list[ListOffsetsTopic] = EMPTY
    timeout_ms: Int32 = since(10, ignorable=True)


@message(key=2, versions=(0, 11), flexible=6)
class ListOffsetsResponse(ApiMessage):
    """The offset that was found in each partition. In version 0, the response lists the first offsets of
    segments instead, the newest first."""

    @struct
    class ListOffsetsTopicResponse(Struct):
        @struct
        class ListOffsetsPartitionResponse(Struct):
            partition_index: Int32 = 0
            error_code: Int16 = 0
            old_style_offsets: list[Int64] = until(0)
            timestamp: Int64 = since(1, default=-1)
            offset: Int64 = since(1, default=-1)
            leader_epoch: Int32 = since(4, default=-1)

        name: String = ""
        partitions: list[ListOffsetsPartitionResponse] = EMPTY

    ListOffsetsPartitionResponse = ListOffsetsTopicResponse.ListOffsetsPartitionResponse

    throttle_time_ms: Int32 = since(2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = EMPTY


@message(key=23, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest(ApiMessage):
    """Ask at which offset a leader epoch ends, to find out if the log was truncated (KIP-320)."""

    @struct
    class OffsetForLeaderTopic(Struct):
        @struct
        class OffsetForLeaderPartition(Struct):
            partition: Int32 = 0
            current_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
            leader_epoch: Int32 = 0

        topic: String = ""
        partitions: list[OffsetForLeaderPartition] = EMPTY

    OffsetForLeaderPartition = OffsetForLeaderTopic.OffsetForLeaderPartition

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = EMPTY


@message(key=23, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochResponse(ApiMessage):
    """The offset at which each leader epoch ends."""

    @struct
    class OffsetForLeaderTopicResult(Struct):
        @struct
        class EpochEndOffset(Struct):
            error_code: Int16 = 0
            partition: Int32 = 0
            leader_epoch: Int32 = since(1, default=-1, ignorable=True)
            end_offset: Int64 = -1

        topic: String = ""
        partitions: list[EpochEndOffset] = EMPTY

    EpochEndOffset = OffsetForLeaderTopicResult.EpochEndOffset

    throttle_time_ms: Int32 = since(2, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = EMPTY
