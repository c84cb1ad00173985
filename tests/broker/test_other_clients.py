"""Other Kafka clients against the reference broker."""

import asyncio
import importlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import confluent_kafka
import pytest

from pyklient.broker import Broker

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # kafka-python reads its message definitions as it is imported
    kafka: Any = importlib.import_module("kafka")
aiokafka: Any = importlib.import_module("aiokafka")
admin_of_confluent: Any = importlib.import_module("confluent_kafka.admin")

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
DEADLINE = 30.0
COUNT = 500


def until(what: Callable[[], bool]) -> None:
    """Wait until *what* returns True."""
    end = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def expected(at: int) -> tuple[bytes | None, bytes, int, list[Any]]:
    return (
        (None if at % 7 == 0 else b"k%d" % at),
        b"v%d" % at * 20,
        1_600_000_000_000 + at,
        [("h", b"%d" % at)],
    )


def produce_with_confluent(broker: Broker, topic: str, codec: str, **options: Any) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 5, **options}
    )
    failed: list[Any] = []
    for at in range(COUNT):
        key, value, stamp, headers = expected(at)
        producer.produce(
            topic,
            value,
            key,
            partition=at % 2,
            timestamp=stamp,
            headers=headers,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(DEADLINE) == 0
    assert failed == []


def produce_with_kafka_python(broker: Broker, topic: str, codec: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, compression_type=None if codec == "none" else codec
    )
    sent = []
    for at in range(COUNT):
        key, value, stamp, headers = expected(at)
        sent.append(producer.send(topic, value, key, headers=headers, partition=at % 2, timestamp_ms=stamp))
    producer.flush(DEADLINE)
    assert [future.get(DEADLINE).offset for future in sent] == [at // 2 for at in range(COUNT)]
    producer.close()


@contextmanager
def confluent_consumer(broker: Broker, group: str, topic: str, **options: Any) -> Iterator[Any]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 100,
            **options,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def kafka_python_consumer(broker: Broker, group: str | None, topic: str, **options: Any) -> Iterator[Any]:
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
        **options,
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read_with_confluent(consumer: Any, count: int) -> dict[tuple[int, int], tuple[Any, ...]]:
    found: dict[tuple[int, int], tuple[Any, ...]] = {}
    end = time.monotonic() + DEADLINE
    while len(found) < count:
        assert time.monotonic() < end
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            facts = (message.key(), message.value(), message.timestamp()[1], message.headers())
            found[message.partition(), message.offset()] = facts
    return found


def read_with_kafka_python(consumer: Any, count: int) -> dict[tuple[int, int], tuple[Any, ...]]:
    found: dict[tuple[int, int], tuple[Any, ...]] = {}
    end = time.monotonic() + DEADLINE
    while len(found) < count:
        assert time.monotonic() < end
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                found[record.partition, record.offset] = (
                    record.key,
                    record.value,
                    record.timestamp,
                    list(record.headers),
                )
    return found


ALL = {(at % 2, at // 2): expected(at) for at in range(COUNT)}


@pytest.mark.parametrize("codec", CODECS)
def test_what_confluent_kafka_produces_both_read(broker: Broker, codec: str) -> None:
    broker.create_topic("t", 2)
    produce_with_confluent(broker, "t", codec)
    with confluent_consumer(broker, "g", "t") as consumer:
        assert read_with_confluent(consumer, COUNT) == ALL
    with kafka_python_consumer(broker, None, "t") as consumer:
        assert read_with_kafka_python(consumer, COUNT) == ALL


@pytest.mark.parametrize("codec", CODECS)
def test_what_kafka_python_produces_both_read(broker: Broker, codec: str) -> None:
    broker.create_topic("t", 2)
    produce_with_kafka_python(broker, "t", codec)
    with confluent_consumer(broker, "g", "t") as consumer:
        assert read_with_confluent(consumer, COUNT) == ALL
    with kafka_python_consumer(broker, None, "t") as consumer:
        assert read_with_kafka_python(consumer, COUNT) == ALL


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_confluent_kafka_produces_with_every_acks(broker: Broker, acks: str) -> None:
    broker.create_topic("t", 2)
    produce_with_confluent(broker, "t", "none", acks=acks)
    with confluent_consumer(broker, "g", "t") as consumer:
        assert len(read_with_confluent(consumer, COUNT)) == COUNT


def test_an_idempotent_producer_of_confluent_kafka_is_served(broker: Broker) -> None:
    broker.create_topic("t", 2)
    produce_with_confluent(broker, "t", "zstd", **{"enable.idempotence": True})
    with kafka_python_consumer(broker, "g", "t") as consumer:
        assert read_with_kafka_python(consumer, COUNT) == ALL


def test_a_confluent_kafka_group_commits_and_resumes(broker: Broker) -> None:
    broker.create_topic("t", 2)
    produce_with_confluent(broker, "t", "none")
    with confluent_consumer(broker, "g", "t") as consumer:
        first = read_with_confluent(consumer, COUNT)
        consumer.commit(asynchronous=False)
    produce_with_confluent(broker, "t", "none")
    with confluent_consumer(broker, "g", "t") as consumer:
        second = read_with_confluent(consumer, COUNT)
    assert not first.keys() & second.keys()


def test_a_kafka_python_group_commits_and_resumes(broker: Broker) -> None:
    broker.create_topic("t", 2)
    produce_with_confluent(broker, "t", "none")
    with kafka_python_consumer(broker, "g", "t") as consumer:
        first = read_with_kafka_python(consumer, COUNT)
        consumer.commit()
    produce_with_confluent(broker, "t", "none")
    with kafka_python_consumer(broker, "g", "t") as consumer:
        second = read_with_kafka_python(consumer, COUNT)
    assert not first.keys() & second.keys()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_confluent_kafka_group_shares_partitions_and_takes_them_back(broker: Broker, strategy: str) -> None:
    broker.create_topic("t", 4)
    options = {"partition.assignment.strategy": strategy}

    def settled(*consumers: Any) -> bool:
        for consumer in consumers:
            consumer.poll(0.02)
        held = [sorted(part.partition for part in consumer.assignment()) for consumer in consumers]
        return all(held) and sorted(chain(*held)) == [0, 1, 2, 3]

    with confluent_consumer(broker, "g", "t", **options) as first:
        until(lambda: settled(first))
        with confluent_consumer(broker, "g", "t", **options) as second:
            until(lambda: settled(first, second))
        until(lambda: settled(first))


def test_a_kafka_python_group_shares_partitions_and_takes_them_back(broker: Broker) -> None:
    broker.create_topic("t", 4)
    stop = threading.Event()

    with kafka_python_consumer(broker, "g", "t") as first:
        until(lambda: bool(first.poll(timeout_ms=20) is not None and len(first.assignment()) == 4))
        left = threading.Event()

        def join_for_a_while() -> None:
            with kafka_python_consumer(broker, "g", "t") as second:
                while not stop.is_set():
                    second.poll(timeout_ms=20)
            left.set()

        other = threading.Thread(target=join_for_a_while, daemon=True)
        other.start()
        until(lambda: bool(first.poll(timeout_ms=20) is not None and len(first.assignment()) == 2))
        stop.set()
        until(lambda: bool(first.poll(timeout_ms=20) is not None and len(first.assignment()) == 4))
        other.join(DEADLINE)
        assert left.is_set()


def test_a_static_member_of_confluent_kafka_comes_back_without_a_new_round(broker: Broker) -> None:
    broker.create_topic("t", 2)
    admin = admin_of_confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    options = {"group.instance.id": "one"}
    with confluent_consumer(broker, "g", "t", **options) as first:
        until(lambda: first.poll(0.02) is None and len(first.assignment()) == 2)
        first_member = first.memberid()
    with confluent_consumer(broker, "g", "t", **options) as second:
        until(lambda: second.poll(0.02) is None and len(second.assignment()) == 2)
        assert second.memberid() != first_member
        described = admin.describe_consumer_groups(["g"])["g"].result(DEADLINE)
        assert [member.group_instance_id for member in described.members] == ["one"]


def test_confluent_kafkas_admin_finds_its_way(broker: Broker) -> None:
    admin = admin_of_confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([admin_of_confluent.NewTopic("t", 2, 1, config={"retention.ms": "1000"})])[
        "t"
    ].result(DEADLINE)
    with pytest.raises(confluent_kafka.KafkaException, match="already exists"):
        admin.create_topics([admin_of_confluent.NewTopic("t", 2, 1)])["t"].result(DEADLINE)
    admin.create_partitions([admin_of_confluent.NewPartitions("t", 3)])["t"].result(DEADLINE)
    assert len(admin.list_topics("t", timeout=DEADLINE).topics["t"].partitions) == 3
    resource = admin_of_confluent.ConfigResource(admin_of_confluent.ConfigResource.Type.TOPIC, "t")
    assert admin.describe_configs([resource])[resource].result(DEADLINE)["retention.ms"].value == "1000"
    cluster = admin.describe_cluster().result(DEADLINE)
    assert [node.port for node in cluster.nodes] == [broker.port]
    with confluent_consumer(broker, "g", "t") as consumer:
        until(lambda: consumer.poll(0.02) is None and len(consumer.assignment()) == 3)
        groups = admin.list_consumer_groups().result(DEADLINE).valid
        assert [(group.group_id, group.state.name) for group in groups] == [("g", "STABLE")]
        described = admin.describe_consumer_groups(["g"])["g"].result(DEADLINE)
        assert len(described.members[0].assignment.topic_partitions) == 3
    admin.delete_consumer_groups(["g"])["g"].result(DEADLINE)
    admin.delete_topics(["t"])["t"].result(DEADLINE)
    assert set(admin.list_topics(timeout=DEADLINE).topics) == {"__consumer_offsets"}


def test_kafka_pythons_admin_finds_its_way(broker: Broker) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics({"t": {"num_partitions": 2, "replication_factor": 1}})
    assert admin.list_topics() == ["t"]
    [described] = admin.describe_topics(["t"])
    assert len(described["partitions"]) == 2
    assert [node["port"] for node in admin.describe_cluster()["brokers"]] == [broker.port]
    with kafka_python_consumer(broker, "g", "t") as consumer:
        until(lambda: bool(consumer.poll(timeout_ms=20) is not None and len(consumer.assignment()) == 2))
        assert [group["group_id"] for group in admin.list_groups()] == ["g"]
    admin.delete_topics(["t"])
    assert admin.list_topics() == ["__consumer_offsets"]
    admin.close()


def test_times_are_found_by_both(broker: Broker) -> None:
    broker.create_topic("t", 2)
    produce_with_confluent(broker, "t", "lz4")
    stamp = 1_600_000_000_000 + 100
    with confluent_consumer(broker, "g", "t") as consumer:
        [found] = consumer.offsets_for_times([confluent_kafka.TopicPartition("t", 0, stamp)], DEADLINE)
        assert found.offset == 50
        assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition("t", 0), DEADLINE) == (0, 250)
    with kafka_python_consumer(broker, "h", "t") as other:
        partition = kafka.TopicPartition("t", 0)
        assert other.offsets_for_times({partition: stamp})[partition].offset == 50
        assert other.end_offsets([partition]) == {partition: 250}


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_produces_and_its_group_reads(broker: Broker, codec: str) -> None:
    broker.create_topic("t", 2)

    async def there_and_back() -> dict[tuple[int, int], tuple[Any, ...]]:
        compression = None if codec == "none" else codec
        where = broker.bootstrap_servers
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=where, compression_type=compression
        ) as producer:
            for at in range(COUNT):
                key, value, stamp, headers = expected(at)
                await producer.send("t", value, key, partition=at % 2, timestamp_ms=stamp, headers=headers)
            await producer.flush()
        found: dict[tuple[int, int], tuple[Any, ...]] = {}
        consumer = aiokafka.AIOKafkaConsumer(
            "t", bootstrap_servers=where, group_id="g", auto_offset_reset="earliest"
        )
        async with consumer, asyncio.timeout(DEADLINE):
            while len(found) < COUNT:
                one = await consumer.getone()
                found[one.partition, one.offset] = (one.key, one.value, one.timestamp, list(one.headers))
        return found

    assert asyncio.run(there_and_back()) == ALL


@pytest.mark.parametrize("version", [(0, 8, 2), (0, 10, 0), (0, 11), (2, 4)])
def test_kafka_python_is_served_as_it_spoke_to_old_brokers(broker: Broker, version: tuple[int, ...]) -> None:
    broker.create_topic("t")
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        api_version=version,
        compression_type="gzip",
        enable_idempotence=False,
    )
    sent = [producer.send("t", b"v%d" % at, b"k") for at in range(COUNT)]
    assert [future.get(DEADLINE).offset for future in sent] == list(range(COUNT))
    producer.close()
    with kafka_python_consumer(broker, "g", "t", api_version=version) as consumer:
        found = read_with_kafka_python(consumer, COUNT)
        assert [found[0, at][1] for at in range(COUNT)] == [b"v%d" % at for at in range(COUNT)]
        consumer.commit()
    produce_one = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    produce_one.send("t", b"last").get(DEADLINE)
    produce_one.close()
    with kafka_python_consumer(broker, "g", "t", api_version=version) as consumer:
        assert list(read_with_kafka_python(consumer, 1)) == [(0, COUNT)]


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_confluent_kafka_is_served_as_it_spoke_to_old_brokers(broker: Broker, version: str) -> None:
    broker.create_topic("t", 2)
    options = {"api.version.request": False, "broker.version.fallback": version, "log_level": 0}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "snappy", **options}
    )
    for at in range(COUNT):
        producer.produce("t", b"v%d" % at, partition=at % 2)
    assert producer.flush(DEADLINE) == 0
    with confluent_consumer(broker, "g", "t", **options) as consumer:
        found = read_with_confluent(consumer, COUNT)
    assert {place: facts[1] for place, facts in found.items()} == {
        (at % 2, at // 2): b"v%d" % at for at in range(COUNT)
    }
