"""The names of attributes in OpenTelemetry's semantic conventions for messaging, and the names of pyklient's
own attributes."""

from typing import Final

__all__ = [
    "BATCH_MESSAGE_COUNT",
    "CLIENT_ID",
    "CONSUMER_GROUP",
    "DESTINATION",
    "ERROR_TYPE",
    "KAFKA",
    "KEY",
    "OFFSET",
    "OPERATION",
    "OPERATION_TYPE",
    "PARTITION",
    "QUANTILE",
    "REQUEST",
    "SERVER_ADDRESS",
    "SERVER_PORT",
    "SYSTEM",
    "TOMBSTONE",
]

SYSTEM: Final = "messaging.system"
KAFKA: Final = "kafka"
"""The value of the attribute ``messaging.system``."""
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
CLIENT_ID: Final = "messaging.client.id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
BATCH_MESSAGE_COUNT: Final = "messaging.batch.message_count"
OFFSET: Final = "messaging.kafka.offset"
KEY: Final = "messaging.kafka.message.key"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# These are not in the conventions.
REQUEST: Final = "pyklient.request"
"""The attribute with the name of a request, such as ``Produce``."""
QUANTILE: Final = "quantile"
"""The attribute that tells which quantile a value is: 0.5, 0.99, or 1 for the largest value."""
