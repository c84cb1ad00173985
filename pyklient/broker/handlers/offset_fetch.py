"""The handler of OffsetFetch, which returns the offsets that groups have committed.

Version 0 of the request reads offsets from ZooKeeper. If the broker does not use ZooKeeper, version 0 is an
error, as in Kafka.
"""

import logging
from collections.abc import Awaitable, Mapping

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.handlers.zookeeper_offsets import zookeeper_error
from pyklient.broker.node_state import NodeState
from pyklient.broker.registration.zookeeper_offsets import read_offsets
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, NodeContentError
from pyklient.protocol.messages import OffsetFetchRequest, OffsetFetchResponse
from pyklient.topic_partition import TopicPartition, numbers_by_topic

__all__ = ["offset_fetch"]

log = logging.getLogger("pyklient.broker")

_ZOOKEEPER = 0
_TOPIC_IDS = 10
_SEVERAL_GROUPS = 8
_NO_OFFSET = CommittedOffset(-1, -1, "")


def offset_fetch(
    node: NodeState, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Return the offsets that a group has committed. From version 8 on, a request can name several groups.

    The offset of a partition is -1 if the group has not committed any offset for it.
    """
    if context.version == _ZOOKEEPER:
        return _from_zookeeper(node, request)
    if context.version < _SEVERAL_GROUPS:
        return _one_group(node, request)
    stable = request.require_stable
    return OffsetFetchResponse(
        groups=[_group(node, group, context.version, stable=stable) for group in request.groups]
    )


async def _from_zookeeper(node: NodeState, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Return the committed offsets that are in ZooKeeper. A partition without an offset gets the error
    UNKNOWN_TOPIC_OR_PARTITION, as in Kafka."""
    asked = [
        TopicPartition(topic.name, index)
        for topic in request.topics or ()
        for index in topic.partition_indexes
    ]
    registration, found = node.cluster.registration, dict[TopicPartition, int | NodeContentError]()
    error_for_all = zookeeper_error(node, request.group_id)
    if not error_for_all and registration is not None:
        known = [each for each in asked if node.cluster.topics.find(each.topic) is not None]
        try:
            found = await registration.play(read_offsets(request.group_id, known))
        except KafkaError as error:
            log.warning("the offsets of group %s were not read from ZooKeeper: %s", request.group_id, error)
            error_for_all = ErrorCode.UNKNOWN_SERVER_ERROR
    by_topic: dict[str, list[OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition]] = {}
    for partition in asked:
        by_topic.setdefault(partition.topic, []).append(
            _zookeeper_partition(partition.partition, found.get(partition), error_for_all)
        )
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ]
    )


def _zookeeper_partition(
    index: int, offset: int | NodeContentError | None, error_for_all: ErrorCode
) -> OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition:
    code = error_for_all
    if offset is None:
        code = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif isinstance(offset, NodeContentError):
        log.warning("a committed offset could not be read from ZooKeeper: %s", offset)
        code = code or ErrorCode.UNKNOWN_SERVER_ERROR
    return OffsetFetchResponse.OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=offset if isinstance(offset, int) and not code else -1,
        metadata="",
        error_code=code,
    )


def _one_group(node: NodeState, request: OffsetFetchRequest) -> OffsetFetchResponse:
    committed, error = _committed(node, request.group_id)
    unstable = _unstable(node, request.group_id, stable=request.require_stable and not error)
    wanted = (
        numbers_by_topic(committed)
        if request.topics is None
        else {topic.name: topic.partition_indexes for topic in request.topics}
    )
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=found.offset,
                        committed_leader_epoch=found.leader_epoch,
                        metadata=found.metadata,
                        error_code=error or code,
                    )
                    for index in indexes
                    for found, code in [_stable(committed, unstable, TopicPartition(name, index))]
                ],
            )
            for name, indexes in wanted.items()
        ],
        error_code=error,
    )


def _unstable(node: NodeState, group_id: str, *, stable: bool) -> set[TopicPartition]:
    """Return the partitions for which the group has committed offsets in transactions that have not ended
    yet. If *stable* is false, the client does not ask for stable offsets (KIP-447): return an empty set."""
    return node.group_coordinator.partitions.of_group(group_id).pending(group_id) if stable else set()


def _stable(
    committed: Mapping[TopicPartition, CommittedOffset],
    unstable: set[TopicPartition],
    partition: TopicPartition,
) -> tuple[CommittedOffset, ErrorCode]:
    """Return the committed offset of *partition*, and an error code. If *partition* is in *unstable*, the
    error code is UNSTABLE_OFFSET_COMMIT, and there is no offset."""
    if partition in unstable:
        return _NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT
    return committed.get(partition, _NO_OFFSET), ErrorCode.NONE


def _committed(node: NodeState, group_id: str) -> tuple[Mapping[TopicPartition, CommittedOffset], ErrorCode]:
    """Return the committed offsets of a group, and an error code. If this node cannot return them, return
    no offsets and the error; otherwise the error code is NONE."""
    try:
        return node.group_coordinator_of(group_id).committed(group_id), ErrorCode.NONE
    except ApiError as error:
        return {}, error.code


def _group(
    node: NodeState, group: OffsetFetchRequest.OffsetFetchRequestGroup, version: int, *, stable: bool
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    committed, group_error = _committed(node, group.group_id)
    if group_error:
        return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=group_error)
    unstable = _unstable(node, group.group_id, stable=stable)
    if group.topics is None:
        topics = [
            _topic(committed, unstable, name, topic.topic_id, indexes)
            for name, indexes in numbers_by_topic(committed).items()
            if (topic := node.cluster.topics.find(name)) is not None
        ]
    else:
        topics = []
        for asked in group.topics:
            name, error = asked.name, ErrorCode.NONE
            if version >= _TOPIC_IDS:
                by_id = node.cluster.topics.find_id(asked.topic_id)
                name, error = (
                    ("", ErrorCode.UNKNOWN_TOPIC_ID) if by_id is None else (by_id.name, ErrorCode.NONE)
                )
            topics.append(_topic(committed, unstable, name, asked.topic_id, asked.partition_indexes, error))
    return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _topic(
    committed: Mapping[TopicPartition, CommittedOffset],
    unstable: set[TopicPartition],
    name: str,
    topic_id: bytes,
    indexes: list[int],
    error: ErrorCode = ErrorCode.NONE,
) -> OffsetFetchResponse.OffsetFetchResponseGroup.OffsetFetchResponseTopics:
    return OffsetFetchResponse.OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponse.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=error or code,
            )
            for index in indexes
            for found, code in [_stable(committed, unstable, TopicPartition(name, index))]
        ],
    )
