"""First questions of a client: which versions, which brokers, which topics, who coordinates."""

from pyklient.broker.api_errors import Refusal
from pyklient.broker.cluster.topics import Topic
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from pyklient.protocol.primitives import ZERO_UUID

__all__ = ["describe_cluster", "find_coordinator", "metadata"]

_GROUP, _TRANSACTION = 0, 1
_BROKERS = 1
_NULLABLE_NAME = 12


def metadata(node: Node, request: MetadataRequest, call: Call) -> MetadataResponse:
    """Topics by name or id; a missing one is created where the request and the broker allow it."""
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        topics = [_described(node, topic) for name in node.topics.names if (topic := node.topics.find(name))]
    else:
        may_create = request.allow_auto_topic_creation and node.settings.auto_create_topics
        topics = [_answer_topic(node, one, may_create) for one in asked]
        if call.version < _NULLABLE_NAME:
            for answer in topics:
                answer.name = answer.name or ""
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
        ],
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        topics=topics,
    )


def _answer_topic(
    node: Node, asked: MetadataRequest.MetadataRequestTopic, may_create: bool
) -> MetadataResponse.MetadataResponseTopic:
    if asked.name is None:
        by_id = node.topics.find_id(asked.topic_id)
        if by_id is not None:
            return _described(node, by_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID if asked.topic_id != ZERO_UUID else ErrorCode.INVALID_REQUEST
        return MetadataResponse.MetadataResponseTopic(error_code=code, name=None, topic_id=asked.topic_id)
    topic = node.topics.find(asked.name)
    try:
        if topic is None:
            node.topics.check_name(asked.name)
        if topic is None and may_create:
            topic = node.topics.create(asked.name, node.settings.num_partitions, {})
    except Refusal as refusal:
        return MetadataResponse.MetadataResponseTopic(error_code=refusal.code, name=asked.name)
    if topic is None:
        return MetadataResponse.MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=asked.name
        )
    return _described(node, topic)


def _described(node: Node, topic: Topic) -> MetadataResponse.MetadataResponseTopic:
    here = [node.node_id]
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            MetadataResponse.MetadataResponsePartition(
                partition_index=index,
                leader_id=node.node_id,
                leader_epoch=0,
                replica_nodes=here,
                isr_nodes=here,
            )
            for index in range(len(topic.logs))
        ],
    )


def describe_cluster(node: Node, request: DescribeClusterRequest, _: Call) -> DescribeClusterResponse:
    """This broker, which is all of the cluster."""
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="only brokers can be described here",
            endpoint_type=request.endpoint_type,
            cluster_id=node.cluster_id,
        )
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port
            )
        ],
    )


def find_coordinator(node: Node, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    """This broker coordinates every group; transactions it has none."""
    keys = request.coordinator_keys if call.version >= 4 else [request.key]
    found = [_coordinator(node, key, request.key_type) for key in keys]
    if call.version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(node: Node, key: str, key_type: int) -> FindCoordinatorResponse.Coordinator:
    if key_type == _GROUP:
        return FindCoordinatorResponse.Coordinator(
            key=key, node_id=node.node_id, host=node.host, port=node.port
        )
    # Clients give up at once on this code, and try again for ever on most others.
    transaction = key_type == _TRANSACTION
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=-1,
        host="",
        port=-1,
        error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if transaction
        else ErrorCode.INVALID_REQUEST,
        error_message="this broker has no transactions" if transaction else "unknown kind of coordinator",
    )
