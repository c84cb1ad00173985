"""Transactions of librdkafka's producer, for tests of what readers make of them."""

import struct
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from pyklient import GroupMetadata, TopicPartition

__all__ = ["as_librdkafkas", "begin", "send_offsets", "transactional"]

TIMEOUT = 60.0


def transactional(bootstrap: str, name: str, **options: object) -> confluent_kafka.Producer:
    """Return librdkafka's producer with the transactional id *name*. It aborts a transaction that an earlier
    producer of this name left open."""
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    config |= {key.replace("_", "."): value for key, value in options.items()}
    producer = confluent_kafka.Producer(config)
    producer.init_transactions(TIMEOUT)
    return producer


def begin(producer: confluent_kafka.Producer, topic: str, *values: str, partition: int = 0) -> None:
    """Begin a transaction with *values*, each of which is its own key, and wait until they are stored."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, key=value, value=value, partition=partition)
    assert producer.flush(TIMEOUT) == 0


def send_offsets(
    producer: confluent_kafka.Producer, offsets: Mapping[TopicPartition, int], metadata: GroupMetadata
) -> None:
    """Make *offsets* part of the producer's transaction, in the name of the member that *metadata* is of."""
    positions = [confluent_kafka.TopicPartition(*where, offset) for where, offset in offsets.items()]
    producer.send_offsets_to_transaction(positions, as_librdkafkas(metadata), TIMEOUT)


def as_librdkafkas(metadata: GroupMetadata) -> bytes:
    """Return *metadata* as librdkafka writes its own group metadata."""
    instance = metadata.group_instance_id
    texts = b"".join(text.encode() + b"\0" for text in (metadata.group_id, metadata.member_id))
    named = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    return b"CGMDv2:" + struct.pack("=i", metadata.generation_id) + texts + named
