"""A broker of one release of Kafka, and the clients of that release that the tests compare pyklient with."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.brokers.records import Sent
from tests.servers.java import java_command
from tests.servers.kafka import NEWEST, KraftCluster
from tests.servers.maven import kafka_libs
from tests.servers.process import ServerProcess, wait_until
from tests.servers.topics import create_topic
from tests.servers.zookeeper_kafka import ZooKeeperKafka

__all__ = ["Release"]

_TIMEOUT: Final = 60
_SEPARATOR: Final = "|"
_FOREVER_MS: Final = 100 * 365 * 24 * 3_600_000
"""A retention that no record outlives. Kafka 0.8.2 takes -1 for a time that has passed, and deletes all."""


class Release:
    """The broker *server*, which runs Kafka *version*."""

    def __init__(self, version: str, server: ZooKeeperKafka | KraftCluster) -> None:
        self.name = version
        self.version = tuple(int(part) for part in version.split("."))
        self.server = server
        self.bootstrap = server.bootstrap_servers

    @property
    def process(self) -> ServerProcess:
        """The process of the broker."""
        server = self.server
        return server.process if isinstance(server, ZooKeeperKafka) else server.processes[1]

    @property
    def codecs(self) -> list[str]:
        """The codecs that producers may use."""
        return ["none", "gzip", "snappy", "lz4", *(["zstd"] if self.version >= (2, 1) else [])]

    @property
    def has_timestamps(self) -> bool:
        return self.version >= (0, 10)

    @property
    def has_headers(self) -> bool:
        return self.version >= (0, 11)

    def new_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic, and return its name."""
        if isinstance(self.server, KraftCluster):
            return create_topic(self.bootstrap, name, partitions)
        return self.server.create_topic(name, partitions, retention_ms=_FOREVER_MS)

    # The console tools, of the same release. Those of 3.9 are in a jar of their own.

    def console_read(self, topic: str, count: int, isolation: str = "") -> list[tuple[str, str]]:
        """Return (key, value) of the first *count* records, as the console consumer prints them, with the
        isolation level *isolation* (if empty: the consumer's own)."""
        new = self.version >= (3,)
        main = "org.apache.kafka.tools.consumer.ConsoleConsumer" if new else "kafka.tools.ConsoleConsumer"
        if isinstance(self.server, ZooKeeperKafka) and self.version < (0, 9):
            where = ["--zookeeper", self.server.zookeeper_connect]
        else:
            where = [
                *(["--new-consumer"] if self.version < (0, 10) else []),
                "--bootstrap-server",
                self.bootstrap,
            ]
        prints = "--formatter-property" if new else "--property"
        properties = ["print.key=true", f"key.separator={_SEPARATOR}"]
        command = java_command(
            kafka_libs(NEWEST if new else self.name),
            main,
            *where,
            *("--topic", topic, "--from-beginning", "--max-messages", str(count)),
            *(["--isolation-level", isolation] if isolation else []),
            *(word for each in properties for word in (prints, each)),
            heap="128m",
        )
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        lines = [line.split(_SEPARATOR, 1) for line in ran.stdout.splitlines() if _SEPARATOR in line]
        assert len(lines) == count, ran.stdout + ran.stderr
        return [(key, value) for key, value in lines]

    def console_write(self, topic: str, records: Sequence[tuple[str, str]], codec: str) -> None:
        """Write (key, value) records with the console producer."""
        main = (
            "org.apache.kafka.tools.ConsoleProducer"
            if self.version >= (4,)
            else "kafka.tools.ConsoleProducer"
        )
        where = "--broker-list" if self.version < (2, 5) else "--bootstrap-server"
        reads = "--reader-property" if self.version >= (4,) else "--property"
        command = java_command(
            kafka_libs(self.name),
            main,
            *(where, self.bootstrap, "--topic", topic, "--compression-codec", codec),
            *("--request-required-acks", "1"),  # by default old tools do not wait for the broker
            *(reads, "parse.key=true", reads, f"key.separator={_SEPARATOR}"),
            heap="128m",
        )
        lines = "".join(f"{key}{_SEPARATOR}{value}\n" for key, value in records)
        ran = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    # librdkafka, which is told the release of brokers that do not name their versions

    def librdkafka(self, **options: Any) -> dict[str, Any]:
        """Return options of a client."""
        old = {"api.version.request": False, "broker.version.fallback": self.name}
        return {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            **(old if self.version < (0, 10) else {}),
            **{name.replace("_", "."): value for name, value in options.items()},
        }

    def write(self, topic: str, records: Sequence[Sent], codec: str) -> None:
        """Write *records* to partition 0 in one batch or a few."""
        producer = Producer(self.librdkafka(compression_type=codec, linger_ms=50))
        for record in records:
            more: dict[str, Any] = {}
            if self.has_timestamps:
                more["timestamp"] = record.timestamp_ms
            if self.has_headers:
                more["headers"] = list(record.headers)
            producer.produce(topic, record.value, record.key, 0, **more)
        assert producer.flush(60) == 0

    def read(self, topic: str, count: int) -> list[Sent]:
        """Return the first *count* records of partition 0; without timestamps and headers where the broker
        has none."""
        consumer = Consumer(self.librdkafka(group_id=f"{topic}-check"))
        found: list[Any] = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            wait_until(lambda: _collect(consumer, found, count), 60, f"{count} records of {topic}")
        finally:
            consumer.close()
        return [
            Sent(
                message.key(),
                message.value(),
                message.timestamp()[1] if self.has_timestamps else -1,
                tuple(message.headers() or ()),
            )
            for message in found
        ]

    def committed(self, group: str, topic: str, partitions: int) -> Mapping[int, int]:
        """Return the offsets that *group* has committed."""
        consumer = Consumer(self.librdkafka(group_id=group))
        try:
            asked = [TopicPartition(topic, number) for number in range(partitions)]
            return {each.partition: each.offset for each in consumer.committed(asked, timeout=30)}
        finally:
            consumer.close()


def _collect(consumer: Consumer, found: list[Any], count: int) -> bool:
    for message in consumer.consume(count - len(found), timeout=0.1):
        assert message.error() is None, message.error()
        found.append(message)
    return len(found) == count
