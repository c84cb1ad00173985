"""The options of a classic producer, as values that are checked and complete.

The names are those of Kafka 0.8, with underscores, and the defaults are those of Kafka 0.8. The options that
exist only in Kafka 0.7 are at the end.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from pyklient import argument_checks
from pyklient.classic.encoders import DefaultEncoder
from pyklient.classic.partitioners import DefaultPartitioner, Partitioner
from pyklient.classic.queue_item import QueueItem
from pyklient.config import ClientConfig
from pyklient.config.host_and_port import host_and_port
from pyklient.errors import ConfigurationError
from pyklient.kernel import KeyedMessage
from pyklient.properties.profile import ProfileName
from pyklient.properties.values import StaticBroker
from pyklient.serialization import Encoder, as_encoder

__all__ = ["ClassicProducerConfig"]

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ANY: Final = -argument_checks.INT32_MAX - 1
_LOWEST: Final = {
    "request_timeout_ms": 1,
    "message_send_max_retries": 0,
    "retry_backoff_ms": 0,
    "topic_metadata_refresh_interval_ms": _ANY,
    "queue_buffering_max_ms": 0,
    "queue_buffering_max_messages": 1,
    "queue_enqueue_timeout_ms": _ANY,
    "batch_num_messages": 1,
    "send_buffer_bytes": -1,
    "zk_session_timeout_ms": 1,
    "zk_connection_timeout_ms": 1,
    "zk_read_num_retries": 0,
    "connect_timeout_ms": 1,
    "socket_timeout_ms": 1,
    "reconnect_interval": 1,
    "reconnect_time_interval_ms": _ANY,
    "max_message_size": 1,
}
"""The options that are whole numbers, each with its smallest value."""
_OPTIONAL: Final = ("zk_connection_timeout_ms", "max_message_size")
"""The options that are whole numbers or None."""


@dataclass(frozen=True, kw_only=True)
class ClassicProducerConfig:
    """The options of a classic producer.

    Raises TypeError for an option of a wrong type, and ConfigurationError for a value out of range, or if two
    options contradict each other.
    """

    profile: ProfileName = "0.8"
    metadata_broker_list: str | None = None
    """The addresses of some brokers, as ``host:port,host:port``. The producer asks these brokers for all
    others. Required unless ``profile`` is "0.7"."""
    producer_type: Literal["sync", "async"] = "sync"
    encoder: Encoder = field(default_factory=DefaultEncoder)
    key_encoder: Encoder | None = None
    """The encoder of keys. If it is None, the encoder of messages encodes keys too."""
    partitioner: Partitioner | None = None
    """The partitioner of messages with a key. If it is None, a DefaultPartitioner is used."""
    compression_codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    compressed_topics: frozenset[str] = frozenset()
    """The topics whose messages are compressed. An empty set stands for all topics. If ``compression_codec``
    is ``none``, no messages are compressed."""
    request_required_acks: int = 0
    request_timeout_ms: int = 10_000
    message_send_max_retries: int = 3
    """The number of times that failed messages are sent again. In Kafka 0.7, the property is ``num.retries``,
    and its default is 0."""
    retry_backoff_ms: int = 100
    topic_metadata_refresh_interval_ms: int = 600_000
    queue_buffering_max_ms: int = 5_000
    """The time, since the previous batch, after which a batch is sent although it is not full. In Kafka 0.7,
    the property is ``queue.time``."""
    queue_buffering_max_messages: int = 10_000
    """The number of messages that fit into the queue. In Kafka 0.7, the property is ``queue.size``."""
    queue_enqueue_timeout_ms: int = -1
    """The longest time that ``send`` waits while the queue is full; -1 means without a limit. In Kafka 0.7,
    the property is ``queue.enqueueTimeout.ms``, and its default is 0."""
    batch_num_messages: int = 200
    """The number of messages in a full batch. In Kafka 0.7, the property is ``batch.size``."""
    send_buffer_bytes: int = 102_400
    client_id: str = ""

    # Only in the profile 0.7:
    broker_list: tuple[StaticBroker, ...] = ()
    zk_connect: str | None = None
    zk_session_timeout_ms: int = 6_000
    zk_connection_timeout_ms: int | None = None
    """The longest wait for a connection to ZooKeeper. If it is None, ``zk_session_timeout_ms`` is the
    limit."""
    zk_read_num_retries: int = 3
    connect_timeout_ms: int = 5_000
    socket_timeout_ms: int = 30_000
    reconnect_interval: int = 30_000
    """The number of requests after which a connection is replaced by a new one."""
    reconnect_time_interval_ms: int = 10_000_000
    """The time after which a connection is replaced by a new one. A negative number means never."""
    max_message_size: int | None = None
    """The largest size of a message in bytes. None means that only the broker has a limit. In Kafka 0.7, the
    default is 1,000,000."""
    callback_handler_props: Mapping[str, str] = field(default_factory=dict)
    event_handler_props: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.profile not in get_args(ProfileName):
            raise ConfigurationError(f"profile={self.profile!r} is not one of '0.7', '0.8' and '0.10'")
        self._check_numbers()
        self._check_objects()
        if self.producer_type not in ("sync", "async"):
            raise ConfigurationError(f"producer.type={self.producer_type!r} is neither 'sync' nor 'async'")
        if argument_checks.whole(self.request_required_acks, "request_required_acks", low=_ANY) not in (
            -1,
            0,
            1,
        ):
            raise ConfigurationError(
                f"request.required.acks={self.request_required_acks} is not one of -1, 0 and 1"
            )
        if self.profile == "0.7":
            self._validate_0_7()
        else:
            self._validate_0_8()

    def _check_numbers(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                argument_checks.whole(value, name, lowest)

    def _check_objects(self) -> None:
        argument_checks.text(self.client_id, "client_id")
        for name in ("metadata_broker_list", "zk_connect"):
            if (written := getattr(self, name)) is not None:
                argument_checks.text(written, name)
        if self.compression_codec not in _CODECS:
            raise ConfigurationError(
                f"compression.codec={self.compression_codec!r} is not one of {', '.join(_CODECS)}"
            )
        argument_checks.several(self.compressed_topics, "compressed_topics")
        brokers = self.broker_list
        if not isinstance(brokers, tuple) or not all(isinstance(each, StaticBroker) for each in brokers):
            raise TypeError(f"broker_list takes a tuple of StaticBroker(id, host, port), not {brokers!r}")
        if as_encoder(self.encoder, "serializer.class") is None:
            raise ConfigurationError(
                "serializer.class is None, but messages need an encoder; to send messages of bytes, leave "
                "the property out"
            )
        as_encoder(self.key_encoder, "key.serializer.class")
        partitioner = self.partitioner
        if partitioner is not None and (
            isinstance(partitioner, type | str | bytes | bytearray)
            or not callable(getattr(partitioner, "partition", None))
        ):
            raise ConfigurationError(
                f"partitioner.class={partitioner!r} is not a partitioner: pass an object with a method "
                "partition(key, partition_count), which returns the number of a partition"
            )

    def _validate_0_8(self) -> None:
        if self.metadata_broker_list is None:
            raise ConfigurationError(
                "metadata.broker.list is missing; set it to some brokers, such as 'one:9092,two:9092'"
            )
        if self.batch_num_messages > self.queue_buffering_max_messages:
            raise ConfigurationError(
                f"batch.num.messages={self.batch_num_messages} is larger than "
                f"queue.buffering.max.messages={self.queue_buffering_max_messages}, so no batch would ever "
                "be full; make the batch smaller, or the queue larger"
            )

    def _validate_0_7(self) -> None:
        if self.broker_list and self.zk_connect is not None:
            raise ConfigurationError(
                "broker.list and zk.connect are both set, and each names the brokers; remove one of the two"
            )
        if not self.broker_list and self.zk_connect is None:
            raise ConfigurationError(
                "neither broker.list nor zk.connect is set; set one of the two, so that the brokers are found"
            )
        if self.broker_list and self.partitioner is not None:
            raise ConfigurationError(
                "partitioner.class is set, but with broker.list the brokers choose the partitions; "
                "use zk.connect, or remove partitioner.class"
            )

    @property
    def is_0_7(self) -> bool:
        """True if the producer behaves as in Kafka 0.7."""
        return self.profile == "0.7"

    def is_old(self, asked_at: float) -> bool:
        """Return True if metadata that the producer fetched at the monotonic time *asked_at* is too old, so
        that the producer must fetch it again."""
        longest = self.topic_metadata_refresh_interval_ms / 1000
        return 0 <= longest < time.monotonic() - asked_at

    @property
    def item_class(self) -> type[KeyedMessage | QueueItem]:
        """The class of the messages that are queued, and that the event handler gets."""
        return QueueItem if self.is_0_7 else KeyedMessage

    @property
    def chosen_partitioner(self) -> Partitioner:
        """The partitioner of messages with a key."""
        return self.partitioner if self.partitioner is not None else DefaultPartitioner()

    def compression_of(self, topic: str) -> str:
        """Return the compression of the messages for *topic*."""
        if self.compressed_topics and topic not in self.compressed_topics:
            return "none"
        return self.compression_codec

    @property
    def client_config(self) -> ClientConfig:
        """The options of the connections that the producer opens."""
        connecting = self.connect_timeout_ms if self.is_0_7 else self.request_timeout_ms
        waiting = self.socket_timeout_ms if self.is_0_7 else self.request_timeout_ms
        session = self.zk_session_timeout_ms
        options: dict[str, object] = {
            "client_id": self.client_id,
            "request_timeout_ms": waiting,
            "socket_connection_setup_timeout_ms": connecting,
            "send_buffer_bytes": self.send_buffer_bytes,
            "retry_backoff_ms": self.retry_backoff_ms,
            "retry_backoff_max_ms": self.retry_backoff_ms,
        }
        if self.zk_connect is not None:
            options |= {
                "zookeeper": self.zk_connect,
                "zookeeper_session_timeout_ms": session,
                "zookeeper_connection_timeout_ms": self.zk_connection_timeout_ms or session,
            }
        elif self.broker_list:
            options["bootstrap_servers"] = [host_and_port(each.host, each.port) for each in self.broker_list]
        else:
            options["bootstrap_servers"] = self.metadata_broker_list
        return ClientConfig.from_options(options)
