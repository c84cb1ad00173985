"""The requests and responses about the cluster: brokers, topics, leaders, coordinators."""

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
    until,
)

__all__ = [
    "MetadataRequest",
    "MetadataResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
]


@message(key=3, versions=(0, 13), flexible=9)
class MetadataRequest(ApiMessage):
    """Ask for the brokers, and for some topics with their partitions.

    If ``topics`` is None, the response has all topics. In version 0 the empty list means all topics.
    """

    @struct
    class MetadataRequestTopic(Struct):
        topic_id: Uuid = since(10, ignorable=True)
        name: String | None = always(nullable_since=10)

    topics: list[MetadataRequestTopic] | None = always(nullable_since=1)
    allow_auto_topic_creation: Boolean = since(4, default=True)
    include_cluster_authorized_operations: Boolean = since(8, until=10)
    include_topic_authorized_operations: Boolean = since(8)


@message(key=3, versions=(0, 13), flexible=9)
class MetadataResponse(ApiMessage):
    """The brokers, the controller, and the topics, with the leader, the replicas and the in-sync replicas of
    each partition."""

    @struct
    class MetadataResponseBroker(Struct):
        node_id: Int32 = 0
        host: String = ""
        port: Int32 = 0
        rack: String | None = since(1, default=None, ignorable=True)

    @struct
    class MetadataResponseTopic(Struct):
        @struct
        class MetadataResponsePartition(Struct):
            error_code: Int16 = 0
            partition_index: Int32 = 0
            leader_id: Int32 = 0
            leader_epoch: Int32 = since(7, default=-1, ignorable=True)
            replica_nodes: list[Int32] = EMPTY
            isr_nodes: list[Int32] = EMPTY
            offline_replicas: list[Int32] = since(5, ignorable=True)

        error_code: Int16 = 0
        name: String | None = always(nullable_since=12)
        topic_id: Uuid = since(10, ignorable=True)
        is_internal: Boolean = since(1, ignorable=True)
        partitions: list[MetadataResponsePartition] = EMPTY
        topic_authorized_operations: Int32 = since(8, default=-0x80000000)

    MetadataResponsePartition = MetadataResponseTopic.MetadataResponsePartition

    throttle_time_ms: Int32 = since(3, ignorable=True)
    brokers: list[MetadataResponseBroker] = EMPTY
    cluster_id: String | None = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = EMPTY
    cluster_authorized_operations: Int32 = since(8, until=10, default=-0x80000000)
    error_code: Int16 = since(13, ignorable=True)


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest(ApiMessage):
    """Ask for the brokers (endpoint type 1) or the controllers (2) of the cluster (KIP-700, KIP-919)."""

    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Boolean = since(2)


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse(ApiMessage):
    """The id of the cluster, its controller and its nodes."""

    @struct
    class DescribeClusterBroker(Struct):
        broker_id: Int32 = 0
        host: String = ""
        port: Int32 = 0
        rack: String | None = None
        is_fenced: Boolean = since(2)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = EMPTY
    cluster_authorized_operations: Int32 = -0x80000000


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest(ApiMessage):
    """Ask for the coordinator of a group (key type 0) or of a transactional id (1); from version 4 on, of
    several groups or transactional ids."""

    key: String = until(3)
    key_type: Int8 = since(1)
    coordinator_keys: list[String] = since(4)


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse(ApiMessage):
    """The node of the coordinator; from version 4 on, a node for each key in the request."""

    @struct
    class Coordinator(Struct):
        key: String = since(4)
        node_id: Int32 = since(4)
        host: String = since(4)
        port: Int32 = since(4)
        error_code: Int16 = since(4)
        error_message: String | None = since(4, ignorable=True)

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = until(3)
    error_message: String | None = since(1, until=3, ignorable=True)
    node_id: Int32 = until(3)
    host: String = until(3)
    port: Int32 = until(3)
    coordinators: list[Coordinator] = since(4)
