"""load(): topics into Parquet, each record once, whatever happens in between."""

import json
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyklient import Admin, ConfigurationError, DataLossError, LoadConflictError, TopicPartition
from pyklient.spark import LoadProgress, load
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tests.spark.topics import delete_before, fill, number_records
from tools.spark.killed_loads import killed_load

pytestmark = pytest.mark.brokers(min="4.3")


def stored(spark: SparkSession, path: Path) -> Counter[tuple[str, int, int, int]]:
    """Return the topic, partition, offset and value of each row that a reader sees."""
    rows = spark.read.parquet(str(path)).select("topic", "partition", "offset", "value")
    return Counter((row[0], row[1], row[2], int(row[3])) for row in rows.collect())


def once(topic: str, count: int, partitions: int = 1) -> Counter[tuple[str, int, int, int]]:
    """Return the same for ``number_records(range(count), partitions)``, each row once."""
    return Counter((topic, each % partitions, each // partitions, each) for each in range(count))


def values(spark: SparkSession, path: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(path)).select("value").collect())


def leftovers(path: Path) -> list[str]:
    return os.listdir(path / "_loading") if (path / "_loading").exists() else []


def test_loads_hold_each_record_once_and_say_where_they_ended(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, path = new_topic(3), tmp_path / "clicks"
    seen: list[LoadProgress] = []
    for first in range(0, 30, 10):
        fill(bootstrap, topic, number_records(range(first, first + 10), 3))
        done = load(spark, bootstrap, topic, path, watch=seen.append)
        assert done.rows == sum(each.size for each in done.offsets.values()) == 10
        assert done.number == first // 10
        assert done.path == f"{path.as_uri()}/load={first // 10:012}"
    assert stored(spark, path) == once(topic, 30, 3)
    assert seen[-1].records == 10
    assert seen[-1].done == seen[-1].tasks > 0

    again = load(spark, bootstrap, topic, path)
    assert (again.rows, again.offsets, again.path, again.number) == (0, {}, None, None)
    assert sorted(os.listdir(path)) == ["_loading", *(f"load={each:012}" for each in range(3))]
    assert leftovers(path) == []
    assert (path / "load=000000000002" / f"topic={topic}" / "partition=1").is_dir()
    offsets = json.loads((path / "load=000000000002" / "_offsets.json").read_text())
    assert offsets["start"] == {topic: {"0": 7, "1": 7, "2": 6}}
    assert offsets["end"] == {topic: {"0": 10, "1": 10, "2": 10}}
    assert Counter(row.load for row in spark.read.parquet(str(path)).select("load").collect()) == {
        0: 10,
        1: 10,
        2: 10,
    }


@pytest.mark.brokers(real=False)
def test_rows_are_what_a_function_makes_of_them_in_directories_of_ones_own(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(10), 2))

    def parsed(rows: DataFrame) -> DataFrame:
        number = rows.selectExpr("cast(cast(value as string) as int) number")
        return number.selectExpr("number", "number % 3 third").where("number > 0")

    done = load(spark, bootstrap, topic, tmp_path, transform=parsed, partition_by=["third"])

    assert done.rows == 9
    rows = spark.read.parquet(str(tmp_path)).select("number", "third").collect()
    assert sorted(map(tuple, rows)) == [(each, each % 3) for each in range(1, 10)]
    fill(bootstrap, topic, number_records(range(1)))
    with pytest.raises(
        ConfigurationError,
        match="are partitioned by third, but this load by no column",
    ):
        load(spark, bootstrap, topic, tmp_path, transform=parsed)
    with pytest.raises(ConfigurationError, match="'fourth', but the rows have only number, third"):
        load(spark, bootstrap, topic, tmp_path, transform=parsed, partition_by=["fourth"])
    with pytest.raises(ConfigurationError, match="a column is called 'load'"):
        load(spark, bootstrap, topic, tmp_path, transform=lambda rows: rows.withColumnRenamed("key", "Load"))
    with pytest.raises(TypeError, match="transform must return the DataFrame to store, not None"):
        load(spark, bootstrap, topic, tmp_path, transform=lambda _: None)  # type: ignore[arg-type,return-value]  # wrong


@pytest.mark.brokers(real=False)
def test_a_bound_on_the_records_leaves_the_rest_to_the_next_load(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(20), 2))
    assert [load(spark, bootstrap, topic, tmp_path, max_records=12).rows for _ in range(3)] == [12, 8, 0]
    assert stored(spark, tmp_path) == once(topic, 20, 2)


@pytest.mark.brokers(real=False)
def test_new_topics_begin_where_asked_and_new_partitions_at_their_beginning(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    first, second = new_topic(1), new_topic(1)
    fill(bootstrap, first, number_records(range(10)))  # of seconds 1 to 10
    fill(bootstrap, second, number_records(range(100, 110)))
    load(spark, bootstrap, first, tmp_path, start={TopicPartition(first, 0): 7})
    assert values(spark, tmp_path) == [7, 8, 9]

    with Admin(bootstrap) as admin:
        admin.create_partitions(first, 2)
    fill(bootstrap, first, [{"value": b"20", "partition": 1}])
    both = re.compile(f"{re.escape(first)}|{re.escape(second)}")
    load(spark, bootstrap, both, tmp_path, start=datetime.fromtimestamp(109, UTC))
    assert values(spark, tmp_path) == [7, 8, 9, 20, 108, 109]
    # A topic that is left out once is not forgotten.
    fill(bootstrap, second, number_records([110]))
    load(spark, bootstrap, second, tmp_path)
    fill(bootstrap, first, [{"value": b"21", "partition": 1}])
    assert load(spark, bootstrap, [first, second], tmp_path).rows == 1
    with pytest.raises(ConfigurationError, match="has no time zone"):
        load(spark, bootstrap, first, tmp_path, start=datetime(2025, 1, 1))


@pytest.mark.brokers(real=False)
def test_a_topic_created_again_fails_the_load_or_is_loaded_from_its_beginning(
    spark: SparkSession, bootstrap: str, new_name: NewName, tmp_path: Path
) -> None:
    topic = create_topic(bootstrap, new_name(), 1)
    fill(bootstrap, topic, number_records(range(5)))
    load(spark, bootstrap, topic, tmp_path)
    with Admin(bootstrap) as admin:
        admin.delete_topic(topic)
    create_topic(bootstrap, topic, 1)
    # As long as the old one was, so that offsets alone would not tell.
    fill(bootstrap, topic, number_records(range(10, 17)))

    with pytest.raises(DataLossError, match=f"topic {topic} is not the one that was loaded before"):
        load(spark, bootstrap, topic, tmp_path)
    assert load(spark, bootstrap, topic, tmp_path, fail_on_data_loss=False).rows == 7
    assert values(spark, tmp_path) == [*range(5), *range(10, 17)]
    assert load(spark, bootstrap, topic, tmp_path).number is None


@pytest.mark.brokers(min="4.3", real=True)
def test_retention_that_overtakes_a_load_fails_it_or_is_passed_over(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(5)))
    load(spark, bootstrap, topic, tmp_path)
    fill(bootstrap, topic, number_records(range(5, 15)))
    delete_before(bootstrap, topic, 8)

    with pytest.raises(DataLossError, match=f"offsets 5 to 8 of {topic}-0 were deleted"):
        load(spark, bootstrap, topic, tmp_path)
    assert load(spark, bootstrap, topic, tmp_path, fail_on_data_loss=False).rows == 7
    assert values(spark, tmp_path) == [*range(5), *range(8, 15)]


@pytest.mark.brokers(real=False)
def test_of_two_loads_at_once_one_is_published_and_the_other_says_so(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(10), 2))
    both_have_planned = threading.Barrier(2, timeout=60)

    def meet(rows: DataFrame) -> DataFrame:
        both_have_planned.wait()
        return rows

    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(load, spark, bootstrap, topic, tmp_path, transform=meet) for _ in range(2)]
    [lost] = [error for each in runs if (error := each.exception()) is not None]
    assert isinstance(lost, LoadConflictError), lost
    assert "another load" in str(lost)
    assert stored(spark, tmp_path) == once(topic, 10, 2)
    assert sorted(os.listdir(tmp_path)) == ["_loading", "load=000000000000"]
    assert leftovers(tmp_path) == []


@pytest.mark.brokers(real=False)
def test_a_plain_reader_sees_whole_loads_only(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    seen: set[int] = set()

    def look(progress: LoadProgress) -> None:
        seen.add(spark.read.parquet(str(tmp_path)).count())

    fill(bootstrap, topic, number_records(range(10), 2))
    load(spark, bootstrap, topic, tmp_path)
    for first in (10, 20):
        fill(bootstrap, topic, number_records(range(first, first + 10), 2))
        load(spark, bootstrap, topic, tmp_path, watch=look)
    assert seen
    assert seen <= {10, 20}


@pytest.mark.brokers(real=False)
def test_a_load_that_fails_leaves_nothing_and_the_next_one_has_it_all(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(10), 2))

    def fails_late(rows: DataFrame) -> DataFrame:
        return rows.where("if(partition = 1 and offset = 4, raise_error('no'), true)")

    with pytest.raises(PySparkException, match="no"):
        load(spark, bootstrap, topic, tmp_path, transform=fails_late)
    assert os.listdir(tmp_path) == ["_loading"]
    assert leftovers(tmp_path) == []
    load(spark, bootstrap, topic, tmp_path)
    assert stored(spark, tmp_path) == once(topic, 10, 2)


@pytest.mark.brokers(real=False)
def test_other_rows_in_the_files_than_were_written_are_not_published(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(3)))
    spark.range(1).selectExpr("cast('9' as binary) value").coalesce(1).write.parquet(str(tmp_path / "other"))
    [other] = (tmp_path / "other").glob("part-*")

    def beside_another(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        [staged] = (tmp_path / "loads" / "_loading").iterdir()
        shutil.copy(other, staged)

    with pytest.raises(ConfigurationError, match=r"3 rows were written, but 4 rows are in .*_loading"):
        load(
            spark,
            bootstrap,
            topic,
            tmp_path / "loads",
            transform=lambda rows: rows.select("value").mapInArrow(beside_another, "value binary"),
        )
    assert os.listdir(tmp_path / "loads") == ["_loading"]
    assert leftovers(tmp_path / "loads") == []


def test_a_driver_killed_in_the_middle_of_a_load_loses_and_doubles_nothing(
    spark: SparkSession, reference_broker: ReferenceBroker, new_name: NewName, tmp_path: Path
) -> None:
    bootstrap, path = reference_broker.bootstrap_servers, tmp_path / "clicks"
    topic = create_topic(bootstrap, new_name(), 2)
    fill(bootstrap, topic, number_records(range(10), 2))

    killed_load(bootstrap, topic, path, "task")

    assert len(leftovers(path)) == 1
    assert os.listdir(path) == ["_loading"]
    assert load(spark, bootstrap, topic, path).rows == 10
    assert stored(spark, path) == once(topic, 10, 2)
    assert leftovers(path) == []


@pytest.mark.brokers(real=False)
@pytest.mark.parametrize("uri", ["s3a://bucket/clicks", "abfss://a@b.net/clicks", "gs://bucket/clicks"])
def test_object_stores_are_refused(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, uri: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"which only file and hdfs support"):
        load(spark, bootstrap, new_topic(), uri)


@pytest.mark.brokers(real=False)
def test_what_is_asked_for_wrongly_is_refused(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    wrong: Iterator[tuple[dict[str, Any], str]] = iter(
        [
            ({"topics": []}, "name at least one topic"),
            ({"topics": "a b"}, "'a b' is not a valid name of a topic"),
            ({"max_records": 0}, "max_records must be .* not 0"),
            ({"start": "2020-01-01"}, "start='2020-01-01' is not allowed: pass a datetime"),
            ({"max_record": 1}, r"unknown option 'max_record' of load\(\); did you mean 'max_records'"),
            (
                {"partitionby": ["a"]},
                r"unknown option 'partitionby' of load\(\); did you mean 'partition_by'",
            ),
            ({"isolation_levl": "x"}, "did you mean 'isolation_level'"),
            ({"ssl_context": ...}, "cannot use ssl_context"),
            ({"path": Path(__file__).parent}, "which is not a load"),
        ]
    )
    for given, message in wrong:
        arguments: dict[str, Any] = {"topics": topic, "path": tmp_path, **given}
        with pytest.raises(ConfigurationError, match=message):
            load(spark, bootstrap, **arguments)
    with pytest.raises(ConfigurationError, match="cannot access the files over Spark Connect"):
        load(object(), bootstrap, topic, tmp_path)  # type: ignore[arg-type]  # a session without a JVM
