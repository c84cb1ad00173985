"""The snapshots that ``Producer.metrics`` and ``ConsumerConnector.metrics`` return.

Times are in seconds and sizes in bytes. A total counts since the client was made, and never falls. A rate is
the mean of the last 30 to 35 seconds. In a younger client, it is the mean of the time since the client was
made, or of one second if that is longer. Quantiles are those of the last 30 to 60 seconds, and off by 6 % at
most.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyklient.topic_partition import TopicPartition

__all__ = [
    "BrokerMetrics",
    "CommitMetrics",
    "ConsumedPartition",
    "ConsumerMetrics",
    "Durations",
    "ProducedPartition",
    "ProducerMetrics",
    "RebalanceMetrics",
    "RequestMetrics",
    "Throughput",
]


@dataclass(frozen=True, slots=True)
class Throughput:
    """The numbers of batches, records and bytes since the client was made, and their present rates."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    batches_per_second: float = 0.0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0

    @staticmethod
    def sum(parts: "Iterable[Throughput]") -> "Throughput":
        """Return the sum of *parts*."""
        every = list(parts)
        return Throughput(
            batches=sum(each.batches for each in every),
            records=sum(each.records for each in every),
            bytes=sum(each.bytes for each in every),
            batches_per_second=sum(each.batches_per_second for each in every),
            records_per_second=sum(each.records_per_second for each in every),
            bytes_per_second=sum(each.bytes_per_second for each in every),
        )

    def without(self, part: "Throughput") -> "Throughput":
        """Return this sum without *part*, one of its parts. No number in the result is negative, even if
        *part* was counted a moment later than the sum."""
        return Throughput(
            batches=max(0, self.batches - part.batches),
            records=max(0, self.records - part.records),
            bytes=max(0, self.bytes - part.bytes),
            batches_per_second=max(0.0, self.batches_per_second - part.batches_per_second),
            records_per_second=max(0.0, self.records_per_second - part.records_per_second),
            bytes_per_second=max(0.0, self.bytes_per_second - part.bytes_per_second),
        )


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations of an operation in seconds: their number, their total, and quantiles. The quantiles are
    None if the operation has not happened in the last minute.

    *count* and *total* count from the moment at which the client was made.
    """

    count: int = 0
    total: float = 0.0
    p50: float | None = None
    p99: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """The requests of one kind, such as ``Produce``, to one broker."""

    sent: int = 0
    answered: int = 0
    failed: int = 0
    """The number of requests whose connection ended, or whose time-out passed, before they were answered."""
    bytes_sent: int = 0
    bytes_received: int = 0
    latency: Durations = field(default_factory=Durations)
    """The time from sending a request to its response. For ``Fetch``, it includes the time for which the
    broker has waited for records."""


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """The traffic with one broker, over all connections to it."""

    address: str
    """The address (host and port) to which the client last tried to connect."""
    connections: int = 0
    """The number of connections that were opened, with a successful TLS handshake and login."""
    failed_connections: int = 0
    requests: Mapping[str, RequestMetrics] = field(default_factory=dict)
    """The requests by name, such as ``Produce``, ``Fetch`` and ``OffsetCommit``."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The number of error responses to whole requests, by the name of the error code. Errors of single
    partitions are counted with the partition."""
    throttle_time: float = 0.0
    """The seconds for which the broker has asked this client to wait, because the client exceeded a quota."""

    @property
    def bytes_sent(self) -> int:
        """The number of bytes of all requests."""
        return sum(each.bytes_sent for each in self.requests.values())

    @property
    def bytes_received(self) -> int:
        """The number of bytes of all responses."""
        return sum(each.bytes_received for each in self.requests.values())


@dataclass(frozen=True, slots=True)
class ProducedPartition:
    """The numbers of records and batches that a producer has sent to one partition."""

    delivered: Throughput = field(default_factory=Throughput)
    """The records that the broker has confirmed, or with ``acks=0`` the records that were sent. The bytes are
    the size of the sent batches, after compression and with headers."""
    failed_records: int = 0
    """The number of records that were not delivered."""
    retried_batches: int = 0
    """The number of times that a batch was sent again."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The number of error responses to batches, by the name of the error code. Most of them lead to a
    retry."""


@dataclass(frozen=True, slots=True)
class ProducerMetrics:
    """The state of a Producer at one time. See ``Producer.metrics``."""

    client_id: str
    time: float
    """The time of the snapshot, in seconds since 1970."""
    age: float
    """The seconds since the producer was made."""
    delivered: Throughput
    """The records that the brokers have confirmed, in all partitions."""
    failed_records: int
    retried_batches: int
    errors: Mapping[str, int]
    """The number of error responses to batches, by the name of the error code."""
    waiting_records: int
    """The number of records that ``send`` has accepted, and whose result is not known yet."""
    waiting_batches: int
    buffer_used: int
    """The number of bytes of ``buffer_memory`` that are in use."""
    buffer_memory: int
    batch_fill: float | None
    """The mean size before compression of the batches that were sent in the last 30 to 35 seconds, divided by
    ``batch_size``. None if no batch was sent."""
    compression_ratio: float | None
    """The size after compression of the batches that were sent in the last 30 to 35 seconds, divided by their
    size before compression. None if no batch was sent."""
    queue_time: Durations
    """The time from the first record of a batch until the batch is sent for the first time. It includes
    ``linger_ms``."""
    delivery_time: Durations
    """The time from the first record of a batch until the batch is confirmed."""
    partitions: Mapping[TopicPartition, ProducedPartition]
    """The partitions to which records were sent. If there are more than 10,000 of them, those of topics that
    were idle for ``metadata_max_idle_ms`` are left out."""
    brokers: Mapping[int, BrokerMetrics]
    """The traffic with each broker, by node id. Bootstrap servers have negative numbers."""

    @property
    def throttle_time(self) -> float:
        """The seconds for which the brokers have asked this producer to wait, because it exceeded a quota."""
        return sum(each.throttle_time for each in self.brokers.values())


@dataclass(frozen=True, slots=True)
class ConsumedPartition:
    """The metrics of one partition that a consumer reads, or has read."""

    assigned: bool = True
    """True if the consumer reads the partition now."""
    consumed: Throughput = field(default_factory=Throughput)
    """The records that the program's loops have got, and their fetched bytes (compressed). A record that a
    loop gets twice counts twice."""
    fetched: Throughput = field(default_factory=Throughput)
    """The fetched bytes of the partition. ``batches`` is the number of fetch responses with records of the
    partition. ``records`` is always 0."""
    position: int | None = None
    """The offset of the next message. None if it is not known yet, or if the partition is not assigned."""
    end: int | None = None
    """The offset up to which the partition can be read, as of the last fetch response: the high watermark, or
    with ``read_committed`` the last stable offset. None until the first response."""
    queued_bytes: int = 0
    """The bytes that were fetched and are not yet read."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The number of error responses to fetches of this partition, by the name of the error code."""
    corrupt_batches: int = 0
    """The number of batches that were skipped because they cannot be read (``on_corrupt``)."""
    skipped_offsets: int = 0
    """The number of offsets in the batches that were skipped because they cannot be read (``on_corrupt``)."""
    lag: int | None = field(init=False)
    """The number of offsets from the position to the end. None if the position or the end is not known."""

    def __post_init__(self) -> None:
        lag = None if self.position is None or self.end is None else max(0, self.end - self.position)
        object.__setattr__(self, "lag", lag)


@dataclass(frozen=True, slots=True)
class RebalanceMetrics:
    """The number of assignments to a consumer, the numbers of partitions that it gave back and lost, and the
    durations of its rebalances."""

    assignments: int = 0
    """The number of times that partitions were assigned, including the first time."""
    revoked_partitions: int = 0
    """The number of partitions that the consumer gave back. A partition that is given back twice counts
    twice."""
    lost_partitions: int = 0
    """The number of partitions that the group gave to other members without waiting for this member. A
    partition that is lost twice counts twice."""
    durations: Durations = field(default_factory=Durations)
    """The time from the moment at which the consumer began to give partitions back, or to join its group,
    until its next assignment. Empty for a consumer without a group."""


@dataclass(frozen=True, slots=True)
class CommitMetrics:
    """The numbers of commits of a consumer, including automatic commits."""

    commits: int = 0
    """The number of commits that have stored at least one offset."""
    offsets: int = 0
    """The number of offsets that all commits have stored. A commit stores one offset for each partition."""
    failed: int = 0
    """The number of commits that have failed, for all or for some of their partitions."""


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """The state of a ConsumerConnector at one time. See ``ConsumerConnector.metrics``."""

    client_id: str
    group_id: str | None
    time: float
    """The time of the snapshot, in seconds since 1970."""
    age: float
    """The seconds since the connector was made."""
    consumed: Throughput
    """The records that the program's loops have got, from all partitions that were ever assigned."""
    fetched: Throughput
    """The fetched bytes of all partitions. A fetch response counts in ``batches`` once for each partition of
    which it has records. ``records`` is always 0."""
    errors: Mapping[str, int]
    """The number of error responses to fetches of partitions, by the name of the error code."""
    rebalances: RebalanceMetrics
    commits: CommitMetrics
    partitions: Mapping[TopicPartition, ConsumedPartition]
    """The partitions that are or were assigned. If more than 10,000 of them are not assigned any more, some
    are left out."""
    brokers: Mapping[int, BrokerMetrics]
    """The traffic with each broker, by node id. Bootstrap servers have negative numbers."""
    corrupt_batches: int = 0
    """The number of batches that were skipped because they cannot be read (``on_corrupt``)."""
    skipped_offsets: int = 0
    """The number of offsets in the batches that were skipped because they cannot be read (``on_corrupt``)."""
    lag: int | None = field(init=False)
    """The sum of the lags of the assigned partitions. None while the lag of any of these partitions is not
    known, for example before the first response of a broker."""

    def __post_init__(self) -> None:
        lags = [each.lag for each in self.partitions.values() if each.assigned]
        known = [lag for lag in lags if lag is not None]
        object.__setattr__(self, "lag", sum(known) if len(known) == len(lags) else None)

    @property
    def queued_bytes(self) -> int:
        """The bytes that were fetched and are not yet read."""
        return sum(each.queued_bytes for each in self.partitions.values())

    @property
    def throttle_time(self) -> float:
        """The seconds for which the brokers have asked this connector to wait, because it exceeded a
        quota."""
        return sum(each.throttle_time for each in self.brokers.values())
