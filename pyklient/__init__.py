"""pyklient: a fast Python client for Apache Kafka.

::

    from pyklient import ConsumerConnector, Producer

    with Producer("localhost:9092") as producer:
        producer.send("clicks", b"home", key=b"user-1")

    with ConsumerConnector("localhost:9092", group_id="billing") as connector:
        for message in connector.stream("clicks"):
            print(message.key, message.value)

This module is the whole public interface, beside ``pyklient.broker`` (a broker for tests and first runs)
and ``pyklient.serialization`` (encoders and decoders).
"""

from pyklient.admin import Admin
from pyklient.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from pyklient.consumer.connector import ConsumerConnector
from pyklient.consumer.group import ConsumerRebalanceListener
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.read import read
from pyklient.consumer.simple import Fetched, SimpleConsumer
from pyklient.errors import (
    AuthenticationError,
    BrokerConnectionError,
    BrokerError,
    BufferFullError,
    ClosedError,
    CommitError,
    ConfigurationError,
    ConsumerTimeout,
    CorruptRecordError,
    DataLossError,
    DeliveryError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    LoadConflictError,
    MessageStreamsExistError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    ProtocolError,
    StreamInUseError,
    UnsupportedCodecError,
    UnsupportedVersionError,
)
from pyklient.model import OffsetAndMetadata, RecordMetadata, TopicPartition
from pyklient.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions, ReadOptions
from pyklient.producer.bulk import BulkDelivery
from pyklient.producer.producer import Producer
from pyklient.protocol.records.kernel import Delivery, Message
from pyklient.version import VERSION

__version__ = VERSION

__all__ = [
    # clients
    "Admin",
    "ConsumerConnector",
    "Producer",
    "SimpleConsumer",
    "read",
    # what they hand out
    "BulkDelivery",
    "Delivery",
    "Fetched",
    "KafkaStream",
    "Message",
    "OffsetAndMetadata",
    "ConsumerRebalanceListener",
    "RecordMetadata",
    "TopicPartition",
    # options
    "AdminConfig",
    "ClientConfig",
    "ConsumerConfig",
    "ProducerConfig",
    # options, typed
    "AdminOptions",
    "ClientOptions",
    "ConsumerOptions",
    "ProducerOptions",
    "ReadOptions",
    # errors
    "AuthenticationError",
    "BrokerConnectionError",
    "BrokerError",
    "BufferFullError",
    "ClosedError",
    "CommitError",
    "ConfigurationError",
    "ConsumerTimeout",
    "CorruptRecordError",
    "DataLossError",
    "DeliveryError",
    "ForkError",
    "KafkaError",
    "KafkaTimeoutError",
    "LoadConflictError",
    "MessageStreamsExistError",
    "MessageTooLargeError",
    "OffsetOutOfRangeError",
    "ProtocolError",
    "StreamInUseError",
    "UnsupportedCodecError",
    "UnsupportedVersionError",
]
