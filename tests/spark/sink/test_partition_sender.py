"""PartitionSender in Spark: rows, record batches, streams; tasks that fail."""

import os
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from pyklient import ConfigurationError, Message, read
from pyklient.spark import PartitionSender, Record
from pyklient.spark.sink.producer_cache import borrowed_producer
from tests.servers.fixtures import NewName
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tests.spark.failing import fails_once

ROWS = 4_000


@pytest.fixture
def address(reference_broker: ReferenceBroker) -> str:
    return reference_broker.bootstrap_servers


@pytest.fixture
def topic(address: str, new_name: NewName) -> str:
    """A topic of three partitions."""
    return create_topic(address, new_name(), 3)


def clicks(spark: SparkSession, count: int = ROWS, tasks: int = 4) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr(
        "cast(id as string) key", "encode(cast(id as string), 'utf-8') value"
    )


def keys(messages: Iterable[Message]) -> list[int]:
    return sorted(int(message.key or b"-1") for message in messages)


def place(message: Message) -> tuple[Any, ...]:
    """Return the values of the headers for deduplication."""
    return tuple(value for name, value in message.headers if name.startswith("pyklient-"))


def test_every_row_of_every_partition_is_sent(spark: SparkSession, address: str, topic: str) -> None:
    clicks(spark).foreachPartition(PartitionSender(address, topic=topic))
    messages = list(read(address, topic))
    assert keys(messages) == list(range(ROWS))
    assert {message.partition for message in messages} == {0, 1, 2}


def test_record_batches_are_sent_and_counted(spark: SparkSession, address: str, topic: str) -> None:
    sender = PartitionSender(address, topic=topic)
    counts = clicks(spark).mapInArrow(sender, sender.schema).collect()
    assert sorted(counts) == [Row(partition=number, records=ROWS // 4) for number in range(4)]
    assert keys(read(address, topic)) == list(range(ROWS))


def test_empty_partitions_are_nothing(spark: SparkSession, address: str, topic: str) -> None:
    sender = PartitionSender(address, topic=topic)
    empty = clicks(spark).where("key = 'none'")
    empty.foreachPartition(sender)
    assert empty.mapInArrow(sender, sender.schema).collect() == []
    assert list(read(address, topic)) == []


def test_pairs_of_an_rdd_and_rows_of_another_shape(spark: SparkSession, address: str, topic: str) -> None:
    rdd = spark.sparkContext.parallelize([("1", "a"), ("2", "b")], 2)
    rdd.foreachPartition(PartitionSender(address, topic=topic))
    frame = spark.createDataFrame([Row(page="c", user=3)])

    def to_record(row: Any) -> Record:
        return Record(value=row.page, key=str(row.user))

    frame.foreachPartition(PartitionSender(address, topic=topic, to_record=to_record))
    assert sorted((m.key, m.value) for m in read(address, topic)) == [
        (b"1", b"a"),
        (b"2", b"b"),
        (b"3", b"c"),
    ]


def test_a_worker_keeps_its_producer_from_task_to_task(spark: SparkSession, address: str) -> None:
    options = {"bootstrap_servers": address, "client_id": "kept"}

    def which(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
        assert list(rows)
        with borrowed_producer(options) as producer:
            yield os.getpid(), id(producer)

    used: set[tuple[int, int]] = set()
    for _ in range(3):
        used.update(spark.sparkContext.parallelize(range(8), 8).mapPartitions(which).collect())
    workers = {pid for pid, _ in used}
    assert len(used) == len(workers) < 8


def test_a_task_that_fails_is_sent_again_and_its_copies_are_told_apart(
    spark: SparkSession, address: str, new_name: NewName
) -> None:
    topic = create_topic(address, new_name(), 1)
    sender = PartitionSender(address, topic=topic, deduplication_headers=True, linger_ms=0)
    # Rows are sent a thousand at a time: the first attempt fails with 500 in hand.
    failing = clicks(spark, 4_500, tasks=1).rdd.mapPartitions(fails_once(address, topic, 4_000))
    failing.foreachPartition(sender)
    found = list(read(address, topic))
    assert keys(found) == sorted([*range(4_000), *range(4_500)])
    assert keys({place(message): message for message in found}.values()) == list(range(4_500))


def test_two_jobs_of_one_sender_are_no_copies_of_each_other(
    spark: SparkSession, address: str, topic: str
) -> None:
    sender = PartitionSender(address, topic=topic, deduplication_headers=True)
    clicks(spark, 8).foreachPartition(sender)
    clicks(spark, 8).mapInArrow(sender, sender.schema).collect()
    assert len(set(map(place, read(address, topic)))) == 16


def test_a_job_that_is_named_makes_the_same_headers_when_it_runs_again(
    spark: SparkSession, address: str, topic: str
) -> None:
    for _ in range(2):
        sender = PartitionSender(address, topic=topic, deduplication_headers=True, query="nightly")
        clicks(spark, 8).foreachPartition(sender)
    copies = Counter(map(place, read(address, topic)))
    assert list(copies.values()) == [2] * 8
    assert all(query == b"nightly" and batch == b"0" for query, batch, _, _ in copies)


def test_a_stream_is_sent_batch_by_batch(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    for number in range(2):
        clicks(spark, 100).selectExpr(f"key + {100 * number} key", "value").write.mode("append").parquet(
            str(tmp_path / "in")
        )
    stream = (
        spark.readStream.schema("key long, value binary")
        .option("maxFilesPerTrigger", 5)
        .parquet(str(tmp_path / "in"))
        .selectExpr("cast(key as string) key", "value")
    )
    sender = PartitionSender(address, topic=topic, deduplication_headers=True)
    query = (
        stream.writeStream.foreachBatch(sender)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    messages = list(read(address, topic))
    assert keys(messages) == list(range(200))
    places = set(map(place, messages))
    assert len(places) == 200
    assert {(name, batch) for name, batch, _, _ in places} == {
        (query.id.encode(), b"0"),
        (query.id.encode(), b"1"),
    }


def test_what_a_broker_refuses_fails_the_job(spark: SparkSession, address: str, new_name: NewName) -> None:
    topic = create_topic(address, new_name(), 1, {"max_message_bytes": 1_000})
    frame = spark.range(0, 3, 1, 1).selectExpr("repeat('x', 2000) value")
    with pytest.raises(Exception, match=r"DeliveryError: .*not delivered"):
        frame.foreachPartition(PartitionSender(address, topic=topic))
    with pytest.raises(Exception, match=r"DeliveryError: .*not delivered"):
        frame.mapInArrow(PartitionSender(address, topic=topic), PartitionSender.schema).collect()


def test_it_can_be_pickled_and_shows_no_password() -> None:
    sender = PartitionSender(
        "one:9093",
        topic="clicks",
        security_protocol="SASL_PLAINTEXT",
        sasl_username="ada",
        sasl_password="secret",
    )
    for each in (sender, pickle.loads(pickle.dumps(sender))):
        assert repr(each) == "<PartitionSender to 'one:9093', topic 'clicks'>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linger": 5}, "did you mean 'linger_ms'"),
        (
            {"value_encoder": str.encode},
            "a PartitionSender cannot use value_encoder: encode the value in `to_record`",
        ),
        ({"ssl_context": ...}, "cannot use ssl_context: .* ssl_truststore_location"),
        ({"acks": 2}, "acks=2 is not one of"),
        ({"topic": "a b"}, "'a b' is not a valid name of a topic"),
    ],
    ids=repr,
)
def test_wrong_options_are_refused_where_the_sender_is_made(options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        PartitionSender("localhost:9092", **options)
