"""The requests and responses for creating, growing and deleting topics."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
    Int8,
    Int16,
    Int32,
    String,
    Struct,
    Uuid,
    always,
    message,
    since,
    struct,
    tagged,
    until,
)

__all__ = [
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
]


@message(key=19, versions=(0, 7), flexible=5)
class CreateTopicsRequest(ApiMessage):
    """Create topics. The request has for each topic the number of partitions, or a list of replicas for each
    partition."""

    @struct
    class CreatableTopic(Struct):
        @struct
        class CreatableReplicaAssignment(Struct):
            partition_index: Int32 = 0
            broker_ids: list[Int32] = EMPTY

        @struct
        class CreatableTopicConfig(Struct):
            name: String = ""
            value: String | None = ""

        name: String = ""
        num_partitions: Int32 = 0
        replication_factor: Int16 = 0
        assignments: list[CreatableReplicaAssignment] = EMPTY
        configs: list[CreatableTopicConfig] = EMPTY

    CreatableReplicaAssignment = CreatableTopic.CreatableReplicaAssignment
    CreatableTopicConfig = CreatableTopic.CreatableTopicConfig

    topics: list[CreatableTopic] = EMPTY
    timeout_ms: Int32 = 60000
    validate_only: Boolean = since(1)


@message(key=19, versions=(0, 7), flexible=5)
class CreateTopicsResponse(ApiMessage):
    """The result for each topic that was to be created; from version 5 on, with its partitions and
    settings."""

    @struct
    class CreatableTopicResult(Struct):
        @struct
        class CreatableTopicConfigs(Struct):
            name: String = since(5)
            value: String | None = since(5)
            read_only: Boolean = since(5)
            config_source: Int8 = since(5, default=-1, ignorable=True)
            is_sensitive: Boolean = since(5)

        name: String = ""
        topic_id: Uuid = since(7, ignorable=True)
        error_code: Int16 = 0
        error_message: String | None = since(1, ignorable=True)
        topic_config_error_code: Int16 = tagged(0, since=5, ignorable=True)
        num_partitions: Int32 = since(5, default=-1, ignorable=True)
        replication_factor: Int16 = since(5, default=-1, ignorable=True)
        configs: list[CreatableTopicConfigs] | None = since(5, ignorable=True)

    CreatableTopicConfigs = CreatableTopicResult.CreatableTopicConfigs

    throttle_time_ms: Int32 = since(2, ignorable=True)
    topics: list[CreatableTopicResult] = EMPTY


@message(key=20, versions=(0, 6), flexible=4)
class DeleteTopicsRequest(ApiMessage):
    """Delete topics by name; from version 6 on, by name or id."""

    @struct
    class DeleteTopicState(Struct):
        name: String | None = since(6, default=None)
        topic_id: Uuid = since(6)

    topics: list[DeleteTopicState] = since(6)
    topic_names: list[String] = until(5, ignorable=True)
    timeout_ms: Int32 = 0


@message(key=20, versions=(0, 6), flexible=4)
class DeleteTopicsResponse(ApiMessage):
    """The result for each topic that was to be deleted."""

    @struct
    class DeletableTopicResult(Struct):
        name: String | None = always(nullable_since=6)
        topic_id: Uuid = since(6, ignorable=True)
        error_code: Int16 = 0
        error_message: String | None = since(5, default=None, ignorable=True)

    throttle_time_ms: Int32 = since(1, ignorable=True)
    responses: list[DeletableTopicResult] = EMPTY


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest(ApiMessage):
    """Add partitions to topics, so that each has ``count`` partitions."""

    @struct
    class CreatePartitionsTopic(Struct):
        @struct
        class CreatePartitionsAssignment(Struct):
            broker_ids: list[Int32] = EMPTY

        name: String = ""
        count: Int32 = 0
        assignments: list[CreatePartitionsAssignment] | None = EMPTY

    CreatePartitionsAssignment = CreatePartitionsTopic.CreatePartitionsAssignment

    topics: list[CreatePartitionsTopic] = EMPTY
    timeout_ms: Int32 = 0
    validate_only: Boolean = False


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse(ApiMessage):
    """The result for each topic to which partitions were to be added."""

    @struct
    class CreatePartitionsTopicResult(Struct):
        name: String = ""
        error_code: Int16 = 0
        error_message: String | None = None

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = EMPTY
