"""Dialogues about topics: they create, extend, describe and delete topics."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from pyklient.admin.descriptions import PartitionDescription, TopicDescription
from pyklient.admin.requests import AdminRequest, ask, controller, node, only
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaTimeoutError, UnsupportedVersionError, broker_error
from pyklient.net.dialogue import ANY, Dialogue, Pause, Refresh
from pyklient.net.lookups.topic_partitions import partitions_of
from pyklient.net.metadata import TopicInfo
from pyklient.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from pyklient.topic_partition import TopicPartition

__all__ = [
    "create_partitions",
    "create_topic",
    "delete_topic",
    "describe_topic",
    "list_partitions",
    "list_topic_ids",
    "list_topics",
]

_log = logging.getLogger("pyklient.admin")

_LAST_WITH_NAMES: Final = 5
"""The last version of DeleteTopics in which a request has the names of topics and no topic ids. Every broker
since 0.10.1 supports this version or an older one."""
_TOPIC_RESOURCE: Final = 2
_SET_ON_THE_TOPIC: Final = 1
_PAUSE: Final = 0.1
_UNKNOWN_TOPIC_TRIES: Final = 4
_NO_SUCH_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
"""The error code for an unknown topic. It is not retried: a controller knows all topics, so waiting does not
help."""


def create_topic(
    name: str, partitions: int, replication_factor: int, config: Mapping[str, str], timeout_ms: int
) -> Dialogue[None]:
    """Create a topic and wait until each of its partitions has a leader."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in config.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
    order = AdminRequest(
        f"cannot create topic {name}",
        request,
        lambda response: only(response.topics),
        done_before=ErrorCode.TOPIC_ALREADY_EXISTS,
        final=_NO_SUCH_TOPIC,
    )
    yield from ask(order, controller())
    yield from _until(
        name, lambda topic: _all_led(topic, max(partitions, 1)), "the leaders of its partitions"
    )


def create_partitions(name: str, total: int, timeout_ms: int) -> Dialogue[None]:
    """Add partitions to a topic until it has *total* partitions, and wait until each partition has a
    leader."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=False)
    order = AdminRequest(
        f"cannot increase topic {name} to {counted(total, 'partition')}",
        request,
        lambda response: only(response.results),
        done_before=ErrorCode.INVALID_PARTITIONS,
        final=_NO_SUCH_TOPIC,
    )
    yield from ask(order, controller())
    yield from _until(name, lambda topic: _all_led(topic, total), "the leaders of its partitions")


def delete_topic(name: str, timeout_ms: int) -> Dialogue[None]:
    """Delete a topic and wait until the metadata no longer contains it."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms)
    order = AdminRequest(
        f"cannot delete topic {name}",
        request,
        lambda response: only(response.responses),
        max_version=_LAST_WITH_NAMES,
        done_before=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        final=_NO_SUCH_TOPIC,
    )
    yield from ask(order, controller())
    yield from _until(
        name,
        lambda topic: topic is None or topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "its deletion",
    )


def list_topics(internal: bool) -> Dialogue[list[str]]:
    """Return the names of all topics that this client may see, sorted. Internal topics are included only if
    *internal* is true."""
    metadata = yield Refresh(None)
    return sorted(name for name, topic in metadata.topics.items() if internal or not topic.internal)


def list_topic_ids() -> Dialogue[dict[str, str | None]]:
    """Return the names of all topics that this client may see, each with the topic's id. With brokers
    before 2.8, the ids are None."""
    metadata = yield Refresh(None)
    return {
        name: str(UUID(bytes=topic.id)) if any(topic.id) else None for name, topic in metadata.topics.items()
    }


def list_partitions(names: Collection[str], internal: bool) -> Dialogue[list[TopicPartition]]:
    """Return the partitions of the topics *names*, or of all topics if *names* is empty, sorted. In the
    second case, internal topics are included only if *internal* is true."""
    if names:
        return (yield from partitions_of(names, tries=_UNKNOWN_TOPIC_TRIES))
    metadata = yield Refresh(None)
    return [
        TopicPartition(name, number)
        for name, topic in sorted(metadata.topics.items())
        if internal or not topic.internal
        for number in sorted(topic.partitions)
    ]


def describe_topic(name: str) -> Dialogue[TopicDescription]:
    """Return the partitions of a topic and the settings that were given to the topic."""
    metadata = yield Refresh([name])
    topic = metadata.topics.get(name)
    if topic is None or topic.error:
        raise broker_error(
            topic.error if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"cannot describe topic {name}"
        )
    config = yield from _config_of(name)
    return TopicDescription(
        name=name,
        topic_id=UUID(bytes=topic.id) if any(topic.id) else None,
        internal=topic.internal,
        partitions=tuple(
            PartitionDescription(
                number, part.leader, part.leader_epoch, tuple(part.replicas), tuple(part.isr)
            )
            for number, part in sorted(topic.partitions.items())
        ),
        config=config,
    )


def _config_of(name: str) -> Dialogue[dict[str, str | None]]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
    )
    order = AdminRequest(
        f"cannot describe the settings of topic {name}",
        DescribeConfigsRequest(resources=[resource]),
        lambda response: only(response.results),
    )
    try:
        _, result = yield from ask(order, node(ANY))
    except UnsupportedVersionError as error:
        if error.retriable:
            raise
        _log.info("the settings of topic %s are left out of its description: %s", name, error)
        return {}
    return {
        entry.name: entry.value
        for entry in sorted(result.configs, key=lambda entry: entry.name)
        if entry.config_source == _SET_ON_THE_TOPIC or (entry.config_source == -1 and not entry.is_default)
    }


def _until(name: str, ready: Callable[[TopicInfo | None], bool], waiting_for: str) -> Dialogue[None]:
    """Ask for the metadata of topic *name* until *ready* returns True for it.

    *ready* gets None while the metadata does not contain the topic. *waiting_for* names what is still
    missing, for the error message if the time runs out.
    """
    not_yet = KafkaTimeoutError(f"topic {name} is not ready yet: still waiting for {waiting_for}")
    while True:
        metadata = yield Refresh([name])
        if ready(metadata.topics.get(name)):
            return
        yield Pause(_PAUSE, because=not_yet)


def _all_led(topic: TopicInfo | None, count: int) -> bool:
    return (
        topic is not None
        and not topic.error
        and len(topic.partitions) >= count
        and all(part.leader >= 0 for part in topic.partitions.values())
    )
