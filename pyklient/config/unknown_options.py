"""Hints for an unknown option: its name in pyklient, what to do instead, or a similar name."""

from collections.abc import Iterable
from typing import Final

__all__ = ["advice", "did_you_mean", "nearest"]

_ALIKE: Final = 0.75
"""The smallest similarity at which a known name is suggested for an unknown one. With a smaller value, the
suggestion would be an option that only has the same ending, such as ``_timeout_ms``."""

_CLASSIC: Final = " (or choose a profile of from_properties, such as profile='0.8')"
_CLASSIC_0_7: Final = " (or choose the profile of from_properties: profile='0.7')"
_ELSEWHERE: Final = {
    "auto_commit_enable": "enable_auto_commit",
    "auto_commit_interval": "auto_commit_interval_ms",
    "batch_num_messages": "batch_size (in bytes)",
    "broker_list": f"bootstrap_servers, without the ids of the brokers{_CLASSIC_0_7}",
    "buffer_size": "buffer_memory",
    "compression": "compression_type",
    "compression_codec": "compression_type",
    "consumer_group": "group_id",
    "consumer_timeout": "consumer_timeout_ms",
    "fetch_error_backoff_ms": "retry_backoff_ms",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "group": "group_id",
    "hosts": "bootstrap_servers",
    "key_serializer": "key_encoder, of Producer",
    "max_batch_size": "batch_size",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": f"bootstrap_servers{_CLASSIC}",
    "partitioner_class": "partitioner, of Producer (a function)",
    "queue_buffering_max_kbytes": "buffer_memory (in bytes)",
    "queue_buffering_max_ms": "linger_ms",
    "queued_max_messages_kbytes": "prefetch_max_bytes (in bytes)",
    "refresh_leader_backoff_ms": "retry_backoff_ms",
    "request_required_acks": "acks",
    "required_acks": "acks",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_plain_password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "serializer_class": "value_encoder, of Producer",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "socket_timeout_ms": "request_timeout_ms",
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_cafile": "ssl_truststore_location",
    "ssl_certfile": "ssl_keystore_location",
    "ssl_certificate_location": "ssl_keystore_location",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm",
    "ssl_key_location": "ssl_keystore_location (one PEM file with certificates and key)",
    "ssl_keyfile": "ssl_keystore_location (one PEM file with certificates and key)",
    "ssl_password": "ssl_key_password",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    "value_serializer": "value_encoder, of Producer",
    "zk_connect": f"zookeeper{_CLASSIC_0_7}",
    "zookeeper_connect": f"zookeeper{_CLASSIC}",
}
"""The names of options in other clients, and the corresponding names in pyklient."""

_DECODERS: Final = "pass {} to create_message_streams(), stream() or read()"
_CALLBACK: Final = "pass on_delivery to send()"
_CLASSIC_GROUPS: Final = "groups use the classic protocol; KIP-848 is not supported yet"
_LEVEL: Final = "compression_type sets the compression; its level cannot be set"
_LOGGING: Final = "log messages go to the logger pyklient of Python's logging"
_MECHANISMS: Final = "PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are supported: see sasl_mechanism"
_METRICS: Final = "metrics are always on: call metrics() of the client"
_NONE_HERE: Final = {
    "api_version": "API versions are negotiated with each broker",
    "client_dns_lookup": "all addresses of a host name are tried",
    "compression_gzip_level": _LEVEL,
    "compression_level": _LEVEL,
    "compression_lz4_level": _LEVEL,
    "compression_zstd_level": _LEVEL,
    "debug": _LOGGING,
    "dr_cb": _CALLBACK,
    "error_cb": "the call that fails raises the error; failures that are tried again are in the log",
    "enable_auto_offset_store": "a commit includes a message once the loop asks for the next one",
    "enable_partition_eof": "read() stops at the end of the log; consumer_timeout_ms ends any loop",
    "group_protocol": _CLASSIC_GROUPS,
    "group_remote_assignor": _CLASSIC_GROUPS,
    "interceptor_classes": "interceptors are not supported",
    "key_decoder": _DECODERS.format("key_decoder"),
    "key_deserializer": _DECODERS.format("key_decoder"),
    "log_level": _LOGGING,
    "logger": _LOGGING,
    "max_poll_records": "pass max_records to batches() of a stream",
    "metric_group_prefix": _METRICS,
    "metric_reporters": _METRICS,
    "metrics_enabled": _METRICS,
    "metrics_num_samples": _METRICS,
    "metrics_recording_level": _METRICS,
    "metrics_sample_window_ms": _METRICS,
    "on_commit": "pass a callback to commit_offsets_async() of ConsumerConnector",
    "on_delivery": _CALLBACK,
    "queue": "memory is limited in bytes: see buffer_memory of Producer, prefetch_max_bytes of consumers",
    "queue_buffering_max_messages": "memory is limited in bytes: see buffer_memory",
    "queued_min_messages": "memory is limited in bytes: see prefetch_max_bytes",
    "rebalance_cb": "pass a listener to set_rebalance_listener() of ConsumerConnector",
    "sasl_jaas_config": "pass its user and password as sasl_username and sasl_password",
    "sasl_kerberos_service_name": _MECHANISMS,
    "sasl_oauth_token_provider": _MECHANISMS,
    "sasl_oauthbearer_config": _MECHANISMS,
    "sasl_oauthbearer_method": _MECHANISMS,
    "ssl_keystore_password": "pass the password of the key in a PEM file as ssl_key_password",
    "ssl_truststore_password": "a PEM file with authorities has no password",
    "statistics_interval_ms": _METRICS,
    "stats_cb": _METRICS,
    "topic": "pass it to send(), stream() or read()",
    "topics": "pass them to stream(), create_message_streams() or read()",
    "value_decoder": _DECODERS.format("value_decoder"),
    "value_deserializer": _DECODERS.format("value_decoder"),
    "zookeeper_sync_time_ms": "ZooKeeper is not asked again and again: it tells of changes",
}
"""Options of other clients that pyklient does not have, and what to do instead."""


def advice(name: str) -> str | None:
    """Return a text that says what to use instead of *name*, an option of another client, written with
    underscores. Return None if there is no advice for *name*."""
    if name in _ELSEWHERE:
        return f"pyklient calls it {_ELSEWHERE[name]}"
    return _NONE_HERE.get(name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name in *known* that is most similar to *name*. If none is similar, return a name that
    begins with *name*, or None if there is none."""
    import difflib

    names = list(known)
    found = difflib.get_close_matches(name, names, n=1, cutoff=_ALIKE)
    return next(iter([*found, *(each for each in names if each.startswith((f"{name}_", f"{name}.")))]), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the name in *known* that is most similar to the unknown *name*. The
    text ends an error message.

    The result is empty if no name in *known* is similar to *name* or begins with it.
    """
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
