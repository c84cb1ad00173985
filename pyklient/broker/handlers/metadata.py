"""The handlers of Metadata and DescribeCluster, which return the nodes of the cluster, its topics, and the
leaders of their partitions."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.topics import Topic
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)
from pyklient.protocol.primitives import ZERO_UUID

__all__ = ["describe_cluster", "metadata"]

_BROKERS = 1
_NULLABLE_NAME = 12


def metadata(node: NodeState, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    """Describe the nodes of the cluster, and the topics that the request identifies by name or id.

    A missing topic is created if both the request and the broker's options allow it.
    """
    asked = request.topics
    if asked is None or (context.version == 0 and not asked):
        topics = [_description(topic) for topic in node.cluster.topics.all()]
    else:
        may_create = request.allow_auto_topic_creation and node.config.auto_create_topics
        topics = [_find(node, one, may_create) for one in asked]
        if context.version < _NULLABLE_NAME:
            for topic in topics:
                topic.name = topic.name or ""
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port)
            for each in node.cluster.nodes.values()
        ],
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller.node_id,
        topics=topics,
    )


def _find(
    node: NodeState, asked: MetadataRequest.MetadataRequestTopic, may_create: bool
) -> MetadataResponse.MetadataResponseTopic:
    topics = node.cluster.topics
    if asked.name is None:
        by_id = topics.find_id(asked.topic_id)
        if by_id is not None:
            return _description(by_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID if asked.topic_id != ZERO_UUID else ErrorCode.INVALID_REQUEST
        return MetadataResponse.MetadataResponseTopic(error_code=code, name=None, topic_id=asked.topic_id)
    topic = topics.find(asked.name)
    try:
        if topic is None:
            topics.check_name(asked.name)
        if topic is None and may_create:
            topic = node.controller.create_automatically(asked.name)
    except ApiError as error:
        return MetadataResponse.MetadataResponseTopic(error_code=error.code, name=asked.name)
    if topic is None:
        return MetadataResponse.MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=asked.name
        )
    return _description(topic)


def _description(topic: Topic) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponse.MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replica_ids,
                isr_nodes=partition.replica_ids,
            )
            for partition in topic.partitions
        ],
    )


def describe_cluster(
    node: NodeState, request: DescribeClusterRequest, _: RequestContext
) -> DescribeClusterResponse:
    """Describe the nodes of the cluster."""
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"endpoint type {request.endpoint_type} is not supported; only brokers (1) are",
            endpoint_type=request.endpoint_type,
            cluster_id=node.cluster.cluster_id,
        )
    return DescribeClusterResponse(
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller.node_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=each.node_id, host=each.host, port=each.port
            )
            for each in node.cluster.nodes.values()
        ],
    )
