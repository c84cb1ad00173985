"""Making, growing and removing topics."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyklient.broker.api_errors import Refusal
from pyklient.broker.cluster.topic_configs import topic_config_kinds
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.node import Node
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
_TOPIC_SOURCE, _DEFAULT_SOURCE = 1, 5


class _Plan(NamedTuple):
    partitions: int
    configs: dict[str, str | None]


def create_topics(node: Node, request: CreateTopicsRequest, _: Call) -> CreateTopicsResponse:
    """Create each topic, or only say whether it could be."""
    named = Counter(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[
            _create(node, topic, validate_only=request.validate_only)
            if named[topic.name] == 1
            else CreateTopicsResponse.CreatableTopicResult(
                name=topic.name,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"topic {topic.name!r} is named more than once",
            )
            for topic in {topic.name: topic for topic in request.topics}.values()
        ]
    )


def _create(
    node: Node, asked: CreateTopicsRequest.CreatableTopic, *, validate_only: bool
) -> CreateTopicsResponse.CreatableTopicResult:
    result = CreateTopicsResponse.CreatableTopicResult(name=asked.name, error_message=None)
    try:
        plan = _plan(node, asked)
        if validate_only:
            checked = node.topics.check_new(asked.name, plan.partitions, plan.configs)
        else:
            topic = node.topics.create(asked.name, plan.partitions, plan.configs)
            result.topic_id, checked = topic.topic_id, topic.configs
    except Refusal as refusal:
        result.error_code, result.error_message = refusal.code, refusal.sentence
        return result
    result.num_partitions, result.replication_factor = plan.partitions, 1
    result.configs = [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=kind.name,
            value=checked.get(kind.name, kind.default),
            config_source=_TOPIC_SOURCE if kind.name in checked else _DEFAULT_SOURCE,
        )
        for kind in topic_config_kinds(node.settings)
    ]
    return result


def _plan(node: Node, asked: CreateTopicsRequest.CreatableTopic) -> _Plan:
    """Return how many partitions are wanted; raise Refusal for what one broker cannot give.

    A count of -1 asks for the broker's default. KIP-464 describes it from version 4 on, but every Kafka since
    2.4 takes it in every version, and clients rely on that.
    """
    configs = {config.name: config.value for config in asked.configs}
    if asked.assignments:
        if asked.num_partitions != _DEFAULT or asked.replication_factor != _DEFAULT:
            raise Refusal(ErrorCode.INVALID_REQUEST, "give either an assignment or counts, not both")
        indexes = sorted(one.partition_index for one in asked.assignments)
        if indexes != list(range(len(indexes))):
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "assigned partitions are not 0 to n without a gap"
            )
        for one in asked.assignments:
            _check_replicas(node, one.broker_ids)
        return _Plan(len(indexes), configs)
    if asked.replication_factor not in (1, _DEFAULT):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {asked.replication_factor}: there is one broker, so it is 1",
        )
    if asked.num_partitions == _DEFAULT:
        return _Plan(node.settings.num_partitions, configs)
    return _Plan(asked.num_partitions, configs)


def _check_replicas(node: Node, broker_ids: Sequence[int]) -> None:
    if list(broker_ids) != [node.node_id]:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas {list(broker_ids)}: the only broker is {node.node_id}",
        )


def delete_topics(node: Node, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    """Remove topics by name, or from version 6 on by name or id; their committed positions go too."""
    if call.version < _TOPIC_IDS:
        wanted = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]
    else:
        wanted = request.topics
    named = Counter((one.name, one.topic_id) for one in wanted)
    return DeleteTopicsResponse(
        responses=[
            _delete(node, one) if named[one.name, one.topic_id] == 1 else _named_twice(one)
            for one in {(one.name, one.topic_id): one for one in wanted}.values()
        ]
    )


def _named_twice(
    wanted: DeleteTopicsRequest.DeleteTopicState,
) -> DeleteTopicsResponse.DeletableTopicResult:
    return DeleteTopicsResponse.DeletableTopicResult(
        name=wanted.name,
        topic_id=wanted.topic_id,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="the request names this topic more than once",
    )


def _delete(
    node: Node, wanted: DeleteTopicsRequest.DeleteTopicState
) -> DeleteTopicsResponse.DeletableTopicResult:
    by_name = wanted.name is not None
    result = DeleteTopicsResponse.DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
    if by_name and wanted.topic_id != ZERO_UUID:
        result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, "give a name or an id, not both"
        return result
    topic = node.topics.find(wanted.name) if wanted.name is not None else node.topics.find_id(wanted.topic_id)
    if topic is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        result.error_message = "there is no such topic"
        return result
    node.topics.delete(topic)
    node.coordinator.offsets.delete_topic(topic.name)
    result.name, result.topic_id = topic.name, topic.topic_id
    return result


def create_partitions(node: Node, request: CreatePartitionsRequest, _: Call) -> CreatePartitionsResponse:
    """Give topics more partitions."""
    return CreatePartitionsResponse(
        results=[_grow(node, topic, validate_only=request.validate_only) for topic in request.topics]
    )


def _grow(
    node: Node, wanted: CreatePartitionsRequest.CreatePartitionsTopic, *, validate_only: bool
) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    try:
        for one in wanted.assignments or []:
            _check_replicas(node, one.broker_ids)
        node.topics.grow(wanted.name, wanted.count, validate_only=validate_only)
    except Refusal as refusal:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(
            name=wanted.name, error_code=refusal.code, error_message=refusal.sentence
        )
    return CreatePartitionsResponse.CreatePartitionsTopicResult(name=wanted.name)
