"""Dialogues about topics: create, grow, delete, describe. Generators, played by ``net.dialogue``."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from pyklient.admin.descriptions import PartitionDescription, TopicDescription
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, KafkaError, KafkaTimeoutError, ProtocolError, broker_error
from pyklient.net.dialogue import ANY, CONTROLLER, Ask, Dialogue, Pause, Refresh, insist
from pyklient.net.metadata import TopicInfo
from pyklient.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from pyklient.protocol.schema import ApiMessage

__all__ = ["create_partitions", "create_topic", "delete_topic", "describe_topic", "list_topics"]

_log = logging.getLogger("pyklient.admin")

_LAST_WITH_NAMES: Final = 5
"""DeleteTopics 6 takes topics by id or name in another shape; every broker since 0.10.1 knows 5 or less."""
_TOPIC_RESOURCE: Final = 2
_SET_ON_THE_TOPIC: Final = 1
_PAUSE: Final = 0.1


def create_topic(
    name: str, partitions: int, replication_factor: int, config: Mapping[str, str], timeout_ms: int
) -> Dialogue[None]:
    """Create the topic and wait until each of its partitions has a leader."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in config.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
    yield from _controller_does(
        request,
        f"create topic {name}",
        lambda response: _first(response.topics),
        done_by_a_lost_request=ErrorCode.TOPIC_ALREADY_EXISTS,
    )
    yield from _until(name, lambda topic: _all_led(topic, max(partitions, 1)), "its leaders")


def create_partitions(name: str, total: int, timeout_ms: int) -> Dialogue[None]:
    """Grow the topic to *total* partitions and wait until each has a leader."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=False)
    yield from _controller_does(
        request,
        f"grow topic {name} to {total} partitions",
        lambda response: _first(response.results),
        done_by_a_lost_request=ErrorCode.INVALID_PARTITIONS,
    )
    yield from _until(name, lambda topic: _all_led(topic, total), "its leaders")


def delete_topic(name: str, timeout_ms: int) -> Dialogue[None]:
    """Delete the topic and wait until the brokers no longer show it."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms)
    yield from _controller_does(
        request,
        f"delete topic {name}",
        lambda response: _first(response.responses),
        max_version=_LAST_WITH_NAMES,
        done_by_a_lost_request=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    yield from _until(
        name, lambda topic: topic is None or topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "its end"
    )


def list_topics(internal: bool) -> Dialogue[list[str]]:
    """Names of all topics that may be seen, sorted."""
    metadata = yield Refresh(None)
    return sorted(name for name, topic in metadata.topics.items() if internal or not topic.internal)


def describe_topic(name: str) -> Dialogue[TopicDescription]:
    """Partitions from the metadata, settings from DescribeConfigs."""
    metadata = yield Refresh([name])
    topic = metadata.topics.get(name)
    if topic is None or topic.error:
        raise broker_error(
            topic.error if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"describe topic {name}"
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
    while True:
        response = yield from insist(Ask(ANY, DescribeConfigsRequest(resources=[resource])))
        result = _first(response.results)
        if not result.error_code:
            break
        refused = _refused(result, f"describe the settings of topic {name}")
        if not refused.retriable:
            raise refused
        yield Pause(because=refused)
    return {
        entry.name: entry.value
        for entry in sorted(result.configs, key=lambda entry: entry.name)
        if entry.config_source == _SET_ON_THE_TOPIC or (entry.config_source == -1 and not entry.is_default)
    }


def _controller_does(
    request: ApiMessage,
    what: str,
    result_of: Callable[[Any], Any],
    *,
    done_by_a_lost_request: int,
    max_version: int | None = None,
) -> Dialogue[None]:
    """Ask the controller, wherever it moves, until it has done *what* or refuses.

    Where the answer to an earlier attempt was lost, the error code *done_by_a_lost_request* means that
    attempt succeeded.
    """
    lost = moved = False
    while True:
        try:
            if moved:
                yield Refresh(())
            response = yield Ask(CONTROLLER, request, max_version=max_version)
        except KafkaError as error:
            if not error.retriable:
                raise
            _log.info("%s: %s; trying again", what, error)
            lost = moved = True
            yield Pause(because=error)
            continue
        result = result_of(response)
        if not result.error_code or (lost and result.error_code == done_by_a_lost_request):
            return
        refused = _refused(result, what)
        if not refused.retriable or refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise refused
        moved = True
        yield Pause(because=refused)


def _until(name: str, ready: Callable[[TopicInfo | None], bool], waiting_for: str) -> Dialogue[None]:
    not_yet = KafkaTimeoutError(f"topic {name}: still waiting for {waiting_for}")
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


def _first(results: Sequence[Any]) -> Any:
    """The one answer to a request about one thing."""
    if len(results) != 1:
        raise ProtocolError(f"asked about one thing, the broker answered about {len(results)}")
    return results[0]


def _refused(result: Any, what: str) -> BrokerError:
    """The error for *result*, with the broker's own words where it gives any (they name the culprit)."""
    said = getattr(result, "error_message", None)
    return broker_error(result.error_code, f"{what} (broker: {said})" if said else what)
