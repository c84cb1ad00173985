"""Transactional producers and ``read_committed`` consumers of other clients against the reference broker."""

import asyncio
import importlib
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from pyklient.broker import Broker
from pyklient.broker.cluster.offsets_topic import group_partition
from pyklient.broker.cluster.transaction_topic import TRANSACTION_TOPIC
from tests.servers.groups import committed
from tests.servers.java import java_command
from tests.servers.maven import kafka_libs

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # kafka-python reads its message definitions as it is imported
    kafka: Any = importlib.import_module("kafka")
aiokafka: Any = importlib.import_module("aiokafka")

DEADLINE = 30.0


@pytest.fixture(params=[2, 0], ids=["version-2", "version-1"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(transaction_version=request.param) as running:
        running.create_topic("t", 2)
        yield running


def producer_of_confluent(broker: Broker, transactional_id: str = "orders", **options: Any) -> Any:
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "log_level": 0,
            **options,
        }
    )


def consumer_of_confluent(broker: Broker, group: str, level: str) -> Any:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )


def read(broker: Broker, level: str = "read_committed") -> list[bytes]:
    """Return the values of the topic t, sorted, as a consumer of confluent-kafka reads them."""
    consumer = consumer_of_confluent(broker, "readers", level)
    consumer.assign(
        [confluent_kafka.TopicPartition("t", at, confluent_kafka.OFFSET_BEGINNING) for at in (0, 1)]
    )
    values, ends = [], 0
    deadline = time.monotonic() + DEADLINE
    while ends < 2:
        assert time.monotonic() < deadline
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
        elif message is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ends += 1
    consumer.close()
    return sorted(values)


def rounds(count: int) -> tuple[list[bytes], list[bytes]]:
    """Return the values of *count* transactions: those that are committed, and all."""
    values = [[b"%03d-%d" % (number, at) for at in range(4)] for number in range(count)]
    return (
        sorted(value for number, each in enumerate(values) for value in each if number % 3 != 1),
        sorted(value for each in values for value in each),
    )


def test_confluent_kafka_commits_and_aborts(broker: Broker) -> None:
    producer = producer_of_confluent(broker)
    producer.init_transactions(DEADLINE)
    for number in range(30):
        producer.begin_transaction()
        for at in range(4):
            producer.produce("t", b"%03d-%d" % (number, at), partition=at % 2)
        producer.flush(DEADLINE)  # Otherwise an abort forgets the records without sending them.
        if number % 3 == 1:
            producer.abort_transaction(DEADLINE)
        else:
            producer.commit_transaction(DEADLINE)
    kept, everything = rounds(30)
    assert read(broker) == kept
    assert read(broker, "read_uncommitted") == everything


def test_a_second_producer_of_confluent_kafka_fences_the_first(broker: Broker) -> None:
    zombie = producer_of_confluent(broker)
    zombie.init_transactions(DEADLINE)
    zombie.begin_transaction()
    zombie.produce("t", b"of a zombie", partition=0)
    zombie.flush(DEADLINE)
    producer = producer_of_confluent(broker)
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    producer.produce("t", b"new", partition=0)
    producer.commit_transaction(DEADLINE)
    with pytest.raises(confluent_kafka.KafkaException) as told:
        zombie.commit_transaction(DEADLINE)
    assert told.value.args[0].fatal()
    assert read(broker) == [b"new"]


def test_a_transaction_past_its_time_out_is_aborted_and_its_producer_fenced() -> None:
    with Broker(transaction_abort_timed_out_transaction_cleanup_interval_ms=20) as broker:
        broker.create_topic("t", 2)
        limits: dict[str, Any] = {"transaction.timeout.ms": 2500, "message.timeout.ms": 2500}
        producer = producer_of_confluent(broker, **limits)
        producer.init_transactions(DEADLINE)
        producer.begin_transaction()
        producer.produce("t", b"late", partition=0)
        producer.flush(DEADLINE)
        reader = consumer_of_confluent(broker, "waiting", "read_committed")
        reader.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        deadline = time.monotonic() + DEADLINE
        while reader.get_watermark_offsets(confluent_kafka.TopicPartition("t", 0), DEADLINE) != (0, 2):
            assert time.monotonic() < deadline, "the last stable offset stays before the open transaction"
        reader.close()
        with pytest.raises(confluent_kafka.KafkaException):
            producer.commit_transaction(DEADLINE)
        assert read(broker) == []


def test_offsets_of_confluent_kafka_are_committed_with_the_transaction(broker: Broker) -> None:
    producer = producer_of_confluent(broker)
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    for at in range(10):
        producer.produce("t", b"%d" % at, partition=0)
    producer.commit_transaction(DEADLINE)
    consumer = consumer_of_confluent(broker, "loop", "read_committed")
    consumer.subscribe(["t"])
    seen = 0
    deadline = time.monotonic() + DEADLINE
    while seen < 10:
        assert time.monotonic() < deadline
        message = consumer.poll(0.1)
        seen += message is not None and message.error() is None
    for ends in (producer.abort_transaction, producer.commit_transaction):
        assert committed(broker.bootstrap_servers, "loop", "t") == {}
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [confluent_kafka.TopicPartition("t", 0, 10)], consumer.consumer_group_metadata(), DEADLINE
        )
        ends(DEADLINE)
    assert committed(broker.bootstrap_servers, "loop", "t") == {0: 10}
    stale = consumer.consumer_group_metadata()
    consumer.close()
    with another_member(broker, "loop"):
        producer.begin_transaction()
        with pytest.raises(confluent_kafka.KafkaException) as told:
            producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition("t", 0, 99)], stale, DEADLINE
            )
        assert told.value.args[0].txn_requires_abort()
        producer.abort_transaction(DEADLINE)
    assert committed(broker.bootstrap_servers, "loop", "t") == {0: 10}


@contextmanager
def another_member(broker: Broker, group: str) -> Iterator[None]:
    """Let a new member join *group*, so that the group gets a new generation."""
    consumer = consumer_of_confluent(broker, group, "read_committed")
    consumer.subscribe(["t"])
    deadline = time.monotonic() + DEADLINE
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.05)
    yield
    consumer.close()


def test_kafka_python_commits_aborts_and_reads_back(broker: Broker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="orders")
    producer.init_transactions()
    for number in range(12):
        producer.begin_transaction()
        for at in range(4):
            producer.send("t", b"%03d-%d" % (number, at), partition=at % 2)
        producer.flush(DEADLINE)
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    kept, everything = rounds(12)
    assert read(broker) == kept
    assert read(broker, "read_uncommitted") == everything
    consumer = kafka.KafkaConsumer(
        "t",
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        group_id=None,
    )
    found: list[bytes] = []
    deadline = time.monotonic() + DEADLINE
    while len(found) < len(kept):
        assert time.monotonic() < deadline
        found += [each.value for records in consumer.poll(timeout_ms=100).values() for each in records]
    consumer.close()
    assert sorted(found) == kept


def test_aiokafka_commits_aborts_and_sends_offsets(broker: Broker) -> None:
    kept, _ = rounds(12)

    async def run() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="orders"
        )
        await producer.start()
        for number in range(12):
            await producer.begin_transaction()
            for at in range(4):
                await producer.send_and_wait("t", b"%03d-%d" % (number, at), partition=at % 2)
            where = aiokafka.TopicPartition("t", 0)
            await producer.send_offsets_to_transaction({where: 2 * number}, "of aiokafka")
            if number % 3 == 1:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        found: list[bytes] = []
        while len(found) < len(kept):
            batches = await consumer.getmany(timeout_ms=100)
            found += [each.value for records in batches.values() for each in records]
        await consumer.stop()
        return found

    found = asyncio.run(asyncio.wait_for(run(), DEADLINE))
    assert sorted(found) == kept
    assert committed(broker.bootstrap_servers, "of aiokafka", "t") == {0: 22}


def java(main: str, *arguments: str) -> str:
    """Run the class *main* of Kafka 4.3.1 and return its output."""
    command = java_command(kafka_libs("4.3.1"), main, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.java
@pytest.mark.parametrize("version", [2, 1])
def test_kafkas_message_copier_copies_each_record_once(tmp_path: Path, version: int) -> None:
    count = 2_000
    with Broker(data_dir=tmp_path, transaction_version=version) as broker:
        broker.create_topic("in")
        broker.create_topic("t", 2)
        filler = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        for at in range(count):
            filler.produce("in", b"%06d" % at, partition=0)
        assert filler.flush(DEADLINE) == 0
        java(
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *("--broker-list", broker.bootstrap_servers, "--input-topic", "in", "--input-partition", "0"),
            *("--output-topic", "t", "--consumer-group", "copier", "--transactional-id", "copier"),
            *("--transaction-size", "50", "--enable-random-aborts", "--group-mode", "--use-group-metadata"),
        )
        assert read(broker) == [b"%06d" % at for at in range(count)]
        assert len(read(broker, "read_uncommitted")) >= count
        assert committed(broker.bootstrap_servers, "copier", "in") == {0: count}


@pytest.mark.java
def test_kafkas_tools_read_the_state_and_the_files_of_transactions(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("t", 2)
        producer = producer_of_confluent(broker)
        producer.init_transactions(DEADLINE)
        for ends in (producer.abort_transaction, producer.commit_transaction, None):
            producer.begin_transaction()
            producer.produce("t", b"value", partition=0)
            producer.flush(DEADLINE)
            if ends is not None:
                ends(DEADLINE)
        address = ("--bootstrap-server", broker.bootstrap_servers)
        tool = "org.apache.kafka.tools.TransactionsCommand"
        listed = java(tool, *address, "list").splitlines()[1].split()
        assert (listed[0], listed[1], listed[3]) == ("orders", "1", "Ongoing")
        described = java(tool, *address, "describe", "--transactional-id", "orders").splitlines()[1].split()
        assert (described[1], described[4], described[-1]) == ("orders", "Ongoing", "t-0")
        producers = java(tool, *address, "describe-producers", "--topic", "t", "--partition", "0")
        assert producers.splitlines()[1].split()[-1] == "4", "the third transaction begins at offset 4"
        formatted = java(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *(*address, "--topic", TRANSACTION_TOPIC, "--partition", str(group_partition("orders", 50))),
            *("--offset", "earliest", "--max-messages", "8", "--timeout-ms", "30000"),
            *("--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"),
        )
        records = list(json_objects(formatted))
        assert all(each["key"]["data"] == {"transactionalId": "orders"} for each in records)
        states = [each["value"]["data"]["transactionStatus"] for each in records]
        assert states == [0, 1, 3, 5, 1, 2, 4, 1], "Empty, Ongoing, PrepareAbort, CompleteAbort, …"
        assert records[1]["value"]["data"]["transactionPartitions"] == [{"topic": "t", "partitionIds": [0]}]
        producer.abort_transaction(DEADLINE)
    dump = "org.apache.kafka.tools.DumpLogSegments"
    [log] = (tmp_path / "t-0").glob("*.log")
    dumped = java(dump, "--print-data-log", "--files", str(log))
    assert [word for word in dumped.split() if word in ("ABORT", "COMMIT")] == ["ABORT", "COMMIT", "ABORT"]
    index = java(dump, "--files", str(log.with_suffix(".txnindex")))
    offsets = [re.findall(r"Offset: (\d+)", line) for line in index.splitlines() if "firstOffset" in line]
    assert offsets == [["0", "1", "2"], ["4", "5", "6"]], "the first and last offset, the last stable offset"


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in *text*, which follow each other without any space between them."""
    text, position = text.strip(), 0
    while position < len(text):
        each, position = json.JSONDecoder().raw_decode(text, position)
        yield each


KILLED = """
import sys
from pyklient.broker import Broker
with Broker(data_dir=sys.argv[1], transaction_abort_timed_out_transaction_cleanup_interval_ms=20) as broker:
    broker.create_topic("t", 2)
    print(broker.port, flush=True)
    broker.wait()
"""


def test_after_a_kill_what_was_committed_is_there_and_what_was_open_is_aborted(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(directory)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    options = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
    limits = {"transaction.timeout.ms": 2500, "message.timeout.ms": 2500}
    producers = []
    for name, ends in (("a", "abort_transaction"), ("b", "commit_transaction"), ("c", None)):
        producer = confluent_kafka.Producer(
            {**options, "transactional.id": name, **(limits if ends is None else {})}
        )
        producer.init_transactions(DEADLINE)
        producer.begin_transaction()
        for at in range(4):
            producer.produce("t", b"%s-%d" % (name.encode(), at), partition=at % 2)
        assert producer.flush(DEADLINE) == 0
        if ends is not None:
            getattr(producer, ends)(DEADLINE)
        producers.append(producer)
    process.kill()
    process.wait(DEADLINE)
    process.stdout.close()
    with Broker(
        port=port, data_dir=directory, transaction_abort_timed_out_transaction_cleanup_interval_ms=20
    ) as broker:
        until_stable(broker)
        assert read(broker) == [b"b-%d" % at for at in range(4)]
        assert len(read(broker, "read_uncommitted")) == 12
        again = producer_of_confluent(broker, "c")
        again.init_transactions(DEADLINE)
        again.begin_transaction()
        again.produce("t", b"c-new", partition=0)
        again.commit_transaction(DEADLINE)
        assert read(broker) == [*(b"b-%d" % at for at in range(4)), b"c-new"]


def until_stable(broker: Broker) -> None:
    """Wait until no transaction is open in the topic t."""
    deadline = time.monotonic() + DEADLINE
    reader = consumer_of_confluent(broker, "stable", "read_committed")
    other = consumer_of_confluent(broker, "stable", "read_uncommitted")
    for at in (0, 1):
        where = confluent_kafka.TopicPartition("t", at)
        while reader.get_watermark_offsets(where, DEADLINE) != other.get_watermark_offsets(where, DEADLINE):
            assert time.monotonic() < deadline
    reader.close()
    other.close()
