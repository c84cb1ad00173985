"""What to say of an option that is unknown: what other clients mean by it, or what it looks like."""

import difflib
from collections.abc import Iterable
from typing import Final

__all__ = ["advice", "did_you_mean", "nearest"]

_ELSEWHERE: Final = {
    "auto_commit_interval": "auto_commit_interval_ms",
    "batch_num_messages": "batch_size (in bytes)",
    "buffer_size": "buffer_memory",
    "compression": "compression_type",
    "compression_codec": "compression_type",
    "consumer_group": "group_id",
    "consumer_timeout": "consumer_timeout_ms",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "group": "group_id",
    "hosts": "bootstrap_servers",
    "key_serializer": "key_encoder, of Producer",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "metadata_broker_list": "bootstrap_servers",
    "queue_buffering_max_kbytes": "buffer_memory (in bytes)",
    "queue_buffering_max_ms": "linger_ms",
    "queued_max_messages_kbytes": "prefetch_max_bytes (in bytes)",
    "required_acks": "acks",
    "sasl_plain_password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_cafile": "ssl_truststore_location",
    "ssl_certfile": "ssl_keystore_location",
    "ssl_certificate_location": "ssl_keystore_location",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm",
    "ssl_password": "ssl_key_password",
    "value_serializer": "value_encoder, of Producer",
}
"""Options as other clients spell them, for the error that names ours."""

_DECODERS_GO: Final = "pass {} to create_message_streams(), stream() or read()"
_NONE_HERE: Final = {
    "api_version": "versions are negotiated with each broker",
    "enable_auto_offset_store": "a message counts for a commit when the next one is asked for",
    "key_decoder": _DECODERS_GO.format("key_decoder"),
    "key_deserializer": _DECODERS_GO.format("key_decoder"),
    "max_poll_records": "pass max_records to batches() of a stream",
    "queue": "memory is bounded in bytes, by buffer_memory of Producer, prefetch_max_bytes of the consumers",
    "queue_buffering_max_messages": "memory is bounded in bytes: buffer_memory",
    "queued_min_messages": "memory is bounded in bytes: prefetch_max_bytes",
    "sasl_jaas_config": "its user and password are the options sasl_username and sasl_password",
    "ssl_keystore_password": "the password of a PEM file's key is the option ssl_key_password",
    "ssl_truststore_password": "a PEM file of authorities has no password",
    "topic": "send(), stream() and read() take it",
    "topics": "stream(), create_message_streams() and read() take them",
    "transactional_id": "transactions are not supported yet",
    "value_decoder": _DECODERS_GO.format("value_decoder"),
    "value_deserializer": _DECODERS_GO.format("value_decoder"),
}
"""What is no option here, with what to do instead."""


def advice(name: str) -> str | None:
    """What to do instead of the option *name* (with underscores); None where no other client has it."""
    if name in _ELSEWHERE:
        return f"pyklient calls it {_ELSEWHERE[name]}"
    return _NONE_HERE.get(name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of *known* that *name* may have been meant for; None where none looks like it."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about *name*, which is none of *known*: nothing where none looks like it."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
