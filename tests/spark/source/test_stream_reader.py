"""The calls that Spark makes to a streaming source, made here without Spark, in the order that follows a
restart."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from pyklient import Admin, BrokerError, DataLossError
from pyklient.spark.options import Use
from pyklient.spark.source.source_options import SourceOptions
from pyklient.spark.source.stream_reader import LimitedStreamReader
from pyklient.spark.source.task_planning import RangePartition
from tests.servers.fixtures import NewTopic
from tests.spark.topics import delete_topic, fill, number_records

pytestmark = pytest.mark.brokers(real=False)

ALL = ReadAllAvailable()


class NewReader(Protocol):
    """Makes a reader of a topic."""

    def __call__(self, topic: str, **options: str) -> LimitedStreamReader: ...


@pytest.fixture
def reader(bootstrap: str) -> Iterator[NewReader]:
    """Makes readers, and stops them in the end."""
    made: list[LimitedStreamReader] = []

    def reader(topic: str, **options: str) -> LimitedStreamReader:
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}
        made.append(LimitedStreamReader(SourceOptions.parse(given, Use.STREAM)))
        return made[-1]

    yield reader
    for each in made:
        each.stop()


def ranges(tasks: Any) -> list[tuple[int, int, int]]:
    assert all(isinstance(task, RangePartition) for task in tasks)
    return [(task.wanted.partition.partition, task.wanted.start, task.wanted.end) for task in tasks]


def test_the_first_batch_from_the_end_is_empty_and_pins_it(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(5)))
    source = reader(topic)
    start = source.initialOffset()
    assert start == {topic: {"0": 5}}
    fill(bootstrap, topic, number_records(range(5, 9)))
    assert source.initialOffset() == start  # Spark asks twice
    assert source.latestOffset(start, ALL) == start
    assert source.partitions(start, start) == []
    assert source.latestOffset(start, ALL) == {topic: {"0": 9}}


def test_a_restart_before_the_first_batch_was_done_loses_nothing(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(5)))
    logged = reader(topic).initialOffset()
    fill(bootstrap, topic, number_records(range(5, 9)))
    with Admin(bootstrap) as admin:
        admin.create_partitions(topic, 2)

    again = reader(topic)
    later = again.initialOffset()
    assert later == {topic: {"0": 9, "1": 0}}
    assert again.partitions(later, logged) == []
    assert ranges(again.partitions(logged, again.latestOffset(logged, ALL))) == [(0, 5, 9)]


def test_a_beginning_that_stays_needs_no_empty_batch(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(5)))
    for options in (
        {"startingOffsets": "earliest"},
        {"startingOffsets": f'{{"{topic}": {{"0": 0}}}}'},
        {"startingTimestamp": "0"},
    ):
        source = reader(topic, **options)
        assert source.initialOffset() == {topic: {"0": 0}}
        assert source.latestOffset({topic: {"0": 0}}, ALL) == {topic: {"0": 5}}


def test_a_batch_that_is_done_again_has_the_same_tasks(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(20), 2))
    source = reader(topic, startingOffsets="earliest", minPartitions="5")
    start, end = source.initialOffset(), {topic: {"0": 8, "1": 7}}
    planned = ranges(source.partitions(start, end))
    fill(bootstrap, topic, number_records(range(20, 40), 2))
    assert ranges(reader(topic, minPartitions="5").partitions(start, end)) == planned
    assert sum(last - first for _, first, last in planned) == 15
    assert len(planned) == 5


def test_limits_hold_but_where_spark_wants_everything(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(10)))
    source = reader(topic, maxOffsetsPerTrigger="4")
    assert source.getDefaultReadLimit() == ReadMaxRows(4)
    assert source.latestOffset({topic: {"0": 0}}, ReadMaxRows(4)) == {topic: {"0": 4}}
    assert source.latestOffset({topic: {"0": 0}}, ALL) == {topic: {"0": 10}}
    assert source.reportLatestOffset() == {topic: {"0": 10}}
    assert reader(topic, minOffsetsPerTrigger="4").getDefaultReadLimit() == ReadMinRows(4)
    assert reader(topic).getDefaultReadLimit() == ALL


def test_a_micro_batch_begins_with_the_least_number_of_offsets_and_not_before(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(2)))
    source = reader(topic, minOffsetsPerTrigger="4")
    assert source.latestOffset({topic: {"0": 0}}, ReadMinRows(4)) == {topic: {"0": 2}}, "the first"
    fill(bootstrap, topic, number_records(range(3)))
    assert source.latestOffset({topic: {"0": 2}}, ReadMinRows(4)) == {topic: {"0": 2}}
    fill(bootstrap, topic, number_records(range(1)))
    assert source.latestOffset({topic: {"0": 2}}, ReadMinRows(4)) == {topic: {"0": 6}}


def test_available_now_ends_at_the_offsets_that_are_looked_up_first(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(5)))
    source = reader(topic, maxOffsetsPerTrigger="3")
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset({topic: {"0": 0}}, ReadMaxRows(3)) == {topic: {"0": 3}}
    fill(bootstrap, topic, number_records(range(5, 9)))
    assert source.latestOffset({topic: {"0": 3}}, ReadMaxRows(3)) == {topic: {"0": 5}}
    assert source.latestOffset({topic: {"0": 5}}, ReadMaxRows(3)) == {topic: {"0": 5}}


def test_a_limit_counts_from_the_beginning_of_partitions_that_are_new(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(20), 2))
    source = reader(topic, maxOffsetsPerTrigger="6")
    end = source.latestOffset({topic: {"0": 4}}, ReadMaxRows(6))
    assert end == {topic: {"0": 6, "1": 3}}
    assert ranges(source.partitions({topic: {"0": 4}}, end)) == [(0, 4, 6), (1, 0, 3)]


def test_a_topic_that_is_gone_is_no_loss_to_a_batch_that_reads_nothing_of_it(
    reader: NewReader, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, other = new_topic(), new_topic()
    fill(bootstrap, other, number_records(range(3)))
    source = reader(f"{topic},{other}")
    delete_topic(bootstrap, topic)
    start = {topic: {"0": 7}, other: {"0": 0}}
    assert ranges(source.partitions(start, {topic: {"0": 7}, other: {"0": 3}})) == [(0, 0, 3)]
    with pytest.raises(DataLossError, match=f"{topic}-0 was deleted before .* offset 7 on were read"):
        source.partitions(start, {topic: {"0": 8}, other: {"0": 3}})


def test_a_stream_of_a_topic_that_does_not_exist_does_not_begin(
    reader: NewReader, new_topic: NewTopic
) -> None:
    with pytest.raises(BrokerError, match="read topic nowhere"):
        reader(f"{new_topic()},nowhere").initialOffset()
