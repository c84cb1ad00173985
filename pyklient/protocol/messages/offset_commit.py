"""The requests and responses about the committed offsets of groups."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
    until,
)

__all__ = ["OffsetCommitRequest", "OffsetCommitResponse", "OffsetFetchRequest", "OffsetFetchResponse"]


@message(key=8, versions=(0, 10), flexible=8)
class OffsetCommitRequest(ApiMessage):
    """Commit offsets of a group. Version 0 stores them in ZooKeeper, later versions in Kafka."""

    @struct
    class OffsetCommitRequestTopic(Struct):
        @struct
        class OffsetCommitRequestPartition(Struct):
            partition_index: Int32 = 0
            committed_offset: Int64 = 0
            committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
            commit_timestamp: Int64 = since(1, until=1, default=-1)
            committed_metadata: String | None = ""

        name: String = until(9, ignorable=True)
        topic_id: Uuid = since(10, ignorable=True)
        partitions: list[OffsetCommitRequestPartition] = EMPTY

    OffsetCommitRequestPartition = OffsetCommitRequestTopic.OffsetCommitRequestPartition

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = since(1, default=-1, ignorable=True)
    member_id: String = since(1, ignorable=True)
    group_instance_id: String | None = since(7, default=None)
    retention_time_ms: Int64 = since(2, until=4, default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = EMPTY


@message(key=8, versions=(0, 10), flexible=8)
class OffsetCommitResponse(ApiMessage):
    """The result of the commit for each partition."""

    @struct
    class OffsetCommitResponseTopic(Struct):
        @struct
        class OffsetCommitResponsePartition(Struct):
            partition_index: Int32 = 0
            error_code: Int16 = 0

        name: String = until(9, ignorable=True)
        topic_id: Uuid = since(10, ignorable=True)
        partitions: list[OffsetCommitResponsePartition] = EMPTY

    OffsetCommitResponsePartition = OffsetCommitResponseTopic.OffsetCommitResponsePartition

    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = EMPTY


@message(key=9, versions=(0, 10), flexible=6)
class OffsetFetchRequest(ApiMessage):
    """Ask for the committed offsets of a group; from version 8 on, of several groups.

    If the topics are None, the response has all partitions for which the group has committed offsets.
    """

    @struct
    class OffsetFetchRequestTopic(Struct):
        name: String = until(7)
        partition_indexes: list[Int32] = until(7)

    @struct
    class OffsetFetchRequestGroup(Struct):
        @struct
        class OffsetFetchRequestTopics(Struct):
            name: String = since(8, until=9, ignorable=True)
            topic_id: Uuid = since(10, ignorable=True)
            partition_indexes: list[Int32] = since(8)

        group_id: String = since(8)
        member_id: String | None = since(9, default=None, ignorable=True)
        member_epoch: Int32 = since(9, default=-1, ignorable=True)
        topics: list[OffsetFetchRequestTopics] | None = since(8)

    OffsetFetchRequestTopics = OffsetFetchRequestGroup.OffsetFetchRequestTopics

    group_id: String = until(7)
    topics: list[OffsetFetchRequestTopic] | None = until(7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = since(8)
    require_stable: Boolean = since(7)


@message(key=9, versions=(0, 10), flexible=6)
class OffsetFetchResponse(ApiMessage):
    """The committed offset of each partition, or -1 if the group has committed none."""

    @struct
    class OffsetFetchResponseTopic(Struct):
        @struct
        class OffsetFetchResponsePartition(Struct):
            partition_index: Int32 = until(7)
            committed_offset: Int64 = until(7)
            committed_leader_epoch: Int32 = since(5, until=7, default=-1, ignorable=True)
            metadata: String | None = until(7)
            error_code: Int16 = until(7)

        name: String = until(7)
        partitions: list[OffsetFetchResponsePartition] = until(7)

    @struct
    class OffsetFetchResponseGroup(Struct):
        @struct
        class OffsetFetchResponseTopics(Struct):
            @struct
            class OffsetFetchResponsePartitions(Struct):
                partition_index: Int32 = since(8)
                committed_offset: Int64 = since(8)
                committed_leader_epoch: Int32 = since(8, default=-1, ignorable=True)
                metadata: String | None = since(8)
                error_code: Int16 = since(8)

            name: String = since(8, until=9, ignorable=True)
            topic_id: Uuid = since(10, ignorable=True)
            partitions: list[OffsetFetchResponsePartitions] = since(8)

        group_id: String = since(8)
        topics: list[OffsetFetchResponseTopics] = since(8)
        error_code: Int16 = since(8)

    OffsetFetchResponsePartition = OffsetFetchResponseTopic.OffsetFetchResponsePartition
    OffsetFetchResponseTopics = OffsetFetchResponseGroup.OffsetFetchResponseTopics
    OffsetFetchResponsePartitions = OffsetFetchResponseTopics.OffsetFetchResponsePartitions

    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = until(7)
    error_code: Int16 = since(2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = since(8)
