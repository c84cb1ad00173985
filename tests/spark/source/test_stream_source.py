"""``spark.readStream.format("pyklient")`` on real brokers: no row is lost or read twice, whatever fails."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pyklient import Admin
from tests.servers.fixtures import NewTopic
from tests.servers.process import wait_until
from tests.spark.streams import Stream
from tests.spark.topics import delete_before, delete_topic, fill, number_records, transaction

pytestmark = pytest.mark.brokers(min="4.3")
NEWEST = pytest.mark.brokers(min="4.3", real=True)


def test_a_stream_goes_on_where_it_was(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    stream = Stream(spark, bootstrap, tmp_path, subscribe=topic, startingOffsets="earliest")
    fill(bootstrap, topic, number_records(range(10), 2))
    assert stream.drain() == list(range(10))
    assert stream.offsets(0) == {topic: {"0": 5, "1": 5}}

    fill(bootstrap, topic, number_records(range(10, 13), 2))
    assert stream.drain() == list(range(13))
    assert stream.offsets(1) == {topic: {"0": 7, "1": 6}}


@NEWEST
def test_a_micro_batch_holds_about_as_many_offsets_as_it_may(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(20), 2))
    limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 8}
    stream = Stream(spark, bootstrap, tmp_path, subscribe=topic, **limited)
    assert stream.drain() == list(range(20))
    assert [len(rows) for rows in stream.batches.values()] == [8, 8, 4]


@NEWEST
def test_what_comes_while_everything_available_is_read_is_for_the_next_run(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(4)))
    stream = Stream(
        spark, bootstrap, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2
    )
    stream.before_batch = lambda batch: fill(bootstrap, topic, number_records([10 + batch]))
    assert stream.drain() == [0, 1, 2, 3]
    stream.before_batch = lambda _: None
    assert stream.drain() == [0, 1, 2, 3, 10, 11]


@NEWEST
def test_a_new_stream_begins_at_the_end_even_if_its_first_batch_fails(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(5)))
    stream = Stream(spark, bootstrap, tmp_path, subscribe=topic)
    assert stream.drain() == []  # which pins the end
    assert stream.offsets(0) == {topic: {"0": 5}}

    def fail(batch: int) -> None:
        raise ValueError(f"batch {batch} fails")

    stream.before_batch = fail
    fill(bootstrap, topic, number_records(range(5, 8)))
    with pytest.raises(StreamingQueryException, match="batch 1 fails"):
        stream.drain()
    stream.before_batch = lambda _: None
    fill(bootstrap, topic, number_records(range(8, 9)))
    assert stream.drain() == [5, 6, 7, 8]


@NEWEST
def test_a_micro_batch_waits_for_enough_offsets_but_not_for_ever(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(3)))
    patient = {"minOffsetsPerTrigger": 10, "maxTriggerDelay": "2s"}
    stream = Stream(spark, bootstrap, tmp_path, subscribe=topic, startingOffsets="earliest", **patient)
    with stream.running():
        wait_until(lambda: stream.numbers == [0, 1, 2], 60, "the first batch, which waits for nothing")
        fill(bootstrap, topic, number_records(range(3, 5)))
        wait_until(lambda: stream.numbers == list(range(5)), 60, "the end of the delay")
        fill(bootstrap, topic, number_records(range(5, 15)))
        wait_until(lambda: stream.numbers == list(range(15)), 60, "enough")
    assert [len(rows) for rows in stream.batches.values()] == [3, 2, 10]


def test_partitions_that_are_added_are_read_from_their_beginning(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records([0]))
    stream = Stream(spark, bootstrap, tmp_path, subscribe=topic)
    with stream.running():
        wait_until(lambda: 0 in stream.batches, 60, "the first batch")
        with Admin(bootstrap) as admin:
            admin.create_partitions(topic, 3)
        fill(bootstrap, topic, number_records(range(3, 9), 3))
        wait_until(lambda: stream.numbers == list(range(3, 9)), 60, "rows of all partitions")


@NEWEST
def test_a_topic_that_joins_without_its_beginning_fails_the_query_or_is_read_from_there(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    first, second = new_topic(1), new_topic(1)
    fill(bootstrap, first, number_records([0]))
    stream = Stream(spark, bootstrap, tmp_path, subscribe=first, startingOffsets="earliest")
    assert stream.drain() == [0]
    fill(bootstrap, second, number_records(range(1, 4)))
    delete_before(bootstrap, second, 2)
    both = f"{first},{second}"
    with pytest.raises(
        StreamingQueryException, match=f"{second}-0 is new to this query and begins at offset 2"
    ):
        Stream(spark, bootstrap, tmp_path, subscribe=both).drain()
    relaxed = Stream(spark, bootstrap, tmp_path, subscribe=both, failOnDataLoss="false")
    assert relaxed.drain() == [3]


@NEWEST
def test_topics_that_match_join_as_they_are_created(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    first = new_topic(1)
    pattern = first.rsplit("-", 2)[0] + ".*"
    stream = Stream(spark, bootstrap, tmp_path, subscribePattern=pattern, startingOffsets="earliest")
    fill(bootstrap, first, number_records([1]))
    assert stream.drain() == [1]
    fill(bootstrap, new_topic(2), number_records(range(2, 4), 2))
    assert stream.drain() == [1, 2, 3]


def renew(bootstrap: str, topic: str, count: int) -> None:
    with Admin(bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic)
    fill(bootstrap, topic, number_records(range(100, 100 + count)))


@NEWEST
def test_a_topic_created_again_fails_the_query_or_is_read_from_its_beginning(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    strict = Stream(spark, bootstrap, tmp_path, subscribe=topic, startingOffsets="earliest")
    fill(bootstrap, topic, number_records(range(5)))
    assert strict.drain() == list(range(5))
    renew(bootstrap, topic, 2)
    with pytest.raises(StreamingQueryException, match=f"{topic}-0 was read up to offset 5, but it ends at 2"):
        strict.drain()
    relaxed = Stream(spark, bootstrap, tmp_path, subscribe=topic, failOnDataLoss="false")
    assert relaxed.drain() == [100, 101]


@NEWEST
@pytest.mark.parametrize("strict", [True, False])
def test_a_topic_created_again_is_known_for_another_however_long_it_is(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path, strict: bool
) -> None:
    topic = new_topic(1)
    fill(bootstrap, topic, number_records(range(5)))
    stream = Stream(
        spark, bootstrap, tmp_path, subscribe=topic, startingOffsets="earliest", failOnDataLoss=strict
    )
    with stream.running(processingTime="3 seconds") as query:
        wait_until(lambda: stream.numbers == list(range(5)), 60, "the first batch")
        renew(bootstrap, topic, 9)
        if strict:
            with pytest.raises(StreamingQueryException, match="deleted and created again after offset 5"):
                query.awaitTermination(60)
        else:
            wait_until(lambda: stream.numbers == [*range(5), *range(100, 109)], 60, "the new topic's rows")


@NEWEST
def test_retention_that_overtakes_a_stream_fails_it_or_is_passed_over(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    strict = Stream(spark, bootstrap, tmp_path, subscribe=topic, startingOffsets="earliest")
    fill(bootstrap, topic, number_records(range(5)))
    assert strict.drain() == list(range(5))
    fill(bootstrap, topic, number_records(range(5, 12)))
    delete_before(bootstrap, topic, 9)
    with pytest.raises(
        StreamingQueryException, match=f"offsets 5 to 9 of {topic}-0 were deleted before they were read"
    ):
        strict.drain()
    relaxed = Stream(spark, bootstrap, tmp_path, subscribe=topic, failOnDataLoss="false")
    assert relaxed.drain() == [9, 10, 11]


@NEWEST
def test_transactions_are_read_when_they_are_committed_and_once(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    stream = Stream(
        spark,
        bootstrap,
        tmp_path,
        subscribe=topic,
        startingOffsets="earliest",
        kafka__isolation__level="read_committed",
    )

    def read_while_open(producer: Producer) -> None:
        assert stream.drain() == [0]
        producer.commit_transaction()

    fill(bootstrap, topic, number_records([0]))
    transaction(bootstrap, topic, [b"1", b"2"], read_while_open)
    assert stream.drain() == [0, 1, 2]
    transaction(bootstrap, topic, [b"3"], lambda producer: producer.abort_transaction())
    assert stream.drain() == [0, 1, 2]
    fill(bootstrap, topic, number_records([4]))
    assert stream.drain() == [0, 1, 2, 4]


@NEWEST
def test_without_its_topic_a_stream_fails_or_waits_for_it(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, other = new_topic(1), new_topic(1)
    strict = Stream(spark, bootstrap, tmp_path, subscribe=f"{topic},{other}", startingOffsets="earliest")
    fill(bootstrap, topic, number_records(range(5)))
    assert strict.drain() == list(range(5))
    delete_topic(bootstrap, topic)
    with pytest.raises(StreamingQueryException, match=f"{topic}-0 was deleted before .* offset 5 on were"):
        strict.drain()

    relaxed = Stream(spark, bootstrap, tmp_path, subscribe=f"{topic},{other}", failOnDataLoss="false")
    fill(bootstrap, other, number_records([7]))
    assert relaxed.drain() == [7]
    with Admin(bootstrap) as admin:
        admin.create_topic(topic)
    fill(bootstrap, topic, number_records(range(20, 23)))
    assert relaxed.drain() == [7, 20, 21, 22]
