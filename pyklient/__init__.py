"""pyklient: a fast Python client for Apache Kafka.

::

    from pyklient import ConsumerConnector, Producer

    with Producer("localhost:9092") as producer:
        producer.send("clicks", b"home", key=b"user-1")

    with ConsumerConnector("localhost:9092", group_id="billing") as connector:
        for message in connector.stream("clicks"):
            print(message.key, message.value)

The public interface is this module and these modules:

- ``pyklient.broker``: a broker for tests and first runs
- ``pyklient.handlers``: retries and dead letters
- ``pyklient.metrics``: counts and rates of what clients do
- ``pyklient.mirror``: copies of topics in another cluster
- ``pyklient.offset_stores``: positions in SQLite and PostgreSQL
- ``pyklient.serialization``: encoders and decoders
- ``pyklient.spark``: topics as DataFrames
- ``pyklient.telemetry``: metrics and traces for OpenTelemetry
"""

from typing import TYPE_CHECKING, Final

from pyklient.lazy_imports import on_first_use
from pyklient.version import VERSION

if TYPE_CHECKING:
    from pyklient.admin import Admin
    from pyklient.assignors.assignor import Assignor, LastAssignment, Subscriber
    from pyklient.classic.callback_handler import CallbackHandler
    from pyklient.classic.classic_producer import ClassicProducer
    from pyklient.classic.encoders import DefaultEncoder, StringEncoder
    from pyklient.classic.event_handler import EventHandler
    from pyklient.classic.partitioners import ByteArrayPartitioner, DefaultPartitioner
    from pyklient.classic.producer_config import ClassicProducerConfig
    from pyklient.classic.producer_data import ProducerData
    from pyklient.classic.producer_request import ProducerRequest, ProducerResponseStatus
    from pyklient.classic.queue_item import QueueItem
    from pyklient.classic.sync_producer import SyncProducer
    from pyklient.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
    from pyklient.config.keyword_types import (
        AdminOptions,
        ClientOptions,
        ConsumerOptions,
        ProducerOptions,
        ReadOptions,
    )
    from pyklient.consumer.bounded_read import BoundedRead, read
    from pyklient.consumer.consumer_connector import ConsumerConnector
    from pyklient.consumer.group.rebalance_listener import ClassicRebalanceListener, ConsumerRebalanceListener
    from pyklient.consumer.kafka_stream import KafkaStream
    from pyklient.consumer.simple.broker_consumer import BrokerConsumer
    from pyklient.consumer.simple.broker_fetches import SimpleFetchResponse
    from pyklient.consumer.simple.fetch_requests import (
        FetchRequestBuilder,
        PartitionFetch,
        SimpleFetchRequest,
    )
    from pyklient.consumer.simple.fetched import Fetched
    from pyklient.consumer.simple.simple_consumer import SimpleConsumer
    from pyklient.consumer.topic_filters.topic_filter import Blacklist, Whitelist
    from pyklient.corrupt_records import CorruptRecords
    from pyklient.errors import (
        AbortableTransactionError,
        AuthenticationError,
        BrokerConnectionError,
        BrokerError,
        BufferFullError,
        ClosedError,
        CommitError,
        CommitOutcomeUnknownError,
        ConfigurationError,
        ConsumerTimeout,
        CorruptRecordError,
        DataLossError,
        DeliveryError,
        FailedToSendMessageError,
        FatalTransactionError,
        ForkError,
        InvalidPartitionError,
        KafkaError,
        KafkaTimeoutError,
        LoadConflictError,
        MessageStreamsExistError,
        MessageTooLargeError,
        NoBrokersForPartitionError,
        OffsetOutOfRangeError,
        OffsetStoreFencedError,
        PartitionNotAssignedError,
        ProducerClosedError,
        ProducerFencedError,
        ProtocolError,
        QueueClosedError,
        QueueFullError,
        RebalanceFailedError,
        StreamInUseError,
        TransactionAbortedError,
        TransactionError,
        TransactionStateError,
        UnreachableError,
        UnsupportedCodecError,
        UnsupportedVersionError,
    )
    from pyklient.group_metadata import GroupMetadata
    from pyklient.group_transactions import group_transaction
    from pyklient.kernel import Delivery, KeyedMessage, Message
    from pyklient.mirror.mirror import Mirror
    from pyklient.offset_stores.offset_store import OffsetStore
    from pyklient.producer.bulk_delivery import BulkDelivery
    from pyklient.producer.producer import Producer
    from pyklient.topic_partition import OffsetAndMetadata, RecordMetadata, TopicPartition

__version__ = VERSION

__all__ = [
    # clients
    "Admin",
    "BrokerConsumer",
    "ConsumerConnector",
    "Mirror",
    "Producer",
    "SimpleConsumer",
    "group_transaction",
    "read",
    # what SimpleConsumer.connect's consumer fetches
    "FetchRequestBuilder",
    "PartitionFetch",
    "SimpleFetchRequest",
    "SimpleFetchResponse",
    # what the clients return
    "BoundedRead",
    "BulkDelivery",
    "CorruptRecords",
    "Delivery",
    "Fetched",
    "GroupMetadata",
    "KafkaStream",
    "Message",
    "OffsetAndMetadata",
    "ClassicRebalanceListener",
    "ConsumerRebalanceListener",
    "RecordMetadata",
    "TopicPartition",
    # offsets in the user's database
    "OffsetStore",
    # assignors
    "Assignor",
    "LastAssignment",
    "Subscriber",
    # the classic producer
    "ByteArrayPartitioner",
    "CallbackHandler",
    "ClassicProducer",
    "ClassicProducerConfig",
    "DefaultEncoder",
    "DefaultPartitioner",
    "EventHandler",
    "KeyedMessage",
    "ProducerData",
    "ProducerRequest",
    "ProducerResponseStatus",
    "QueueItem",
    "StringEncoder",
    "SyncProducer",
    # filters of topics
    "Blacklist",
    "Whitelist",
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
    "AbortableTransactionError",
    "AuthenticationError",
    "BrokerConnectionError",
    "BrokerError",
    "BufferFullError",
    "ClosedError",
    "CommitError",
    "CommitOutcomeUnknownError",
    "ConfigurationError",
    "ConsumerTimeout",
    "CorruptRecordError",
    "DataLossError",
    "DeliveryError",
    "FailedToSendMessageError",
    "FatalTransactionError",
    "ForkError",
    "InvalidPartitionError",
    "KafkaError",
    "KafkaTimeoutError",
    "LoadConflictError",
    "MessageStreamsExistError",
    "MessageTooLargeError",
    "NoBrokersForPartitionError",
    "OffsetOutOfRangeError",
    "OffsetStoreFencedError",
    "PartitionNotAssignedError",
    "ProducerClosedError",
    "ProducerFencedError",
    "ProtocolError",
    "QueueClosedError",
    "QueueFullError",
    "RebalanceFailedError",
    "StreamInUseError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionStateError",
    "UnreachableError",
    "UnsupportedCodecError",
    "UnsupportedVersionError",
]

# The module of a name is imported when the name is first used. So a process that only sends imports no
# consumer, and the processes in which Spark plans a query (three for each) import almost nothing.
_HOMES: Final = {
    "pyklient.admin": "Admin",
    "pyklient.assignors.assignor": "Assignor LastAssignment Subscriber",
    "pyklient.classic.callback_handler": "CallbackHandler",
    "pyklient.classic.classic_producer": "ClassicProducer",
    "pyklient.classic.encoders": "DefaultEncoder StringEncoder",
    "pyklient.classic.event_handler": "EventHandler",
    "pyklient.classic.partitioners": "ByteArrayPartitioner DefaultPartitioner",
    "pyklient.classic.producer_config": "ClassicProducerConfig",
    "pyklient.classic.producer_data": "ProducerData",
    "pyklient.classic.producer_request": "ProducerRequest ProducerResponseStatus",
    "pyklient.classic.queue_item": "QueueItem",
    "pyklient.classic.sync_producer": "SyncProducer",
    "pyklient.corrupt_records": "CorruptRecords",
    "pyklient.config": "AdminConfig ClientConfig ConsumerConfig ProducerConfig",
    "pyklient.consumer.consumer_connector": "ConsumerConnector",
    "pyklient.consumer.group.rebalance_listener": "ClassicRebalanceListener ConsumerRebalanceListener",
    "pyklient.consumer.topic_filters.topic_filter": "Blacklist Whitelist",
    "pyklient.group_metadata": "GroupMetadata",
    "pyklient.group_transactions": "group_transaction",
    "pyklient.consumer.kafka_stream": "KafkaStream",
    "pyklient.consumer.bounded_read": "BoundedRead read",
    "pyklient.consumer.simple.broker_consumer": "BrokerConsumer",
    "pyklient.consumer.simple.broker_fetches": "SimpleFetchResponse",
    "pyklient.consumer.simple.fetch_requests": "FetchRequestBuilder PartitionFetch SimpleFetchRequest",
    "pyklient.consumer.simple.fetched": "Fetched",
    "pyklient.consumer.simple.simple_consumer": "SimpleConsumer",
    "pyklient.errors": (
        "AbortableTransactionError AuthenticationError BrokerConnectionError BrokerError "
        "BufferFullError ClosedError CommitError CommitOutcomeUnknownError ConfigurationError "
        "ConsumerTimeout CorruptRecordError DataLossError DeliveryError FailedToSendMessageError "
        "FatalTransactionError ForkError InvalidPartitionError KafkaError KafkaTimeoutError "
        "LoadConflictError MessageStreamsExistError MessageTooLargeError NoBrokersForPartitionError "
        "OffsetOutOfRangeError OffsetStoreFencedError PartitionNotAssignedError ProducerClosedError "
        "ProducerFencedError ProtocolError QueueClosedError QueueFullError RebalanceFailedError "
        "StreamInUseError TransactionAbortedError TransactionError TransactionStateError "
        "UnreachableError UnsupportedCodecError UnsupportedVersionError"
    ),
    "pyklient.offset_stores.offset_store": "OffsetStore",
    "pyklient.topic_partition": "OffsetAndMetadata RecordMetadata TopicPartition",
    "pyklient.config.keyword_types": "AdminOptions ClientOptions ConsumerOptions ProducerOptions ReadOptions",
    "pyklient.mirror.mirror": "Mirror",
    "pyklient.producer.bulk_delivery": "BulkDelivery",
    "pyklient.producer.producer": "Producer",
    "pyklient.kernel": "Delivery KeyedMessage Message",
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES: Final = frozenset(
    {
        "broker",
        "errors",
        "handlers",
        "metrics",
        "mirror",
        "offset_stores",
        "serialization",
        "spark",
        "telemetry",
    }
)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__ = on_first_use(globals(), _HOME_OF, _MODULES)


def __dir__() -> list[str]:
    # Without modules that need an extra, because help() imports every name in this list.
    return sorted({*globals(), *__all__, *_MODULES} - {"spark", "telemetry"})
