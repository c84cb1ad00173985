"""``spark.read.format("pyklient")`` on real brokers."""

import json
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyklient import Admin
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.topics import create_topic
from tests.spark.topics import fill, number_records, transaction

pytestmark = pytest.mark.brokers(min="4.3")
FIRST = pytest.mark.brokers(real=False)
NEWEST = pytest.mark.brokers(min="4.3", real=True)


def read(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    reader = spark.read.format("pyklient").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        reader = reader.option(name.replace("__", "."), text)
    return reader.load()


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in rows.select("value").collect())


def test_rows_are_those_of_sparks_own_source(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    fill(
        bootstrap,
        topic,
        [
            {"value": b"one", "key": b"k", "partition": 0, "timestamp": 1_700_000_000_123},
            {"value": None, "key": b"", "partition": 1, "timestamp": 1},
            {
                "value": b"",
                "key": None,
                "partition": 1,
                "timestamp": 2,
                "headers": [("a", b"1"), ("a", None)],
            },
        ],
    )

    rows = read(spark, bootstrap, subscribe=topic, includeHeaders="true")

    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    found = rows.orderBy("partition", "offset").collect()
    times = [datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None) for ms in (1_700_000_000_123, 1, 2)]
    assert [tuple(row)[:5] for row in found] == [
        (b"k", b"one", topic, 0, 0),
        (b"", None, topic, 1, 0),
        (None, b"", topic, 1, 1),
    ]
    assert [row.timestampType for row in found] == [0, 0, 0]
    assert [row.timestamp.astimezone(UTC).replace(tzinfo=None) for row in found] == times
    assert [row.headers and [tuple(each) for each in row.headers] for row in found] == [
        None,
        None,
        [("a", b"1"), ("a", None)],
    ]
    assert "headers" not in read(spark, bootstrap, subscribe=topic).columns


def test_bounds_are_offsets_or_times(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(20), 2))  # 0, 2, … in partition 0, 1, 3, … in partition 1

    def found(**options: object) -> list[int]:
        return numbers(read(spark, bootstrap, subscribe=topic, **options))

    assert found() == list(range(20))
    assert found(startingOffsets={topic: {"0": 9, "1": -2}}, endingOffsets={topic: {"0": -1, "1": 2}}) == [
        1,
        3,
        18,
    ]
    assert found(startingTimestamp=18_000) == [17, 18, 19]
    assert found(startingTimestamp=5_000, endingTimestamp=8_000) == [4, 5, 6]
    assert found(startingOffsetsByTimestamp={topic: {"0": 17_000, "1": 20_000}}) == [16, 18, 19]
    assert found(endingOffsetsByTimestamp={topic: {"0": 2_000, "1": 0}}) == [0]
    assert found(endingTimestamp=99_000_000) == list(range(20))
    late = {"startingTimestamp": 99_000_000}
    assert found(**late, startingOffsetsByTimestampStrategy="latest") == []
    refused = f"{topic}-0 has no record with the timestamp 99000000 .* which startingTimestamp asks for"
    with pytest.raises(PySparkException, match=refused):
        found(**late)
    with pytest.raises(PySparkException, match=f"no offset for {topic}-1; the query does not read other-0"):
        found(startingOffsets={topic: {"0": 1}, "other": {"0": 1}})


@NEWEST
def test_what_is_read_is_subscribed_to_matched_or_assigned(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    first, second = new_topic(2), new_topic(1)
    fill(bootstrap, first, number_records(range(4), 2))
    fill(bootstrap, second, number_records(range(10, 12)))
    common = first.rsplit("-", 2)[0]

    assert numbers(read(spark, bootstrap, subscribe=f"{first}, {second}")) == [0, 1, 2, 3, 10, 11]
    assert numbers(read(spark, bootstrap, subscribePattern=f"{common}.*")) == [0, 1, 2, 3, 10, 11]
    assert numbers(read(spark, bootstrap, subscribePattern=common)) == []
    assert numbers(read(spark, bootstrap, assign={first: [1], second: [0]})) == [1, 3, 10, 11]


@NEWEST
def test_a_topic_that_does_not_exist_is_an_error_that_names_it(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    with pytest.raises(PySparkException, match=r"read topic nowhere.*UNKNOWN_TOPIC_OR_PARTITION"):
        read(spark, bootstrap, subscribe="nowhere").collect()
    topic = new_topic()
    with pytest.raises(
        PySparkException, match=f"read partition {topic}-7, which the option .*assign.* names"
    ):
        read(spark, bootstrap, assign={topic: [0, 7]}).collect()


@NEWEST
def test_a_partition_is_read_by_as_many_tasks_as_asked_for(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    fill(bootstrap, topic, number_records(range(100), 2))  # the third partition is empty

    for options, tasks in (({}, 2), ({"minPartitions": 5}, 5), ({"maxRecordsPerPartition": 20}, 6)):
        rows = read(spark, bootstrap, subscribe=topic, **options)
        assert numbers(rows) == list(range(100))
        assert rows.rdd.getNumPartitions() == tasks


def test_an_empty_topic_has_no_rows(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    assert read(spark, bootstrap, subscribe=new_topic(2)).collect() == []


@NEWEST
def test_deleted_records_fail_the_query_or_are_passed_over(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(5)))
    beyond = {"subscribe": topic, "startingOffsets": {topic: {"0": 2}}, "endingOffsets": {topic: {"0": 9}}}
    with pytest.raises(
        PySparkException, match=f"{topic}-0 was to be read up to offset 9, but it ends at 5.*failOnDataLoss"
    ):
        read(spark, bootstrap, **beyond).collect()
    assert numbers(read(spark, bootstrap, **beyond, failOnDataLoss="false")) == [2, 3, 4]


@NEWEST
def test_only_what_was_committed_is_read_on_demand(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(2)))
    transaction(bootstrap, topic, [b"10", b"11"], lambda producer: producer.abort_transaction())
    transaction(bootstrap, topic, [b"20", b"21"], lambda producer: producer.commit_transaction())

    assert numbers(read(spark, bootstrap, subscribe=topic)) == [0, 1, 10, 11, 20, 21]
    committed = read(spark, bootstrap, subscribe=topic, kafka__isolation__level="read_committed")
    assert numbers(committed) == [0, 1, 20, 21]


@NEWEST
def test_a_message_of_ten_mebibytes_is_a_row(spark: SparkSession, bootstrap: str, new_name: NewName) -> None:
    topic = create_topic(bootstrap, new_name(), 1, {"max_message_bytes": 20 << 20})
    size = 10 << 20
    fill(bootstrap, topic, [{"value": bytes(size)}, {"value": b"x"}], **{"message.max.bytes": 20 << 20})

    rows = read(spark, bootstrap, subscribe=topic).selectExpr("offset", "length(value) AS size").collect()

    assert [tuple(row) for row in sorted(rows)] == [(0, size), (1, 1)]


@NEWEST
def test_sql_reads_topics_too(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(3)))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW records USING pyklient "
        f"OPTIONS (`kafka.bootstrap.servers` '{bootstrap}', subscribe '{topic}')"
    )
    found = spark.sql("SELECT count(*), max(offset) FROM records").collect()
    assert [tuple(row) for row in found] == [(3, 2)]


@FIRST
def test_a_schema_of_ones_own_is_refused(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    reader = spark.read.format("pyklient").option("kafka.bootstrap.servers", bootstrap)
    with pytest.raises(PySparkException, match="have a fixed schema"):
        reader.option("subscribe", new_topic()).schema("value STRING").load().collect()


@FIRST
def test_a_wrong_option_is_an_error_at_load(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(PySparkException, match="did you mean 'startingOffsets'"):
        read(spark, bootstrap, subscribe="clicks", startingOfsets="earliest")


@NEWEST
def test_a_query_loaded_again_sees_what_has_come_since(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    assert read(spark, bootstrap, subscribe=topic).count() == 0
    fill(bootstrap, topic, number_records(range(3)))
    assert read(spark, bootstrap, subscribe=topic).count() == 3
    with Admin(bootstrap) as admin:
        admin.create_partitions(topic, 2)
    fill(bootstrap, topic, number_records(range(4), 2))
    assert read(spark, bootstrap, subscribe=topic).count() == 7
