"""The handlers of CreateTopics, DeleteTopics and CreatePartitions."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.topic_configs import ConfigSource
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from pyklient.protocol.primitives import ZERO_UUID

__all__ = ["create_partitions", "create_topics", "delete_topics"]

_DEFAULT = -1
_TOPIC_IDS = 6


class _Plan(NamedTuple):
    partitions: int
    configs: dict[str, str | None]


def create_topics(node: NodeState, request: CreateTopicsRequest, _: RequestContext) -> CreateTopicsResponse:
    """Create topics. If the request has ``validate_only``, only check that they can be created."""
    named = Counter(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[
            _create(node, topic, validate_only=request.validate_only)
            if named[topic.name] == 1
            else CreateTopicsResponse.CreatableTopicResult(
                name=topic.name,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"the request names topic {topic.name!r} more than once",
            )
            for topic in {topic.name: topic for topic in request.topics}.values()
        ]
    )


def _create(
    node: NodeState, asked: CreateTopicsRequest.CreatableTopic, *, validate_only: bool
) -> CreateTopicsResponse.CreatableTopicResult:
    result = CreateTopicsResponse.CreatableTopicResult(name=asked.name, error_message=None)
    try:
        plan = _plan(node, asked)
        if validate_only:
            topic = node.cluster.topics.prepare(asked.name, plan.partitions, plan.configs)
        else:
            topic = node.controller.create_topic(asked.name, plan.partitions, plan.configs)
            result.topic_id = topic.topic_id
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    result.num_partitions, result.replication_factor = plan.partitions, 1
    result.configs = [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=name,
            value=value,
            config_source=ConfigSource.TOPIC if name in topic.configs else ConfigSource.DEFAULT,
        )
        for name, value in node.cluster.topics.config_values(topic).items()
    ]
    return result


def _plan(node: NodeState, asked: CreateTopicsRequest.CreatableTopic) -> _Plan:
    """Return the number of partitions and the settings of a topic to create.

    If the request has -1 as the number of partitions or replicas, this stands for the broker's default.
    KIP-464 allows -1 from version 4 on, but every Kafka since 2.4 accepts it in all versions, and clients
    rely on that. Raises ApiError if the request asks for replicas that this broker cannot have.
    """
    configs = {config.name: config.value for config in asked.configs}
    if asked.assignments:
        if asked.num_partitions != _DEFAULT or asked.replication_factor != _DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "a request with replica assignments must have num_partitions=-1 and replication_factor=-1",
            )
        indexes = sorted(one.partition_index for one in asked.assignments)
        if indexes != list(range(len(indexes))):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "the replica assignments must be for the partitions 0, 1, 2 and so on, without a gap",
            )
        for one in asked.assignments:
            _check_replicas(node, one.partition_index, one.broker_ids)
        return _Plan(len(indexes), configs)
    if asked.replication_factor not in (1, _DEFAULT):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {asked.replication_factor} is not supported; this broker keeps one "
            "replica, so ask for 1",
        )
    if asked.num_partitions == _DEFAULT:
        return _Plan(node.config.num_partitions, configs)
    return _Plan(asked.num_partitions, configs)


def _check_replicas(node: NodeState, index: int, broker_ids: Sequence[int]) -> None:
    possible = node.cluster.topics.replica_ids(index)
    if list(broker_ids) != possible:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partition {index} cannot have its replicas on brokers {list(broker_ids)}, only on {possible}",
        )


def delete_topics(
    node: NodeState, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    """Delete topics, and the offsets that groups have committed for their partitions.

    The request has the name of each topic or, from version 6 on, its topic id.
    """
    if context.version < _TOPIC_IDS:
        wanted = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]
    else:
        wanted = request.topics
    named = Counter((one.name, one.topic_id) for one in wanted)
    return DeleteTopicsResponse(
        responses=[
            _delete(node, one) if named[one.name, one.topic_id] == 1 else _duplicate(one)
            for one in {(one.name, one.topic_id): one for one in wanted}.values()
        ]
    )


def _duplicate(
    wanted: DeleteTopicsRequest.DeleteTopicState,
) -> DeleteTopicsResponse.DeletableTopicResult:
    return DeleteTopicsResponse.DeletableTopicResult(
        name=wanted.name,
        topic_id=wanted.topic_id,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="the request names this topic more than once",
    )


def _delete(
    node: NodeState, wanted: DeleteTopicsRequest.DeleteTopicState
) -> DeleteTopicsResponse.DeletableTopicResult:
    by_name = wanted.name is not None
    result = DeleteTopicsResponse.DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
    if by_name and wanted.topic_id != ZERO_UUID:
        result.error_code, result.error_message = (
            ErrorCode.INVALID_REQUEST,
            "the request has a topic's name and its id; give only one of them",
        )
        return result
    topics = node.cluster.topics
    topic = topics.find(wanted.name) if wanted.name is not None else topics.find_id(wanted.topic_id)
    if topic is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        result.error_message = "the topic does not exist"
        return result
    if topic.is_internal:
        result.error_code, result.error_message = (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the internal topic {topic.name} cannot be deleted, because the broker stores its state in it",
        )
        return result
    node.controller.delete_topic(topic)
    result.name, result.topic_id = topic.name, topic.topic_id
    return result


def create_partitions(
    node: NodeState, request: CreatePartitionsRequest, _: RequestContext
) -> CreatePartitionsResponse:
    """Add partitions to topics. If the request has ``validate_only``, only check that they can be added."""
    return CreatePartitionsResponse(
        results=[_grow(node, topic, validate_only=request.validate_only) for topic in request.topics]
    )


def _grow(
    node: NodeState, wanted: CreatePartitionsRequest.CreatePartitionsTopic, *, validate_only: bool
) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    try:
        topic = node.cluster.topics.find(wanted.name)
        if topic is not None and topic.is_internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"the internal topic {topic.name} cannot get more partitions, because the partition of each "
                "group or transactional id would change",
            )
        first = 0 if topic is None else len(topic.partitions)
        for index, one in enumerate(wanted.assignments or [], first):
            _check_replicas(node, index, one.broker_ids)
        if validate_only:
            node.cluster.topics.prepare_growth(wanted.name, wanted.count)
        else:
            node.controller.create_partitions(wanted.name, wanted.count)
    except ApiError as error:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(
            name=wanted.name, error_code=error.code, error_message=error.message
        )
    return CreatePartitionsResponse.CreatePartitionsTopicResult(name=wanted.name)
