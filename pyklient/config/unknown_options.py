"""What to say of an option that is unknown: what other clients mean by it, or what it looks like."""

import difflib
from collections.abc import Iterable
from typing import Final

__all__ = ["advice", "did_you_mean", "nearest"]

_ALIKE: Final = 0.75
"""How much of two names must be the same. With less, options are suggested that have nothing in common but
an ending such as ``_timeout_ms``."""

_ELSEWHERE: Final = {
    "auto_commit_interval": "auto_commit_interval_ms",
    "batch_num_messages": "batch_size (in bytes)",
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
    "metadata_broker_list": "bootstrap_servers",
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
}
"""Options as other clients spell them, for the error that names ours."""

_DECODERS_GO: Final = "pass {} to create_message_streams(), stream() or read()"
_BROKERS: Final = "clients talk to brokers only, and groups are kept by them: see bootstrap_servers"
_CALLBACK: Final = "pass on_delivery to send()"
_CLASSIC_GROUPS: Final = "groups use the classic protocol; that of KIP-848 is not supported yet"
_LEVEL: Final = "compression_type chooses the codec; its level cannot be chosen"
_LOGGING: Final = "messages go to the loggers named pyklient, of Python's logging"
_MECHANISMS: Final = "PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are supported: see sasl_mechanism"
_NO_METRICS: Final = "there are no metrics and no statistics yet"
_NONE_HERE: Final = {
    "api_version": "versions are negotiated with each broker",
    "client_dns_lookup": "all addresses of a host name are tried",
    "client_rack": "reading from the nearest replica (KIP-392) is not supported yet",
    "compression_gzip_level": _LEVEL,
    "compression_level": _LEVEL,
    "compression_lz4_level": _LEVEL,
    "compression_zstd_level": _LEVEL,
    "debug": _LOGGING,
    "dr_cb": _CALLBACK,
    "enable_auto_offset_store": "a message counts for a commit when the next one is asked for",
    "enable_partition_eof": "read() ends at the end of the log, and consumer_timeout_ms ends a quiet loop",
    "group_protocol": _CLASSIC_GROUPS,
    "group_remote_assignor": _CLASSIC_GROUPS,
    "interceptor_classes": "interceptors are not supported",
    "key_decoder": _DECODERS_GO.format("key_decoder"),
    "key_deserializer": _DECODERS_GO.format("key_decoder"),
    "log_level": _LOGGING,
    "logger": _LOGGING,
    "max_poll_records": "pass max_records to batches() of a stream",
    "metric_group_prefix": _NO_METRICS,
    "metric_reporters": _NO_METRICS,
    "metrics_enabled": _NO_METRICS,
    "metrics_num_samples": _NO_METRICS,
    "metrics_recording_level": _NO_METRICS,
    "metrics_sample_window_ms": _NO_METRICS,
    "on_delivery": _CALLBACK,
    "queue": "memory is bounded in bytes, by buffer_memory of Producer, prefetch_max_bytes of the consumers",
    "queue_buffering_max_messages": "memory is bounded in bytes: buffer_memory",
    "queued_min_messages": "memory is bounded in bytes: prefetch_max_bytes",
    "rebalance_cb": "pass a listener to set_rebalance_listener() of ConsumerConnector",
    "sasl_jaas_config": "its user and password are the options sasl_username and sasl_password",
    "sasl_kerberos_service_name": _MECHANISMS,
    "sasl_oauth_token_provider": _MECHANISMS,
    "sasl_oauthbearer_config": _MECHANISMS,
    "sasl_oauthbearer_method": _MECHANISMS,
    "ssl_keystore_password": "the password of a PEM file's key is the option ssl_key_password",
    "ssl_truststore_password": "a PEM file of authorities has no password",
    "statistics_interval_ms": _NO_METRICS,
    "stats_cb": _NO_METRICS,
    "topic": "send(), stream() and read() take it",
    "topics": "stream(), create_message_streams() and read() take them",
    "transaction_timeout_ms": "transactions are not supported yet",
    "transactional_id": "transactions are not supported yet",
    "value_decoder": _DECODERS_GO.format("value_decoder"),
    "value_deserializer": _DECODERS_GO.format("value_decoder"),
    "zookeeper_connect": _BROKERS,
    "zookeeper_session_timeout_ms": _BROKERS,
}
"""What is no option here, with what to do instead."""


def advice(name: str) -> str | None:
    """What to do instead of the option *name* (with underscores); None where no other client has it."""
    if name in _ELSEWHERE:
        return f"pyklient calls it {_ELSEWHERE[name]}"
    return _NONE_HERE.get(name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of *known* that *name* may have been meant for: a misspelling, or the beginning of it. None
    where none looks like it."""
    names = list(known)
    found = difflib.get_close_matches(name, names, n=1, cutoff=_ALIKE)
    return next(iter([*found, *(each for each in names if each.startswith((f"{name}_", f"{name}.")))]), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about *name*, which is none of *known*: nothing where none looks like it."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
