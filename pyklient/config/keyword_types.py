"""The keyword arguments of the clients, for type checkers and editors.

Written from ``pyklient/config/…_options.py`` by ``python -m tools.docs.option_types``; a test compares them.
"""

import ssl
from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

from pyklient.assignor import Assignor
from pyklient.config.producer_options import HasPartition
from pyklient.serialization import Encoder

__all__ = ["AdminOptions", "ClientOptions", "ConsumerOptions", "ProducerOptions", "ReadOptions"]


class ClientOptions(TypedDict, total=False):
    """Options of every client."""

    zookeeper: str | None
    """address of ZooKeeper (host:port[,host:port]/chroot), for clusters that use it; the client finds the
    brokers there, and needs no bootstrap_servers (only in pyklient; Kafka's old clients call it
    zookeeper.connect)"""

    client_id: str
    """name that the broker shows in its logs, quotas and metrics"""

    request_timeout_ms: int
    """longest wait for one response from a broker"""

    default_api_timeout_ms: int
    """longest time for a call that may need several requests"""

    retry_backoff_ms: int
    """first pause before a retry; each further pause is twice as long, with jitter"""

    retry_backoff_max_ms: int
    """longest pause before a retry"""

    reconnect_backoff_ms: int
    """first pause before a broken connection is opened again; each further pause is twice as long, with
    jitter"""

    reconnect_backoff_max_ms: int
    """longest pause before a broken connection is opened again"""

    socket_connection_setup_timeout_ms: int
    """longest time to open a connection, including TLS and SASL"""

    bootstrap_refused_timeout_ms: int
    """give up after this time if every bootstrap server refuses connections or has a host name that does not
    exist, and none has answered yet; with -1, only the call's own time-out ends the wait (only in
    pyklient)"""

    connections_max_idle_ms: int
    """close a connection that was not used for this long"""

    metadata_max_age_ms: int
    """ask for the metadata of the cluster again after this time"""

    send_buffer_bytes: int
    """size of the socket's send buffer; -1 uses the system's default"""

    receive_buffer_bytes: int
    """size of the socket's receive buffer; -1 uses the system's default"""

    receive_message_max_bytes: int
    """largest response that the client accepts; a larger one closes the connection (only in pyklient)"""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """protocol that secures the connections"""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    """mechanism of the SASL login"""

    sasl_username: str | None
    """SASL user name (only in pyklient; Kafka puts it into sasl.jaas.config)"""

    sasl_password: str | None
    """SASL password (only in pyklient; Kafka puts it into sasl.jaas.config)"""

    zookeeper_session_timeout_ms: int
    """ZooKeeper ends the session of a client that shows no sign of life for this long"""

    zookeeper_connection_timeout_ms: int
    """longest wait for a connection to ZooKeeper, within the time of the call"""

    zookeeper_username: str | None
    """user name for ZooKeeper's authentication scheme digest (only in pyklient)"""

    zookeeper_password: str | None
    """password for ZooKeeper's authentication scheme digest (only in pyklient)"""

    zookeeper_set_acl: bool
    """allow only zookeeper_username to change the nodes that the client creates in ZooKeeper"""

    zookeeper_ssl_client_enable: bool
    """use TLS for the connection to ZooKeeper"""

    zookeeper_ssl_truststore_location: str | None
    """PEM file with the certificate authorities that are trusted for ZooKeeper; without it, those of the
    system are trusted"""

    zookeeper_ssl_keystore_location: str | None
    """PEM file with this client's certificate chain and key for ZooKeeper"""

    zookeeper_ssl_keystore_password: str | None
    """password of the key in zookeeper_ssl_keystore_location"""

    zookeeper_ssl_endpoint_identification_algorithm: Literal["https", ""]
    """https checks that ZooKeeper's certificate names the host; an empty text turns the check off"""

    ssl_context: ssl.SSLContext | None
    """a complete TLS context, instead of the other ssl_ options (only in pyklient)"""

    ssl_truststore_location: str | None
    """PEM file with the trusted certificate authorities; without it, those of the system are trusted"""

    ssl_keystore_location: str | None
    """PEM file with this client's certificate chain and key"""

    ssl_key_password: str | None
    """password of the key in ssl_keystore_location"""

    ssl_endpoint_identification_algorithm: Literal["https", ""]
    """https checks that the certificate names the host; an empty text turns the check off"""


class AdminOptions(ClientOptions, total=False):
    """Options of Admin and of SimpleConsumer."""


class ProducerOptions(ClientOptions, total=False):
    """Options of Producer."""

    acks: Literal["all", -1, "-1", 0, "0", 1, "1"]
    """brokers that must store a record before it counts as delivered: all in-sync replicas (all), only the
    leader (1), or none (0)"""

    enable_idempotence: bool | None
    """prevent retries from duplicating or reordering records; if this option is not set, idempotence is on if
    acks is all and the broker supports it; retries=0 or max_in_flight_requests_per_connection above 5 then
    turns it off, with a warning"""

    linger_ms: int
    """time that a batch waits for more records"""

    batch_size: int
    """size in bytes up to which records are added to a batch; a larger record is a batch of its own"""

    buffer_memory: int
    """memory in bytes for unconfirmed records and their batches; send() blocks while it is used up"""

    max_block_ms: int
    """longest time that send() blocks, for memory or metadata"""

    metadata_max_idle_ms: int
    """forget a topic to which nothing was sent for this long"""

    max_request_size: int
    """largest size in bytes of a record, and of a batch; send() refuses a larger record"""

    produce_max_bytes: int
    """largest size of a produce request in bytes; it contains the batches of as many partitions as fit, and
    at least one batch (only in pyklient)"""

    compression_type: Literal["none", None, "gzip", "snappy", "lz4", "zstd"]
    """compression of the batches"""

    delivery_timeout_ms: int
    """a record fails if it is not confirmed within this time"""

    retries: int
    """largest number of retries after retriable failures, within delivery_timeout_ms"""

    max_in_flight_requests_per_connection: int
    """largest number of produce requests in flight to one broker; also the largest number of batches in
    flight to one partition"""

    partitioner: Callable[[str, bytes | None, int], int] | HasPartition | None
    """function (topic, key, partition_count) -> int. By default, murmur2 of the key decides, as in Java's
    client. Records without a key go to one partition until its batch is sent, and then to another (only in
    pyklient)"""

    key_encoder: Encoder | None
    """function that turns keys into bytes (only in pyklient)"""

    value_encoder: Encoder | None
    """function that turns values into bytes (only in pyklient)"""


class ReadOptions(ClientOptions, total=False):
    """Options of read()."""

    partition_assignment_strategy: str | Assignor | Sequence[str | Assignor]
    """assignor by which the group assigns partitions to its members, or a list of assignors in order of
    preference: range, roundrobin, sticky, cooperative-sticky, or an object of a subclass of
    pyklient.Assignor; the group uses an assignor that all members have. Groups that ZooKeeper coordinates
    have range and roundrobin only"""

    session_timeout_ms: int
    """the group removes a member that sends no heartbeat for this long"""

    heartbeat_interval_ms: int
    """time between two heartbeats"""

    rebalance_timeout_ms: int
    """longest time that a rebalance waits for all members to join (only in pyklient; Kafka uses
    max.poll.interval.ms)"""

    max_poll_interval_ms: int
    """a member leaves the group if its loop does not ask for the next message for this long, although a
    message is waiting"""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """read_committed leaves out records of aborted and open transactions"""

    fetch_min_bytes: int
    """the broker waits until a fetch response has this many bytes, but not longer than fetch_max_wait_ms"""

    fetch_max_wait_ms: int
    """longest time that the broker waits for fetch_min_bytes"""

    fetch_max_bytes: int
    """largest number of bytes in one fetch response"""

    max_partition_fetch_bytes: int
    """largest number of bytes of one partition in a fetch response"""

    prefetch_max_bytes: int
    """largest number of bytes that are fetched and not yet read, over all partitions; fetching pauses at this
    limit (only in pyklient)"""

    check_crcs: bool
    """verify the checksum of each fetched batch"""

    max_decompressed_bytes: int
    """largest size to which a compressed batch may decompress; iteration raises an error at a larger batch
    (only in pyklient)"""

    consumer_timeout_ms: int
    """iteration raises ConsumerTimeout after this time without a message; -1 waits forever"""


class ConsumerOptions(ReadOptions, total=False):
    """Options of ConsumerConnector."""

    group_id: str | None
    """name of the consumer group, whose members share the partitions of the topics; without a group, all
    partitions are read and nothing is committed"""

    group_instance_id: str | None
    """name of the member that stays the same across restarts, so that a quick restart causes no rebalance
    (KIP-345)"""

    client_rack: str | None
    """rack of this client: the assignors range, sticky and cooperative-sticky prefer partitions that have a
    replica in this rack (KIP-881); messages are still fetched from the leaders"""

    coordination: Literal["kafka", "zookeeper"]
    """kafka: a broker coordinates the group, as in all clients since Kafka 0.9; zookeeper: the members
    coordinate themselves through ZooKeeper, as the Scala consumer does (only in pyklient)"""

    offsets_storage: Literal["kafka", "zookeeper", None]
    """where the group commits its offsets: kafka or zookeeper; by default, the same as coordination"""

    offsets_retention_ms: int | None
    """how long Kafka keeps the offsets that the group commits, from each commit on; by default as long as
    offsets.retention.minutes of the brokers says (needs Kafka 0.9 or later; only in pyklient)"""

    offsets_commit_max_retries: int | None
    """largest number of retries when offsets are committed to Kafka; by default, only the time-out of the
    commit is a limit"""

    offsets_channel_backoff_ms: int | None
    """pause before offsets are committed to Kafka again; by default, that of retry_backoff_ms"""

    offsets_channel_socket_timeout_ms: int | None
    """longest wait for the response when offsets are committed to Kafka; by default request_timeout_ms"""

    dual_commit_enabled: bool | None
    """commit offsets to both Kafka and ZooKeeper, and resume at the larger one; by default on if coordination
    is zookeeper and offsets_storage is kafka"""

    rebalance_max_retries: int
    """largest number of attempts to divide the partitions of a group that ZooKeeper coordinates; if all fail,
    the connector raises an error"""

    rebalance_backoff_ms: int
    """pause between two attempts to divide the partitions of a group that ZooKeeper coordinates. All attempts
    together should last longer than zookeeper_session_timeout_ms, because ZooKeeper frees the partitions of a
    member that was killed only after that time"""

    consumer_id: str | None
    """last part of the member's id in a group that ZooKeeper coordinates; by default host, time and a random
    number"""

    exclude_internal_topics: bool
    """leave out topics such as __consumer_offsets when topics are chosen by a filter"""

    auto_offset_reset: str
    """where a partition without a committed offset begins: at the oldest message (earliest), at messages that
    arrive from now on (latest), at messages that are at most this old (by_duration:PT1H, in the format of ISO
    8601), or nowhere, with an error (none)"""

    enable_auto_commit: bool
    """commit the messages that the loop has finished, every auto_commit_interval_ms and on close"""

    auto_commit_interval_ms: int
    """time between two automatic commits"""

    queued_max_message_chunks: int | None
    """largest number of chunks in the queue of each stream; fetching for a stream pauses when it has that
    many. As in Kafka's old consumer, a chunk is the data of one partition in one fetch response. By default,
    only prefetch_max_bytes is a limit"""

    shallowiterator_enable: bool
    """hand out each compressed batch as one message, and decompress nothing. The value of the message is the
    compressed records; its offset is that of the last record; its header compression.codec names the codec
    (as in Kafka 0.7, for mirrors)"""
