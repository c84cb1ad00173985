"""The keyword arguments of the clients, for type checkers and editors.

Written from ``pyklient/config/…_options.py`` by ``python -m tests.docs.option_types``; a test compares them.
"""

import ssl
from collections.abc import Callable
from typing import Literal, TypedDict

from pyklient.config.producer_options import HasPartition
from pyklient.serialization import Encoder

__all__ = ["AdminOptions", "ClientOptions", "ConsumerOptions", "ProducerOptions", "ReadOptions"]


class ClientOptions(TypedDict, total=False):
    """What every client takes."""

    client_id: str
    """name that shows in the broker's logs, quotas and metrics"""

    request_timeout_ms: int
    """longest wait for one answer from a broker"""

    default_api_timeout_ms: int
    """longest wait for an operation of several requests"""

    retry_backoff_ms: int
    """first pause before something failed is tried again; doubles, with jitter"""

    retry_backoff_max_ms: int
    """longest such pause"""

    reconnect_backoff_ms: int
    """first pause before a broken connection is opened again; doubles, with jitter"""

    reconnect_backoff_max_ms: int
    """longest such pause"""

    socket_connection_setup_timeout_ms: int
    """longest wait for a connection, TLS and SASL included"""

    bootstrap_refused_timeout_ms: int
    """give up this early while every bootstrap server refuses connections, or has a host name that does not
    exist, and none has answered yet; -1 waits as long as the call may take (ours)"""

    connections_max_idle_ms: int
    """an unused connection is closed after this"""

    metadata_max_age_ms: int
    """what is known of the cluster is asked for again after this"""

    send_buffer_bytes: int
    """socket send buffer; -1 leaves it to the system"""

    receive_buffer_bytes: int
    """socket receive buffer; -1 leaves it to the system"""

    receive_message_max_bytes: int
    """largest response taken from a broker; a larger one closes the connection (ours)"""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """how connections are secured"""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    """SASL mechanism"""

    sasl_username: str | None
    """SASL user (ours; Kafka hides it in sasl.jaas.config)"""

    sasl_password: str | None
    """SASL password (ours; Kafka hides it in sasl.jaas.config)"""

    ssl_context: ssl.SSLContext | None
    """a ready TLS context instead of the ssl_ options below (ours)"""

    ssl_truststore_location: str | None
    """PEM file of the authorities trusted; none: the system's"""

    ssl_keystore_location: str | None
    """PEM file with this client's certificate chain and key"""

    ssl_key_password: str | None
    """password of the key in that file"""

    ssl_endpoint_identification_algorithm: Literal["https", ""]
    """https checks that the certificate names the host; empty does not"""


class AdminOptions(ClientOptions, total=False):
    """Options of Admin and SimpleConsumer: those of every client."""


class ProducerOptions(ClientOptions, total=False):
    """Options of Producer."""

    acks: Literal["all", -1, "-1", 0, "0", 1, "1"]
    """who has stored a record before it counts: all in-sync replicas, the leader (1), nobody asked (0)"""

    enable_idempotence: bool | None
    """retries neither double nor reorder; default: on, where acks is all and the broker can. Left to the
    default, retries=0 or max_in_flight_requests_per_connection above 5 turn it off, with a warning"""

    linger_ms: int
    """a batch waits this long for more records"""

    batch_size: int
    """bytes in one batch at most; grown as needed, never set aside"""

    buffer_memory: int
    """memory for records not yet confirmed, and for their batches; when full, send() blocks"""

    max_block_ms: int
    """longest block of send(), for memory or metadata"""

    metadata_max_idle_ms: int
    """a topic that nothing was sent to for this long is forgotten"""

    max_request_size: int
    """largest record or batch"""

    produce_max_bytes: int
    """largest request; it takes batches of as many partitions as fit, one at least (ours)"""

    compression_type: Literal["none", None, "gzip", "snappy", "lz4", "zstd"]
    """codec of the batches"""

    delivery_timeout_ms: int
    """a record not confirmed after this has failed"""

    retries: int
    """tries again after a failure that may pass, within delivery_timeout_ms"""

    max_in_flight_requests_per_connection: int
    """produce requests of a broker, and batches of a partition, that may be unanswered"""

    partitioner: Callable[[str, bytes | None, int], int] | HasPartition | None
    """(topic, key, partition_count) -> int; default: Java's murmur2 of the key, sticky without one (ours)"""

    key_encoder: Encoder | None
    """turns keys into bytes (ours)"""

    value_encoder: Encoder | None
    """turns values into bytes (ours)"""


class ReadOptions(ClientOptions, total=False):
    """Options of read()."""

    partition_assignment_strategy: Literal["range", "roundrobin"]
    """how the group deals its partitions"""

    session_timeout_ms: int
    """the group gives a silent member up after this"""

    heartbeat_interval_ms: int
    """pause between heartbeats"""

    rebalance_timeout_ms: int
    """longest wait for all members to join a rebalance (ours; Kafka uses max.poll.interval.ms)"""

    max_poll_interval_ms: int
    """a member whose loop takes no message for this long, though one waits, leaves the group"""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """read_committed hides aborted and open transactions"""

    fetch_min_bytes: int
    """a fetch waits for this much"""

    fetch_max_wait_ms: int
    """and for this long at most"""

    fetch_max_bytes: int
    """bytes in one fetch response"""

    max_partition_fetch_bytes: int
    """of which for one partition"""

    prefetch_max_bytes: int
    """bytes fetched but not yet read, over all partitions; when reached, fetching pauses (ours)"""

    check_crcs: bool
    """verify the checksum of what is read"""

    consumer_timeout_ms: int
    """iteration raises ConsumerTimeout after this long without a message; -1 waits for ever"""


class ConsumerOptions(ReadOptions, total=False):
    """Options of ConsumerConnector."""

    group_id: str | None
    """the group that shares the topics' partitions; none: all of them are read, nothing is committed"""

    group_instance_id: str | None
    """a name that survives restarts, so that a quick one causes no rebalance (KIP-345)"""

    auto_offset_reset: Literal["earliest", "latest", "none"]
    """where to start without a committed offset"""

    enable_auto_commit: bool
    """commit what was handed out, every auto_commit_interval_ms and on close"""

    auto_commit_interval_ms: int
    """pause between automatic commits"""
