"""Settings of topics and of the broker, as an administrator reads them."""

from dataclasses import asdict
from typing import NamedTuple

from pyklient.broker.handlers.calls import Call
from pyklient.broker.node import Node
from pyklient.broker.refusal import Refusal
from pyklient.broker.topic_configs import topic_config_kinds
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

__all__ = ["describe_configs"]

_TOPIC, _BROKER = 2, 4
_FROM_TOPIC, _FROM_START, _FROM_DEFAULT = 1, 4, 5
_BOOLEAN_TYPE, _LONG_TYPE = 1, 5

# Kafka's names of what this broker can be told at its start.
_BROKER_NAMES = {
    "auto_create_topics": "auto.create.topics.enable",
    "connections_max_idle_ms": "connections.max.idle.ms",
    "fetch_max_bytes": "fetch.max.bytes",
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group_max_session_timeout_ms": "group.max.session.timeout.ms",
    "group_max_size": "group.max.size",
    "group_min_session_timeout_ms": "group.min.session.timeout.ms",
    "index_interval_bytes": "log.index.interval.bytes",
    "index_max_bytes": "log.index.size.max.bytes",
    "max_connections": "max.connections",
    "max_incremental_fetch_session_cache_slots": "max.incremental.fetch.session.cache.slots",
    "message_max_bytes": "message.max.bytes",
    "node_id": "node.id",
    "num_partitions": "num.partitions",
    "offset_metadata_max_bytes": "offset.metadata.max.bytes",
    "retention_bytes": "log.retention.bytes",
    "retention_check_interval_ms": "log.retention.check.interval.ms",
    "retention_ms": "log.retention.ms",
    "segment_bytes": "log.segment.bytes",
    "socket_request_max_bytes": "socket.request.max.bytes",
}


class _Setting(NamedTuple):
    name: str
    value: str
    source: int
    wire_type: int
    sentence: str
    read_only: bool


def describe_configs(node: Node, request: DescribeConfigsRequest, _: Call) -> DescribeConfigsResponse:
    """All settings of a topic or of this broker, or those asked for by name."""
    return DescribeConfigsResponse(
        results=[_describe(node, request, resource) for resource in request.resources]
    )


def _describe(
    node: Node, request: DescribeConfigsRequest, resource: DescribeConfigsRequest.DescribeConfigsResource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        settings = _settings(node, resource.resource_type, resource.resource_name)
    except Refusal as refusal:
        result.error_code, result.error_message = refusal.code, refusal.sentence
        return result
    wanted = resource.configuration_keys
    result.configs = [
        _row(setting, request) for setting in settings if wanted is None or setting.name in wanted
    ]
    return result


def _settings(node: Node, resource_type: int, name: str) -> list[_Setting]:
    if resource_type == _TOPIC:
        return _topic_settings(node, name)
    if resource_type == _BROKER:
        if name not in (str(node.node_id), ""):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"broker {name!r} is not this one ({node.node_id})")
        return _broker_settings(node) if name else []
    raise Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {resource_type} have no settings here")


def _topic_settings(node: Node, name: str) -> list[_Setting]:
    topic = node.topics.find(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return [
        _Setting(
            kind.name,
            topic.configs.get(kind.name, kind.default),
            _FROM_TOPIC if kind.name in topic.configs else _FROM_DEFAULT,
            kind.wire_type,
            kind.sentence,
            read_only=False,
        )
        for kind in topic_config_kinds(node.settings)
    ]


def _broker_settings(node: Node) -> list[_Setting]:
    values = asdict(node.settings)
    defaults = asdict(type(node.settings)())
    return [
        _Setting(
            name,
            str(values[ours]).lower(),
            _FROM_DEFAULT if values[ours] == defaults[ours] else _FROM_START,
            _BOOLEAN_TYPE if isinstance(values[ours], bool) else _LONG_TYPE,
            "",
            read_only=True,
        )
        for ours, name in _BROKER_NAMES.items()
    ]


def _row(
    setting: _Setting, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult:
    synonym = DescribeConfigsResponse.DescribeConfigsSynonym(
        name=setting.name, value=setting.value, source=setting.source
    )
    return DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.read_only,
        config_source=setting.source,
        is_sensitive=False,
        synonyms=[synonym] if request.include_synonyms else [],
        config_type=setting.wire_type,
        documentation=setting.sentence if request.include_documentation else None,
    )
