"""The handler of DescribeConfigs, which returns the settings of topics and of the broker."""

from dataclasses import asdict
from typing import NamedTuple

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.topic_configs import ConfigSource, ConfigType
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

__all__ = ["describe_configs"]

_TOPIC, _BROKER = 2, 4

# The options of this broker, under Kafka's names and with Kafka's types.
_OPTIONS = {
    "auto_create_topics": ("auto.create.topics.enable", ConfigType.BOOLEAN),
    "connections_max_idle_ms": ("connections.max.idle.ms", ConfigType.LONG),
    "fetch_max_bytes": ("fetch.max.bytes", ConfigType.INT),
    "group_initial_rebalance_delay_ms": ("group.initial.rebalance.delay.ms", ConfigType.INT),
    "group_max_session_timeout_ms": ("group.max.session.timeout.ms", ConfigType.INT),
    "group_max_size": ("group.max.size", ConfigType.INT),
    "group_min_session_timeout_ms": ("group.min.session.timeout.ms", ConfigType.INT),
    "index_interval_bytes": ("log.index.interval.bytes", ConfigType.INT),
    "index_max_bytes": ("log.index.size.max.bytes", ConfigType.INT),
    "max_connections": ("max.connections", ConfigType.INT),
    "max_incremental_fetch_session_cache_slots": (
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
    ),
    "message_max_bytes": ("message.max.bytes", ConfigType.INT),
    "node_id": ("node.id", ConfigType.INT),
    "num_partitions": ("num.partitions", ConfigType.INT),
    "offset_metadata_max_bytes": ("offset.metadata.max.bytes", ConfigType.INT),
    "retention_bytes": ("log.retention.bytes", ConfigType.LONG),
    "retention_check_interval_ms": ("log.retention.check.interval.ms", ConfigType.LONG),
    "retention_ms": ("log.retention.ms", ConfigType.LONG),
    "segment_bytes": ("log.segment.bytes", ConfigType.INT),
    "socket_request_max_bytes": ("socket.request.max.bytes", ConfigType.INT),
}

# Settings that Kafka has and this broker does not. Programs ask for them before they create topics.
_FIXED = (
    ("broker.rack", None, ConfigType.STRING),
    ("compression.type", "producer", ConfigType.STRING),
    ("default.replication.factor", "1", ConfigType.INT),
    ("delete.topic.enable", "true", ConfigType.BOOLEAN),
    ("inter.broker.listener.name", "PLAINTEXT", ConfigType.STRING),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT", ConfigType.STRING),
    ("log.cleanup.policy", "delete", ConfigType.LIST),
    ("log.message.timestamp.type", "CreateTime", ConfigType.STRING),
    ("min.insync.replicas", "1", ConfigType.INT),
    ("offsets.topic.replication.factor", "1", ConfigType.SHORT),
    ("security.inter.broker.protocol", "PLAINTEXT", ConfigType.STRING),
    ("unclean.leader.election.enable", "false", ConfigType.BOOLEAN),
)


class _Setting(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    sentence: str
    read_only: bool


def describe_configs(
    node: NodeState, request: DescribeConfigsRequest, _: RequestContext
) -> DescribeConfigsResponse:
    """Return the settings of each topic or broker that the request names. If the request lists settings for
    a topic or broker, return only these."""
    return DescribeConfigsResponse(
        results=[_describe(node, request, resource) for resource in request.resources]
    )


def _describe(
    node: NodeState, request: DescribeConfigsRequest, resource: DescribeConfigsRequest.DescribeConfigsResource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        settings = _settings(node, resource.resource_type, resource.resource_name)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    wanted = resource.configuration_keys
    result.configs = [_row(setting, request) for setting in settings if not wanted or setting.name in wanted]
    return result


def _settings(node: NodeState, resource_type: int, name: str) -> list[_Setting]:
    if resource_type == _TOPIC:
        return _topic_settings(node, name)
    if resource_type == _BROKER:
        if name not in (str(node.node_id), ""):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"the request asks for settings of broker {name!r}, but this is broker {node.node_id}",
            )
        return _broker_settings(node) if name else []
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"resource type {resource_type} is not supported; ask for topics (2) or brokers (4)",
    )


def _topic_settings(node: NodeState, name: str) -> list[_Setting]:
    topic = node.cluster.topics.find(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    return [
        _Setting(
            each.name,
            topic.configs.get(each.name, each.default),
            ConfigSource.TOPIC if each.name in topic.configs else ConfigSource.DEFAULT,
            each.type,
            each.sentence,
            read_only=False,
        )
        for each in node.cluster.topics.config_defs
    ]


def _broker_settings(node: NodeState) -> list[_Setting]:
    values = asdict(node.config)
    defaults = asdict(type(node.config)())
    rows: list[tuple[str, str | None, ConfigType, ConfigSource]] = [
        (
            name,
            str(values[option]).lower(),
            config_type,
            ConfigSource.DEFAULT if values[option] == defaults[option] else ConfigSource.STATIC_BROKER,
        )
        for option, (name, config_type) in _OPTIONS.items()
    ]
    rows += [(name, value, config_type, ConfigSource.DEFAULT) for name, value, config_type in _FIXED]
    rows += [
        (
            "advertised.listeners",
            f"PLAINTEXT://{node.endpoint.address}",
            ConfigType.LIST,
            ConfigSource.STATIC_BROKER,
        ),
        ("broker.id", str(node.node_id), ConfigType.INT, ConfigSource.STATIC_BROKER),
        ("listeners", f"PLAINTEXT://{node.listener.address}", ConfigType.LIST, ConfigSource.STATIC_BROKER),
        ("log.dirs", str(node.directory), ConfigType.LIST, ConfigSource.STATIC_BROKER),
    ]
    return [
        _Setting(name, value, source, config_type, "", read_only=True)
        for name, value, config_type, source in sorted(rows)
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
        config_type=setting.type,
        documentation=setting.sentence if request.include_documentation else None,
    )
