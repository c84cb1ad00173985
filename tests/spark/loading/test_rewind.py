"""load(rewind_to=…): records are loaded again from a time or an offset on, and no row is there twice."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyklient import ConfigurationError, DataLossError, LoadConflictError, TopicPartition
from pyklient.spark import load
from tests.servers.fixtures import NewTopic
from tests.spark.loading.test_load import leftovers, once, stored
from tests.spark.topics import delete_before, fill, number_records

pytestmark = pytest.mark.brokers(min="4.3")


def three_loads(spark: SparkSession, bootstrap: str, topic: str, path: Path) -> None:
    """Load ten records of two partitions three times. Record N has the time N + 1 in seconds."""
    for first in range(0, 30, 10):
        fill(bootstrap, topic, number_records(range(first, first + 10), 2))
        load(spark, bootstrap, topic, path)


def loads(path: Path) -> list[int]:
    return [int(each.removeprefix("load=")) for each in sorted(os.listdir(path)) if each[0] != "_"]


@pytest.mark.brokers(real=False)
def test_the_loads_since_a_time_are_replaced_by_one_that_has_each_record_once(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, path = new_topic(2), tmp_path / "clicks"
    three_loads(spark, bootstrap, topic, path)
    # Nothing is so new: an ordinary load, of what has come.
    fill(bootstrap, topic, number_records(range(30, 36), 2))
    done = load(spark, bootstrap, topic, path, rewind_to=datetime(2026, 1, 1, tzinfo=UTC))
    assert (done.number, done.rows, done.replaced) == (3, 6, ())

    seen: set[int] = set()

    def corrected(rows: DataFrame) -> DataFrame:
        seen.add(spark.read.parquet(str(path)).count())
        return rows.selectExpr("*").withColumnRenamed("value", "value")

    fill(bootstrap, topic, number_records(range(36, 40), 2))
    done = load(spark, bootstrap, topic, path, transform=corrected, rewind_to=datetime.fromtimestamp(14, UTC))
    assert (done.number, done.rows, done.replaced) == (4, 30, (1, 2, 3))
    assert {each.partition: (at.start, at.end) for each, at in done.offsets.items()} == {
        0: (5, 20),
        1: (5, 20),
    }
    assert seen == {36}
    assert stored(spark, path) == once(topic, 40, 2)
    assert loads(path) == [0, 4]
    assert (leftovers(path), os.listdir(tmp_path)) == ([], ["clicks"])
    # The next load goes on behind it.
    fill(bootstrap, topic, number_records(range(40, 44), 2))
    assert load(spark, bootstrap, topic, path).number == 5
    assert stored(spark, path) == once(topic, 44, 2)


@pytest.mark.brokers(real=False)
def test_an_offset_of_one_partition_rewinds_the_loads_that_have_read_it(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, other = new_topic(2), new_topic(1)
    three_loads(spark, bootstrap, topic, tmp_path)
    one = TopicPartition(topic, 1)
    assert load(spark, bootstrap, topic, tmp_path, rewind_to={one: 15}).replaced == ()
    assert load(spark, bootstrap, topic, tmp_path, rewind_to={one: 14}).replaced == (2,)
    assert stored(spark, tmp_path) == once(topic, 30, 2)
    # A load of another topic in between must be loaded again too.
    fill(bootstrap, other, number_records(range(5)))
    load(spark, bootstrap, other, tmp_path, allow=["topics"])
    with pytest.raises(ConfigurationError, match=f"also have records of {other}-0, which this load does not"):
        load(spark, bootstrap, topic, tmp_path, rewind_to={one: 0})
    assert load(spark, bootstrap, [topic, other], tmp_path, rewind_to={one: 0}).replaced == (0, 1, 3, 4)
    assert stored(spark, tmp_path) == once(topic, 30, 2) + once(other, 5)
    assert loads(tmp_path) == [5]


@pytest.mark.brokers(real=False)
def test_a_load_that_is_published_meanwhile_is_kept(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, path = new_topic(2), tmp_path / "clicks"
    three_loads(spark, bootstrap, topic, path)
    fill(bootstrap, topic, number_records(range(30, 32), 2))

    def meanwhile(rows: DataFrame) -> DataFrame:
        load(spark, bootstrap, topic, path)
        return rows

    with pytest.raises(LoadConflictError, match="another load was published first as load=000000000003"):
        load(spark, bootstrap, topic, path, transform=meanwhile, rewind_to={TopicPartition(topic, 0): 0})
    assert stored(spark, path) == once(topic, 32, 2)
    assert (loads(path), os.listdir(tmp_path)) == ([0, 1, 2, 3], ["clicks"])


@pytest.mark.brokers(real=True, needs=["deletion of records"])
def test_rows_whose_records_the_brokers_have_deleted_stay(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    three_loads(spark, bootstrap, topic, tmp_path)
    delete_before(bootstrap, topic, 7)
    with pytest.raises(DataLossError):
        load(
            spark,
            bootstrap,
            topic,
            tmp_path,
            rewind_to={TopicPartition(topic, 0): 8},
            fail_on_data_loss=False,
        )
    assert stored(spark, tmp_path) == once(topic, 30, 2)
    assert load(spark, bootstrap, topic, tmp_path, rewind_to={TopicPartition(topic, 0): 12}).replaced == (2,)
    assert stored(spark, tmp_path) == once(topic, 30, 2)


@pytest.mark.brokers(real=False)
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"rewind_to": datetime(2026, 1, 1)}, "has no time zone"),
        ({"rewind_to": {TopicPartition("t", 0): -1}}, "out of range"),
        ({"rewind_to": {TopicPartition("t", 0): 1}, "max_records": 1}, "cannot be combined with max_records"),
        (
            {"rewind_to": {TopicPartition("t", 0): 1}},
            "rewind_to has an offset for t-0, but no load has read this partition",
        ),
    ],
)
def test_what_cannot_be_rewound_is_an_error(
    spark: SparkSession,
    bootstrap: str,
    new_topic: NewTopic,
    tmp_path: Path,
    options: Mapping[str, Any],
    error: str,
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(2)))
    load(spark, bootstrap, topic, tmp_path)
    with pytest.raises(ConfigurationError, match=error):
        load(spark, bootstrap, topic, tmp_path, **options)
    assert loads(tmp_path) == [0]
