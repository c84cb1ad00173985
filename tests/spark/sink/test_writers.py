"""``df.write.format("pyklient")`` and ``writeStream``: the records that arrive, and the errors."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyklient import Message, SimpleConsumer, read
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.process import wait_until
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tests.spark.failing import fails_once

SCHEMA = (
    "key string, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>"
)


@pytest.fixture
def address(reference_broker: ReferenceBroker) -> str:
    return reference_broker.bootstrap_servers


@pytest.fixture
def topic(address: str, new_name: NewName) -> str:
    """A topic of three partitions."""
    return create_topic(address, new_name(), 3)


def write(frame: DataFrame, bootstrap: str, **options: Any) -> None:
    writer = frame.write.format("pyklient").mode("append").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save()


def numbers(spark: SparkSession, count: int, tasks: int = 4) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as string) value")


def values(messages: Iterable[Message]) -> list[int]:
    return sorted(int(message.value or b"-1") for message in messages)


def place(message: Message) -> tuple[Any, ...]:
    """Return the values of the headers for deduplication."""
    return tuple(value for name, value in message.headers if name.startswith("pyklient-"))


@pytest.mark.brokers(min="4.3")
def test_every_column_reaches_the_broker(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    one, two = new_topic(2), new_topic()
    rows = [
        ("k", b"1", one, 1, [("h", b"x"), ("h", None)]),
        (None, None, one, 1, []),
        ("", b"", one, 1, None),
        ("k", b"2", two, None, None),
    ]
    write(spark.createDataFrame(rows, SCHEMA).coalesce(1), bootstrap)
    found = [(m.key, m.value, m.partition, m.headers) for m in read(bootstrap, one)]
    assert found == [
        (b"k", b"1", 1, (("h", b"x"), ("h", None))),
        (None, None, 1, ()),
        (b"", b"", 1, ()),
    ]
    assert [(m.key, m.value, m.partition) for m in read(bootstrap, two)] == [(b"k", b"2", 0)]


def test_text_is_written_as_utf8_and_all_of_it(spark: SparkSession, address: str, topic: str) -> None:
    text = "concat(id, ' ä€😀')"
    write(spark.range(0, 25_000, 1, 4).selectExpr(f"{text} key", f"{text} value"), address, topic=topic)
    messages = list(read(address, topic))
    expected = sorted(f"{number} ä€😀".encode() for number in range(25_000))
    assert sorted(message.value or b"" for message in messages) == expected
    assert all(message.key == message.value for message in messages)
    # By their keys, so by no chance: without one it is a partition drawn at random for each batch.
    assert {message.partition for message in messages} == {0, 1, 2}


def test_option_topic_wins_over_the_column(spark: SparkSession, address: str, topic: str) -> None:
    write(spark.createDataFrame([Row(value="v", topic="elsewhere")]), address, topic=topic)
    assert [message.value for message in read(address, topic)] == [b"v"]


def test_what_was_read_can_be_written_as_it_is(
    spark: SparkSession, address: str, topic: str, new_name: NewName
) -> None:
    copy = create_topic(address, new_name(), 3)
    write(numbers(spark, 100), address, topic=topic)
    source = spark.read.format("pyklient").option("kafka.bootstrap.servers", address)
    write(source.option("subscribe", topic).load(), address, topic=copy)
    found, expected = list(read(address, copy)), list(read(address, topic))
    assert {(m.partition, m.value) for m in found} == {(m.partition, m.value) for m in expected}
    assert len(found) == 100


def test_options_of_kafka_reach_the_producer(spark: SparkSession, address: str, topic: str) -> None:
    write(numbers(spark, 10, 1), address, topic=topic, kafka__compression__type="zstd", kafka__linger__ms="0")
    assert values(read(address, topic)) == list(range(10))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["'v' page"], {}, "need a column `value` .*, but have only page"),
        (["1 value"], {}, "column value is int, but must be STRING or BINARY"),
        (["'v' value", "1.5D key"], {}, "column key is double, but must be STRING or BINARY"),
        (["'v' value", "1 topic"], {}, "column topic is int, but must be STRING"),
        (["'v' value", "1L partition"], {}, "column partition is bigint, but must be INT"),
        (
            ["'v' value", "array('a') headers"],
            {},
            "column headers is array<string>, but must be array<struct<",
        ),
        (["'v' value"], {"topic": None}, "the rows have no topic: set the option topic"),
        (["'v' value", "cast(null as string) topic"], {"topic": None}, "column `topic` is null in some rows"),
        (["'v' value"], {"kafka__bootstrap__servers": ""}, "kafka.bootstrap.servers is missing"),
        (["'v' value"], {"topik": "t"}, "option 'topik' is unknown .* did you mean 'topic'"),
        (["'v' value"], {"topic": "a b"}, "option topic has the wrong value 'a b'"),
        (["'v' value"], {"kafka__key__serializer": "x"}, "kafka.key.serializer cannot be set"),
        (["'v' value"], {"kafka__value__serializer": "x"}, "kafka.value.serializer cannot be set"),
        (
            ["'v' value"],
            {"kafka__linger": "5"},
            "option 'kafka.linger' is unknown; did you mean 'kafka.linger.ms'",
        ),
        (["'v' value"], {"kafka__acks": "2"}, "acks='2' is not one of"),
        (["'v' value"], {"kafka__partitioner": "x"}, "partitioner cannot be set for a write"),
        (
            ["'v' value"],
            {"deduplicationHeaders": "yes"},
            "deduplicationHeaders .* 'yes': .* 'true' or 'false'",
        ),
    ],
    ids=repr,
)
def test_what_cannot_be_written_is_refused_with_what_to_do(
    spark: SparkSession, address: str, topic: str, columns: list[str], options: dict[str, Any], message: str
) -> None:
    given = {name: value for name, value in {"topic": topic, **options}.items() if value is not None}
    with pytest.raises(PySparkException, match=f"ConfigurationError.*{message}"):
        write(spark.range(1).selectExpr(*columns), address, **given)


def test_a_topic_cannot_be_overwritten(spark: SparkSession, address: str, topic: str) -> None:
    writer = numbers(spark, 1).write.format("pyklient").mode("overwrite").option("topic", topic)
    with pytest.raises(PySparkException, match="mode overwrite is not possible"):
        writer.option("kafka.bootstrap.servers", address).save()


def test_no_password_shows_in_a_plan_or_an_error(spark: SparkSession, address: str) -> None:
    with pytest.raises(PySparkException) as caught:
        write(
            numbers(spark, 1),
            address,
            topic="clicks",
            kafka__security__protocol="SASL_PLAINTEXT",
            kafka__sasl__username="ada",
            kafka__sasl__password="hunter2",
            kafka__max__block__ms="100",
        )
    assert "hunter2" not in str(caught.value)


def test_a_task_that_fails_writes_again_and_its_copies_are_told_apart(
    spark: SparkSession, address: str, new_name: NewName
) -> None:
    topic = create_topic(address, new_name(), 1)
    frame = numbers(spark, 25_000, tasks=1)
    failing = frame.mapInArrow(fails_once(address, topic, 10_000), "value string")
    write(failing, address, topic=topic, deduplicationHeaders=True, kafka__linger__ms="0")
    found = list(read(address, topic))
    # What the first attempt had sent is there twice: the first 10,000 rows, and what followed in time.
    again = len(found) - 25_000
    assert 10_000 <= again <= 25_000
    assert values(found) == sorted([*range(again), *range(25_000)])
    assert values({place(message): message for message in found}.values()) == list(range(25_000))


def test_two_writes_are_no_copies_of_each_other_unless_they_have_one_name(
    spark: SparkSession, address: str, topic: str
) -> None:
    for _ in range(2):
        write(numbers(spark, 8), address, topic=topic, deduplicationHeaders=True)
    assert len(set(map(place, read(address, topic)))) == 16
    for _ in range(2):
        write(
            numbers(spark, 8),
            address,
            topic=topic,
            deduplicationHeaders=True,
            deduplicationQuery="nightly",
        )
    assert len(set(map(place, read(address, topic)))) == 16 + 8


class Stream:
    """A stream of files of numbers, written to a topic."""

    def __init__(self, spark: SparkSession, address: str, topic: str, home: Path) -> None:
        self._spark, self._address, self._topic, self._home = spark, address, topic, home

    def add(self, first: int, count: int) -> None:
        """Add a file of numbers, which is read in a batch of its own."""
        frame = self._spark.range(first, first + count, 1, 1).selectExpr("cast(id as string) value")
        frame.write.mode("append").parquet(str(self._home / "in"))

    def start(self, transform: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> StreamingQuery:
        """Start the query, and return it when everything is written."""
        source = (
            self._spark.readStream.schema("value string")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._home / "in"))
        )
        return (
            transform(source)
            .writeStream.format("pyklient")
            .option("kafka.bootstrap.servers", self._address)
            .option("kafka.linger.ms", 0)
            .option("topic", self._topic)
            .option("deduplicationHeaders", True)
            .option("checkpointLocation", str(self._home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )


def test_what_a_broker_refuses_fails_the_write(spark: SparkSession, address: str, new_name: NewName) -> None:
    topic = create_topic(address, new_name(), 1, {"max_message_bytes": 1_000})
    frame = spark.range(0, 3, 1, 1).selectExpr("repeat('x', 2000) value")
    with pytest.raises(PySparkException, match=r"DeliveryError: .*not delivered"):
        write(frame, address, topic=topic)


def test_a_stream_is_written_batch_by_batch_and_goes_on_after_a_restart(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, address, topic, tmp_path)
    stream.add(0, 100)
    stream.add(100, 100)
    first = stream.start()
    assert first.awaitTermination(60)
    stream.add(200, 100)
    second = stream.start()
    assert second.awaitTermination(60)
    assert first.id == second.id
    messages = list(read(address, topic))
    assert values(messages) == list(range(300))
    assert {place(message)[:2] for message in messages} == {
        (first.id.encode(), b"%d" % batch) for batch in range(3)
    }


def test_a_batch_that_is_run_again_after_a_restart_has_the_same_headers(
    spark: SparkSession, address: str, new_name: NewName, tmp_path: Path
) -> None:
    topic = create_topic(address, new_name(), 1)
    stream = Stream(spark, address, topic, tmp_path)
    stream.add(0, 25_000)
    broken = tmp_path / "broken"
    broken.touch()

    def fail_while_broken(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        with SimpleConsumer(address) as consumer:
            wait_until(lambda: consumer.get_offsets_before(topic, 0, -1, 1)[0] >= 10_000, 60, "records")
        if broken.exists():
            raise RuntimeError("it is broken")

    def transform(frame: DataFrame) -> DataFrame:
        return frame.mapInArrow(fail_while_broken, "value string")

    with pytest.raises(PySparkException, match="it is broken"):
        stream.start(transform).awaitTermination(60)
    broken.unlink()
    assert stream.start(transform).awaitTermination(60)
    found = list(read(address, topic))
    assert len(found) > 25_000
    assert values({place(message): message for message in found}.values()) == list(range(25_000))


def test_the_whole_result_is_written_in_output_mode_complete(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    Stream(spark, address, topic, tmp_path).add(0, 10)
    source = spark.readStream.schema("value string").parquet(str(tmp_path / "in"))
    query = (
        source.groupBy((source.value % 2).cast("int").cast("string").alias("key"))
        .count()
        .selectExpr("key", "cast(count as string) value")
        .writeStream.format("pyklient")
        .outputMode("complete")
        .option("kafka.bootstrap.servers", address)
        .option("topic", topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sorted((m.key, m.value) for m in read(address, topic)) == [(b"0", b"5"), (b"1", b"5")]
