"""The keyword arguments of the clients, for type checkers and editors.

``python -m tools.docs.option_types`` generates this file from ``pyklient/config/option_declarations/``.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from pyklient.assignors.assignor import Assignor
from pyklient.config.option_declarations.producer_options import HasPartition
from pyklient.corrupt_records import CorruptRecords
from pyklient.offset_stores.offset_store import OffsetStore
from pyklient.serialization import Encoder

if TYPE_CHECKING:
    import ssl

__all__ = ["AdminOptions", "ClientOptions", "ConsumerOptions", "ProducerOptions", "ReadOptions"]


class ClientOptions(TypedDict, total=False):
    """Options of every client."""

    zookeeper: str | None
    """Addresses of ZooKeeper (host:port,host:port/chroot), for clusters that use it. The chroot is the path
    below which Kafka stores its data; leave it out if there is none. The client finds the brokers in
    ZooKeeper, and needs no bootstrap_servers. (Only in pyklient. Kafka's old clients call the option
    zookeeper.connect.)"""

    client_id: str
    """The name that the broker shows in its logs, quotas and metrics."""

    request_timeout_ms: int
    """The longest wait for one response from a broker."""

    default_api_timeout_ms: int
    """The longest time for a call that may need several requests."""

    retry_backoff_ms: int
    """The pause before the first retry. The pause before each further retry is twice as long, with jitter."""

    retry_backoff_max_ms: int
    """The longest pause before a retry."""

    reconnect_backoff_ms: int
    """The pause before the client opens a broken connection again. After each attempt that fails, the pause
    is twice as long, with jitter."""

    reconnect_backoff_max_ms: int
    """The longest pause before the client opens a broken connection again."""

    socket_connection_setup_timeout_ms: int
    """The longest time to open a connection, including TLS and SASL."""

    bootstrap_refused_timeout_ms: int
    """A call raises an error after this time if all bootstrap servers refuse connections or their host names
    do not exist. With -1, the call waits until its own time-out is over. (Only in pyklient.)"""

    connections_max_idle_ms: int
    """The client closes a connection that it has not used for this time."""

    metadata_max_age_ms: int
    """The client asks for the metadata of the cluster again after this time."""

    send_buffer_bytes: int
    """The size of the socket's send buffer. -1 means the system's default."""

    receive_buffer_bytes: int
    """The size of the socket's receive buffer. -1 means the system's default."""

    receive_message_max_bytes: int
    """The largest response that the client accepts. If a response is larger, the client closes the
    connection. (Only in pyklient.)"""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """The security of connections: TLS (SSL), a login (SASL_PLAINTEXT), both (SASL_SSL) or neither
    (PLAINTEXT)."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    """The mechanism of the SASL login."""

    sasl_username: str | None
    """The user name of the SASL login. (Only in pyklient. In Kafka, it is part of sasl.jaas.config.)"""

    sasl_password: str | None
    """The password of the SASL login. (Only in pyklient. In Kafka, it is part of sasl.jaas.config.)"""

    zookeeper_session_timeout_ms: int
    """ZooKeeper ends the session of a client from which it has heard nothing for this time."""

    zookeeper_connection_timeout_ms: int
    """The longest wait for a connection to ZooKeeper. The wait also ends when the call's own time-out is
    over."""

    zookeeper_username: str | None
    """The user name for ZooKeeper's authentication scheme digest. (Only in pyklient.)"""

    zookeeper_password: str | None
    """The password for ZooKeeper's authentication scheme digest. (Only in pyklient.)"""

    zookeeper_set_acl: bool
    """With True, only zookeeper_username may change the nodes that the client creates in ZooKeeper."""

    zookeeper_ssl_client_enable: bool
    """With True, the client uses TLS for the connection to ZooKeeper."""

    zookeeper_ssl_truststore_location: str | None
    """A PEM file with the certificate authorities that the client trusts for ZooKeeper. By default, it trusts
    the authorities that the system trusts."""

    zookeeper_ssl_keystore_location: str | None
    """A PEM file with the certificate chain and the key that the client uses for ZooKeeper."""

    zookeeper_ssl_keystore_password: str | None
    """The password of the key in zookeeper_ssl_keystore_location."""

    zookeeper_ssl_endpoint_identification_algorithm: Literal["https", ""]
    """With https, the client checks that ZooKeeper's certificate is for ZooKeeper's host name. With an empty
    text, it does not check this."""

    ssl_context: "ssl.SSLContext | None"
    """A complete TLS context, which replaces the other ssl_ options. (Only in pyklient.)"""

    ssl_truststore_location: str | None
    """A PEM file with the certificate authorities that the client trusts. By default, it trusts the
    authorities that the system trusts."""

    ssl_keystore_location: str | None
    """A PEM file with the certificate chain and the key of the client."""

    ssl_key_password: str | None
    """The password of the key in ssl_keystore_location."""

    ssl_endpoint_identification_algorithm: Literal["https", ""]
    """With https, the client checks that the certificate of a broker is for the broker's host name. With an
    empty text, it does not check this."""


class AdminOptions(ClientOptions, total=False):
    """Options of Admin and of SimpleConsumer."""


class ProducerOptions(ClientOptions, total=False):
    """Options of Producer."""

    acks: Literal["all", -1, "-1", 0, "0", 1, "1"]
    """The brokers that must store a record before the producer reports it as stored: all in-sync replicas
    (all or -1), only the leader (1), or none (0)."""

    enable_idempotence: bool | None
    """With True, the producer is idempotent: retries neither duplicate nor reorder records. By default, the
    producer is idempotent if acks is all and the broker supports it. If retries is 0 or
    max_in_flight_requests_per_connection is above 5, the producer is not idempotent by default, and logs a
    warning."""

    transactional_id: str | None
    """The name under which the producer uses transactions. If several producers have the same name, brokers
    accept only the newest one. Without a name, the producer has no transactions."""

    transaction_timeout_ms: int
    """The brokers abort a transaction that is open for longer than this time. Brokers allow at most
    transaction.max.timeout.ms (15 minutes by default)."""

    linger_ms: int
    """The time for which a batch waits for more records."""

    batch_size: int
    """The largest size in bytes of a batch with several records. A larger record is a batch of its own."""

    buffer_memory: int
    """The memory in bytes for records that are not confirmed yet. While it is full, send() waits."""

    max_block_ms: int
    """The longest time for which send() waits for memory or for metadata. The methods for transactions wait
    for at most this time too, unless they get another timeout."""

    metadata_max_idle_ms: int
    """The producer forgets the metadata of a topic to which it has sent nothing for this time."""

    max_request_size: int
    """The largest size in bytes of a record, and of a batch. send() raises an error for a larger record."""

    produce_max_bytes: int
    """The largest size in bytes of a produce request, which contains the batches of several partitions. A
    request always contains at least one batch. (Only in pyklient.)"""

    compression_type: Literal["none", None, "gzip", "snappy", "lz4", "zstd"]
    """The compression of the batches."""

    delivery_timeout_ms: int
    """A record fails if it is not confirmed within this time."""

    retries: int
    """The largest number of retries after a temporary failure. delivery_timeout_ms limits them too."""

    max_in_flight_requests_per_connection: int
    """The largest number of produce requests in flight to one broker, and of batches in flight to one
    partition."""

    partitioner: Callable[[str, bytes | None, int], int] | HasPartition | None
    """A function that gets the topic, the key and the number of partitions of a record, and returns the
    number of a partition. By default, the murmur2 hash of the key decides, as in Java's client. Records
    without a key go to one partition until its batch is full, or until 16 KiB were sent to it, and then to
    another. (Only in pyklient.)"""

    partitioner_adaptive_partitioning_enable: bool
    """If True, partitions whose leader is slow get fewer of the records without a key. Otherwise, all
    partitions get equally many."""

    partitioner_availability_timeout_ms: int
    """If a broker has accepted no request for this time, although batches wait, records without a key go to
    the partitions of other brokers. 0 turns this off. It has no effect without
    partitioner_adaptive_partitioning_enable."""

    key_encoder: Encoder | None
    """A function that turns keys into bytes. (Only in pyklient.)"""

    value_encoder: Encoder | None
    """A function that turns values into bytes. (Only in pyklient.)"""


class ReadOptions(ClientOptions, total=False):
    """Options of read()."""

    partition_assignment_strategy: str | Assignor | Sequence[str | Assignor]
    """The assignor by which the group assigns partitions to its members: range, roundrobin, sticky,
    cooperative-sticky, or an object of a subclass of pyklient.Assignor. A list names several assignors in the
    order of preference, and the group uses one that all members have. Groups that ZooKeeper coordinates have
    only range and roundrobin."""

    session_timeout_ms: int
    """The group removes a member that sends no heartbeat for this time."""

    heartbeat_interval_ms: int
    """The time between two heartbeats."""

    rebalance_timeout_ms: int
    """The longest time for which a rebalance waits until all members have joined. (Only in pyklient. Kafka
    uses max.poll.interval.ms.)"""

    max_poll_interval_ms: int
    """A member leaves the group if a message has waited for this time and the loop has not asked for it."""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """With read_committed, the consumer leaves out records of aborted and open transactions."""

    open_transaction_warning_ms: int | None
    """With read_committed, the consumer logs a warning when it has waited for this time for the end of an
    open transaction. The warning names the partition and the producer. With None, there is no warning. (Only
    in pyklient.)"""

    fetch_min_bytes: int
    """The broker waits until a fetch response has this many bytes, but not longer than fetch_max_wait_ms."""

    fetch_max_wait_ms: int
    """The longest time for which the broker waits for fetch_min_bytes."""

    fetch_max_bytes: int
    """The largest number of bytes in one fetch response."""

    max_partition_fetch_bytes: int
    """The largest number of bytes of one partition in a fetch response."""

    prefetch_max_bytes: int
    """The largest number of bytes that the consumer has fetched and the loops have not read, over all
    partitions. At this limit, the consumer stops fetching. (Only in pyklient.)"""

    check_crcs: bool
    """With True, the consumer verifies the checksum of each batch."""

    max_decompressed_bytes: int
    """The largest size in bytes of a batch after it was decompressed. on_corrupt decides what happens with a
    larger batch. (Only in pyklient.)"""

    on_corrupt: str | Callable[[CorruptRecords], object]
    """The reaction to a batch that cannot be read. With raise, the loop raises an error. With skip, the batch
    is logged, counted and skipped. A function is called with a CorruptRecords before the batch is skipped,
    and may raise an exception instead. (Only in pyklient.)"""

    consumer_timeout_ms: int
    """The loop over a stream raises ConsumerTimeout if it has got no message for this time. -1 means that it
    waits for ever."""


class ConsumerOptions(ReadOptions, total=False):
    """Options of ConsumerConnector."""

    group_id: str | None
    """The name of the consumer group, whose members share the partitions of the topics. Without a group, the
    connector reads all partitions and commits nothing."""

    group_instance_id: str | None
    """A name for this member, which stays the same when its program restarts. A quick restart then causes no
    rebalance (KIP-345)."""

    client_rack: str | None
    """The rack of this client. All assignors but roundrobin prefer partitions that have a replica in this
    rack (KIP-881). Messages are still fetched from the leaders."""

    coordination: Literal["kafka", "zookeeper"]
    """With kafka, a broker coordinates the group, as Kafka does since 0.9. With zookeeper, the members
    coordinate themselves through ZooKeeper, as Kafka's Scala consumer does. (Only in pyklient.)"""

    offset_store: OffsetStore | None
    """The database in which the program saves the positions of the group, in the transactions that store its
    results: a SQLiteOffsetStore, a PostgresOffsetStore or another OffsetStore. Nothing is then committed to
    Kafka, not even automatically. (Only in pyklient.)"""

    offsets_storage: Literal["kafka", "zookeeper", None]
    """The storage to which the group commits its offsets: kafka or zookeeper. The default is kafka, or
    zookeeper if coordination is zookeeper."""

    offsets_retention_ms: int | None
    """The time for which Kafka keeps an offset after the group has committed it. By default,
    offsets.retention.minutes of the brokers decides. This option needs Kafka 0.9 or later. (Only in
    pyklient.)"""

    offsets_commit_max_retries: int | None
    """The largest number of retries of a commit to Kafka. By default, a commit is retried until its time-out
    is over."""

    offsets_channel_backoff_ms: int | None
    """The pause before a failed commit to Kafka is tried again. By default, retry_backoff_ms decides."""

    offsets_channel_socket_timeout_ms: int | None
    """The longest wait for the response to a commit to Kafka. By default, it is request_timeout_ms."""

    dual_commit_enabled: bool | None
    """With True, the member commits offsets to both Kafka and ZooKeeper, and begins at the larger of the two
    committed offsets. The default is True if coordination is zookeeper and offsets_storage is kafka, and
    False otherwise."""

    rebalance_max_retries: int
    """The largest number of attempts in a rebalance of a group that ZooKeeper coordinates. If all attempts of
    a new member fail, the connector raises an error."""

    rebalance_backoff_ms: int
    """The pause between two attempts in a rebalance of a group that ZooKeeper coordinates. All attempts
    together should last longer than zookeeper_session_timeout_ms, because no other member can own the
    partitions of a killed member before its session ends."""

    consumer_id: str | None
    """The last part of the member's id in a group that ZooKeeper coordinates. By default, it consists of the
    host's name, the time and a random number."""

    exclude_internal_topics: bool
    """With True, a filter for topics leaves out Kafka's internal topics, such as __consumer_offsets."""

    auto_offset_reset: str
    """The point at which the consumer begins to read a partition that has no committed offset: the oldest
    message (earliest), the end after the newest message (latest), or the first message that is not older than
    a duration (by_duration:PT1H means an hour, in the format of ISO 8601). With none, the consumer raises an
    error."""

    enable_auto_commit: bool
    """With True, the connector commits the messages that the loop has finished, every auto_commit_interval_ms
    and when it closes."""

    auto_commit_interval_ms: int
    """The time between two automatic commits."""

    queued_max_message_chunks: int | None
    """The consumer stops fetching for a stream when this many chunks wait to be read. A chunk here is the
    data of one partition in one fetch response. By default, only prefetch_max_bytes is a limit."""

    shallowiterator_enable: bool
    """With True, the consumer does not decompress. It hands out each compressed batch as one message, whose
    value is the compressed records. The offset of the message is that of the last record, and its header
    compression.codec names the codec. Kafka 0.7 used this to copy topics."""
