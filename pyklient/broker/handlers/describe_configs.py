"""Settings of topics and of the broker, as an administrator reads them."""

from dataclasses import asdict
from typing import NamedTuple

from pyklient.broker.api_errors import Refusal
from pyklient.broker.cluster.topic_configs import topic_config_kinds
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

__all__ = ["describe_configs"]

_TOPIC, _BROKER = 2, 4
_FROM_TOPIC, _FROM_START, _FROM_DEFAULT = 1, 4, 5
_BOOLEAN, _STRING, _INT, _SHORT, _LONG, _LIST = 1, 2, 3, 4, 5, 7

# Kafka's names and types of what this broker can be told at its start.
_FROM_SETTINGS = {
    "auto_create_topics": ("auto.create.topics.enable", _BOOLEAN),
    "connections_max_idle_ms": ("connections.max.idle.ms", _LONG),
    "fetch_max_bytes": ("fetch.max.bytes", _INT),
    "group_initial_rebalance_delay_ms": ("group.initial.rebalance.delay.ms", _INT),
    "group_max_session_timeout_ms": ("group.max.session.timeout.ms", _INT),
    "group_max_size": ("group.max.size", _INT),
    "group_min_session_timeout_ms": ("group.min.session.timeout.ms", _INT),
    "index_interval_bytes": ("log.index.interval.bytes", _INT),
    "index_max_bytes": ("log.index.size.max.bytes", _INT),
    "max_connections": ("max.connections", _INT),
    "max_incremental_fetch_session_cache_slots": ("max.incremental.fetch.session.cache.slots", _INT),
    "message_max_bytes": ("message.max.bytes", _INT),
    "node_id": ("node.id", _INT),
    "num_partitions": ("num.partitions", _INT),
    "offset_metadata_max_bytes": ("offset.metadata.max.bytes", _INT),
    "retention_bytes": ("log.retention.bytes", _LONG),
    "retention_check_interval_ms": ("log.retention.check.interval.ms", _LONG),
    "retention_ms": ("log.retention.ms", _LONG),
    "segment_bytes": ("log.segment.bytes", _INT),
    "socket_request_max_bytes": ("socket.request.max.bytes", _INT),
}

# What Kafka lets one choose and this broker does not; programs ask for it before they create topics.
_FIXED = (
    ("broker.rack", None, _STRING),
    ("compression.type", "producer", _STRING),
    ("default.replication.factor", "1", _INT),
    ("delete.topic.enable", "true", _BOOLEAN),
    ("inter.broker.listener.name", "PLAINTEXT", _STRING),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT", _STRING),
    ("log.cleanup.policy", "delete", _LIST),
    ("log.message.timestamp.type", "CreateTime", _STRING),
    ("min.insync.replicas", "1", _INT),
    ("offsets.topic.replication.factor", "1", _SHORT),
    ("security.inter.broker.protocol", "PLAINTEXT", _STRING),
    ("unclean.leader.election.enable", "false", _BOOLEAN),
)


class _Setting(NamedTuple):
    name: str
    value: str | None
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
    result.configs = [_row(setting, request) for setting in settings if not wanted or setting.name in wanted]
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
    told: list[tuple[str, str | None, int, int]] = [
        (
            name,
            str(values[ours]).lower(),
            wire_type,
            _FROM_DEFAULT if values[ours] == defaults[ours] else _FROM_START,
        )
        for ours, (name, wire_type) in _FROM_SETTINGS.items()
    ]
    told += [(name, value, wire_type, _FROM_DEFAULT) for name, value, wire_type in _FIXED]
    told += [
        ("advertised.listeners", f"PLAINTEXT://{node.address}", _LIST, _FROM_START),
        ("broker.id", str(node.node_id), _INT, _FROM_START),
        ("listeners", f"PLAINTEXT://{node.listen_address}", _LIST, _FROM_START),
        ("log.dirs", str(node.data_dir), _LIST, _FROM_START),
    ]
    return [
        _Setting(name, value, source, wire_type, "", read_only=True)
        for name, value, wire_type, source in sorted(told)
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
        synonyms=[synonym] if request.include_synonyms and setting.value is not None else [],
        config_type=setting.wire_type,
        documentation=setting.sentence if request.include_documentation else None,
    )
