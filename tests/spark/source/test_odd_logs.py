"""Logs with gaps, and records that are empty or huge, read through Spark from a real broker."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyklient import read as read_topic
from tests.run.seed import dice
from tests.servers.fixtures import NewTopic
from tests.servers.process import wait_until
from tests.servers.topics import stored_records
from tests.spark.streams import Stream
from tests.spark.topics import delete_before, fill, number_records, transaction

pytestmark = [pytest.mark.brokers(min="4.3", real=True), pytest.mark.slow]


def rows_of(spark: SparkSession, bootstrap: str, topic: str, **options: object) -> list[Row]:
    reader = spark.read.format("pyklient").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader.option("subscribe", topic).load().collect()


def compacted(bootstrap: str, topic: str) -> list[int]:
    """Fill *topic* with five keys, wait until all but the newest record of each is compacted away, and return
    the remaining offsets."""
    chosen = dice("keys")
    fill(bootstrap, topic, [{"key": b"%d" % chosen.randrange(5), "value": b"%d" % n} for n in range(200)])

    def is_compacted() -> bool:
        # The last segment is never compacted: another record closes it.
        fill(bootstrap, topic, [{"key": b"end", "value": b"-1"}])
        return len(list(stored_records(bootstrap, topic))) < 50

    wait_until(is_compacted, 60, "compaction", poll=0.5)
    return sorted(message.offset() or 0 for message in stored_records(bootstrap, topic))


def test_what_compaction_leaves_is_read_whole_wherever_the_tasks_begin(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(
        cleanup_policy="compact", max_compaction_lag_ms=100, min_cleanable_dirty_ratio=0.001, segment_ms=100
    )
    left = compacted(bootstrap, topic)
    assert left[-1] - left[0] >= len(left), "there is a gap"
    end = left[-1] + 1
    bounds = {"endingOffsets": f'{{"{topic}": {{"0": {end}}}}}'}
    for cuts in ({}, {"minPartitions": 4}, {"maxRecordsPerPartition": 60}):
        offsets = sorted(row.offset for row in rows_of(spark, bootstrap, topic, **bounds, **cuts))
        # The cleaner goes on: of what was left, the newest of each key is there for good.
        assert set(offsets) <= set(left)
        assert len(offsets) == len(set(offsets)) >= 5
    stream = Stream(
        spark, bootstrap, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=100
    )
    found = stream.drain()
    assert len({number for number in found if number >= 0}) >= 5
    assert len(stream.batches) >= 2


def test_ranges_that_end_in_markers_or_hold_nothing_else_come_to_their_end(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(2)))
    transaction(bootstrap, topic, [b"2"], lambda producer: producer.commit_transaction())  # marker at 3
    for _ in range(3):
        transaction(bootstrap, topic, [b"9"], lambda producer: producer.abort_transaction())  # 4 to 9
    committed = {"kafka__isolation__level": "read_committed"}
    for cuts in ({}, {"maxRecordsPerPartition": 1}):
        rows = rows_of(spark, bootstrap, topic, **committed, **cuts)
        assert sorted(int(row.value) for row in rows) == [0, 1, 2]
    # A marker; nothing that was committed; the last marker.
    for first, last in ((3, 4), (4, 10), (9, 10)):
        bounds = {"startingOffsets": first, "endingOffsets": last}
        texts = {name: f'{{"{topic}": {{"0": {offset}}}}}' for name, offset in bounds.items()}
        assert rows_of(spark, bootstrap, topic, **committed, **texts) == []
    stream = Stream(
        spark,
        bootstrap,
        tmp_path,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=1,
        **committed,
    )
    assert stream.drain() == [0, 1, 2]
    assert stream.offsets(9) == {topic: {"0": 10}}


def test_empty_partitions_beside_full_ones_are_in_the_checkpoint(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    empty, topic = new_topic(2), new_topic(3)
    fill(bootstrap, topic, [{"value": b"7", "partition": 1}])
    stream = Stream(spark, bootstrap, tmp_path, subscribe=f"{empty},{topic}", startingOffsets="earliest")
    assert stream.drain() == [7]
    assert stream.offsets(0) == {empty: {"0": 0, "1": 0}, topic: {"0": 0, "1": 1, "2": 0}}
    fill(bootstrap, empty, [{"value": b"8", "partition": 1}])
    assert stream.drain() == [7, 8]


def test_ten_mebibytes_and_nothing_at_all_are_written_and_read_as_they_are(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    large = 20 << 20
    source, copy = (new_topic(max_message_bytes=large) for _ in range(2))
    values = [bytes(10 << 20), None, b"", random.Random(1).randbytes(10 << 20)]
    keys = [None, b"", b"k", None]
    records = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
    fill(bootstrap, source, records, **{"message.max.bytes": large})
    (
        spark.read.format("pyklient")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .load()
        .write.format("pyklient")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.max.request.size", large)
        .option("topic", copy)
        .save()
    )
    found = list(read_topic(bootstrap, copy))
    assert [each.key for each in found] == keys
    assert [each.value == value for each, value in zip(found, values, strict=True)] == [True] * 4


@pytest.mark.parametrize("strict", [True, False])
def test_retention_that_overtakes_a_task_in_the_middle_fails_it_or_is_passed_over(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, strict: bool
) -> None:
    topic, count = new_topic(), 60_000
    fill(bootstrap, topic, [{"value": bytes(1000)}] * count)
    reader = spark.read.format("pyklient").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("failOnDataLoss", strict)
    # Little at a time, so that most is not read yet when the first rows have come through Spark.
    for limit in ("max.partition.fetch.bytes", "fetch.max.bytes", "prefetch.max.bytes"):
        reader = reader.option(f"kafka.{limit}", 100_000)

    def take(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == 0:
                delete_before(bootstrap, topic, count - 5)
            yield batch.select(["offset"])

    rows = reader.load().select("offset", "value").mapInArrow(take, "offset long")
    if strict:
        with pytest.raises(PySparkException, match=f"of {topic}-0 were deleted before they were read"):
            rows.collect()
        return
    offsets = sorted(row.offset for row in rows.collect())
    assert offsets[-5:] == list(range(count - 5, count))
    assert len(set(offsets)) == len(offsets) < count
