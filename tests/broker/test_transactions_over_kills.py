"""Kafka's own message copier copies each record once, although the broker is killed while it copies."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.broker.test_transactional_clients import DEADLINE
from tests.servers.groups import committed
from tests.servers.java import java_command
from tests.servers.maven import kafka_libs

COUNT = 4_000
PER_TRANSACTION = 20
LONGEST = 180.0
"""The number of seconds after which the copier is ended, because it hangs."""
KILLED_AFTER = (30, 80)
"""The broker is killed when the copier has reported this many transactions."""

PROGRAM = """
import sys
from pyklient.broker import Broker
with Broker(
    int(sys.argv[2]), data_dir=sys.argv[1], transaction_abort_timed_out_transaction_cleanup_interval_ms=100
) as broker:
    print(broker.port, flush=True)
    broker.wait()
"""


class Killed:
    """A broker in a process of its own, which can be killed and started again on the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", PROGRAM, str(self._directory), str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Killed]:
    running = Killed(tmp_path / "data")
    yield running
    running.kill()


def read(bootstrap: str, topic: str) -> list[bytes | None]:
    """Return the values of partition 0 of *topic* up to its end, in order, with ``read_committed``."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    while True:
        [message] = consumer.consume(1, DEADLINE)
        if (error := message.error()) is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
            consumer.close()
            return values
        values.append(message.value())


@pytest.mark.java
def test_kafkas_message_copier_copies_each_record_once_over_kills_of_the_broker(broker: Killed) -> None:
    address = f"127.0.0.1:{broker.port}"
    filler = confluent_kafka.Producer({"bootstrap.servers": address})
    for at in range(COUNT):
        filler.produce("in", b"%06d" % at)
    assert filler.flush(DEADLINE) == 0
    command = java_command(
        kafka_libs("4.3.1"),
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", address, "--input-topic", "in", "--input-partition", "0"),
        *("--output-topic", "out", "--consumer-group", "copier", "--transactional-id", "copier"),
        *("--transaction-size", str(PER_TRANSACTION), "--enable-random-aborts"),
        *("--group-mode", "--use-group-metadata"),
    )
    reported = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as copier:
        assert copier.stdout is not None
        limit = threading.Timer(LONGEST, copier.kill)
        limit.start()
        for line in copier.stdout:
            if '"ProcessLoop"' in line:
                reported += 1
                if reported in KILLED_AFTER:
                    broker.kill()
                    broker.start()
        limit.cancel()
        assert copier.wait(DEADLINE) == 0
    assert reported > KILLED_AFTER[-1]
    assert read(address, "out") == [b"%06d" % at for at in range(COUNT)]
    assert committed(address, "copier", "in") == {0: COUNT}
