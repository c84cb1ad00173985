"""The same operations with confluent-kafka and with kafka-python."""

import contextlib
import importlib
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import confluent_kafka

__all__ = ["PEERS", "SESSION_MS", "Peer", "Record"]

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's, for how it reads its own files
    _kafka: Any = importlib.import_module("kafka")
    _ASSIGNORS: dict[str, Any] = {
        "range": importlib.import_module("kafka.coordinator.assignors.range").RangePartitionAssignor,
        "roundrobin": importlib.import_module(
            "kafka.coordinator.assignors.roundrobin"
        ).RoundRobinPartitionAssignor,
        "sticky": importlib.import_module(
            "kafka.coordinator.assignors.sticky.sticky_assignor"
        ).StickyPartitionAssignor,
        "cooperative-sticky": importlib.import_module(
            "kafka.coordinator.assignors.cooperative_sticky"
        ).CooperativeStickyAssignor,
    }

_PATIENCE = 30.0
SESSION_MS = 30_000
"""The session time-out of members. On a busy machine, a member may send no heartbeat for some seconds."""
_silent = logging.getLogger("tests.interop")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Record(NamedTuple):
    """The parts of a record that must be equal in both clients."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


class Peer(Protocol):
    """Another client of Kafka."""

    name: str
    sends_null_headers: bool
    """True if its users can send a header whose value is null."""

    def produce(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
        """Produce *records* to partition 0 and wait until they are stored."""

    def read(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        """Return the first *count* records of partition 0, read without a group."""

    def member(
        self, bootstrap: str, group: str, topic: str, client_id: str, assignor: str = "range"
    ) -> "contextlib.AbstractContextManager[Member]":
        """Return a member of *group* that uses *assignor* and commits when it leaves."""


class Member(Protocol):
    """A consumer in a group."""

    def poll(self) -> list[tuple[int, int, Record]]:
        """Return (partition, offset, record) of each record that has arrived. Waits a moment, and takes part
        in rebalances."""


class Confluent:
    """confluent-kafka, which is librdkafka."""

    name = "confluent-kafka"
    sends_null_headers = True

    def produce(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
        failures: list[object] = []
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}, logger=_silent
        )
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                0,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        assert producer.flush(_PATIENCE) == 0
        assert not failures

    def read(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        with self._consumer(bootstrap, "reader-without-a-group") as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
            messages = consumer.consume(count, _PATIENCE)
        return [self._record(message) for message in messages]

    @contextlib.contextmanager
    def member(
        self, bootstrap: str, group: str, topic: str, client_id: str, assignor: str = "range"
    ) -> Iterator["ConfluentMember"]:
        with self._consumer(bootstrap, group, client_id, assignor) as consumer:
            consumer.subscribe([topic])
            yield ConfluentMember(consumer)

    @contextlib.contextmanager
    def _consumer(
        self, bootstrap: str, group: str, client_id: str = "peer", assignor: str = "range"
    ) -> Iterator[confluent_kafka.Consumer]:
        options = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 100,
        }
        consumer = confluent_kafka.Consumer(options, logger=_silent)
        try:
            yield consumer
        finally:
            consumer.close()

    @staticmethod
    def _record(message: confluent_kafka.Message) -> Record:
        assert message.error() is None
        headers: Any = message.headers()
        return Record(message.key(), message.value(), message.timestamp()[1], tuple(headers or ()))


class ConfluentMember:
    def __init__(self, consumer: confluent_kafka.Consumer) -> None:
        self._consumer = consumer

    def poll(self) -> list[tuple[int, int, Record]]:
        messages: list[Any] = self._consumer.consume(1000, 0.1)
        return [(message.partition(), message.offset(), Confluent._record(message)) for message in messages]


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"
    sends_null_headers = False

    def produce(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> None:
        compression = None if codec == "none" else codec
        producer = _kafka.KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5
        )
        try:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(timeout=_PATIENCE)
            for future in futures:
                future.get(timeout=_PATIENCE)
        finally:
            producer.close(timeout=5)

    def read(self, bootstrap: str, topic: str, count: int) -> list[Record]:
        consumer = _kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        try:
            consumer.assign([_kafka.TopicPartition(topic, 0)])
            found: list[Record] = []
            deadline = time.monotonic() + _PATIENCE
            while len(found) < count and time.monotonic() < deadline:
                for messages in consumer.poll(timeout_ms=200).values():
                    found += [self._record(message) for message in messages]
            return found
        finally:
            consumer.close()

    @contextlib.contextmanager
    def member(
        self, bootstrap: str, group: str, topic: str, client_id: str, assignor: str = "range"
    ) -> Iterator["KafkaPythonMember"]:
        consumer = _kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            client_id=client_id,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[_ASSIGNORS[assignor]],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
        )
        # A member that leads its group before it has the topic's metadata assigns no partitions, and may not
        # do so later. So it asks for the metadata before it joins.
        assert consumer.partitions_for_topic(topic)
        consumer.subscribe([topic])
        try:
            yield KafkaPythonMember(consumer)
        finally:
            consumer.close()

    @staticmethod
    def _record(message: Any) -> Record:
        return Record(message.key, message.value, message.timestamp, tuple(message.headers))


class KafkaPythonMember:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def poll(self) -> list[tuple[int, int, Record]]:
        # kafka-python 3.0.12 forgets a join that outlasts poll() if the reason for it was new metadata: it no
        # longer needs to join, waits for no answer, and sends no heartbeat.
        coordinator = self._consumer._coordinator
        if coordinator.rejoining and not coordinator.need_rejoin():
            coordinator.request_rejoin()
        # This is also the time that kafka-python has for its commit before a rebalance. If the time runs out,
        # it joins without the commit, and records are read twice.
        batches = self._consumer.poll(timeout_ms=2_000)
        return [
            (message.partition, message.offset, KafkaPython._record(message))
            for messages in batches.values()
            for message in messages
        ]


PEERS: list[Peer] = [Confluent(), KafkaPython()]
