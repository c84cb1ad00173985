"""The work of one task, without Spark."""

import logging
import time
from collections.abc import Iterator

import pytest

from pyklient import Admin, DataLossError, TopicPartition, read
from pyklient.spark.options import Use
from pyklient.spark.source.offset_ranges import OffsetRange
from pyklient.spark.source.source_options import SourceOptions
from pyklient.spark.source.task_reader import record_batches
from tests.servers.fixtures import NewTopic
from tests.servers.process import wait_until
from tests.spark.topics import delete_before, delete_topic, fill, number_records

pytestmark = pytest.mark.brokers(min="4.3")
LITTLE_AT_A_TIME = {
    f"kafka.{name}": "100000"
    for name in ("max.partition.fetch.bytes", "fetch.max.bytes", "prefetch.max.bytes")
}
"""Options with which only a small part has been fetched when the first records arrive."""
NEWEST = pytest.mark.brokers(min="4.3", real=True)


def options(bootstrap: str, topic: str, **given: str) -> SourceOptions:
    needed = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafkaConsumer.pollTimeoutMs": "5000"}
    return SourceOptions.parse({**needed, **given}, Use.STREAM)


def scan(bootstrap: str, topic: str, start: int, end: int, **given: str) -> Iterator[int]:
    for batch in record_batches(
        options(bootstrap, topic, **given), OffsetRange(TopicPartition(topic, 0), start, end)
    ):
        yield from batch.column("offset").to_pylist()


def test_a_task_reads_its_range_and_no_more(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(10)))
    assert list(scan(bootstrap, topic, 3, 7)) == [3, 4, 5, 6]
    assert list(scan(bootstrap, topic, 7, 7)) == []


@NEWEST
def test_what_retention_took_meanwhile_fails_the_task_or_is_passed_over(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(10)))
    delete_before(bootstrap, topic, 6)
    with pytest.raises(DataLossError, match=f"offsets 2 to 6 of {topic}-0 were deleted"):
        list(scan(bootstrap, topic, 2, 8))
    assert list(scan(bootstrap, topic, 2, 8, failOnDataLoss="false")) == [6, 7]
    assert list(scan(bootstrap, topic, 2, 5, failOnDataLoss="false")) == []


@NEWEST
@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_task_that_retention_overtakes_knows_how_far_it_was(
    bootstrap: str, new_topic: NewTopic, caplog: pytest.LogCaptureFixture, strict: str
) -> None:
    topic, count = new_topic(), 20_000
    fill(bootstrap, topic, [{"value": bytes(1000)}] * count)
    offsets = scan(bootstrap, topic, 0, count, failOnDataLoss=strict, **LITTLE_AT_A_TIME)
    found = [next(offsets)]
    delete_before(bootstrap, topic, count - 5)

    said = ""
    with caplog.at_level(logging.WARNING, "pyklient.spark"):
        try:
            found += offsets
        except DataLossError as error:
            said = str(error)
    before = [each for each in found if each < count - 5]
    assert found == [*before, *(range(count - 5, count) if strict == "false" else ())]
    gone = f"offsets {len(before)} to {count - 5} of {topic}-0 were deleted before they were read"
    assert gone in (said if strict == "true" else caplog.text)


def test_a_log_that_ends_too_early_fails_the_task_or_ends_it(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(3)))
    patience = {"kafkaConsumer.pollTimeoutMs": "500"}
    with pytest.raises(DataLossError, match=f"{topic}-0 was to be read up to offset 5, but it ends at 3"):
        list(scan(bootstrap, topic, 1, 5, **patience))
    assert list(scan(bootstrap, topic, 1, 5, failOnDataLoss="false", **patience)) == [1, 2]
    assert list(scan(bootstrap, topic, 40, 50, failOnDataLoss="false", **patience)) == []


def test_a_topic_that_is_gone_fails_the_task_or_ends_it(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    delete_topic(bootstrap, topic)
    with pytest.raises(DataLossError, match=f"offsets 0 to 5 of {topic}-0 were deleted with their topic"):
        list(scan(bootstrap, topic, 0, 5))
    patience = {"kafkaConsumer.pollTimeoutMs": "500"}
    assert list(scan(bootstrap, topic, 0, 5, failOnDataLoss="false", **patience)) == []


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_topic_that_goes_while_it_is_read_is_not_waited_for_until_the_time_is_up(
    bootstrap: str, new_topic: NewTopic, strict: str
) -> None:
    topic, count = new_topic(), 20_000
    fill(bootstrap, topic, [{"value": bytes(1000)}] * count)
    patience = {"kafkaConsumer.pollTimeoutMs": "100000"}
    offsets = scan(bootstrap, topic, 0, count, failOnDataLoss=strict, **LITTLE_AT_A_TIME, **patience)
    next(offsets)
    with Admin(bootstrap) as admin:
        admin.delete_topic(topic)
    began = time.monotonic()
    if strict == "true":
        with pytest.raises(DataLossError, match=rf"offsets \d+ to {count} of {topic}-0 were deleted with"):
            list(offsets)
    else:
        assert len(list(offsets)) < count - 1
    assert time.monotonic() - began < 60


def test_a_topic_created_again_is_not_taken_for_the_one_that_an_earlier_task_read(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(3)))
    assert list(scan(bootstrap, topic, 0, 3)) == [0, 1, 2]
    with Admin(bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic)
    fill(bootstrap, topic, number_records(range(5)))
    assert list(scan(bootstrap, topic, 0, 5)) == [0, 1, 2, 3, 4]


def test_records_without_headers_have_null_for_them(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    headers = [[("n", b"%d" % number)] if number % 3 == 0 else [] for number in range(25_000)]
    fill(bootstrap, topic, [{"value": b"", "headers": each} for each in headers])
    wanted = OffsetRange(TopicPartition(topic, 0), 5, 25_000)
    found = [
        row and [tuple(pair.values()) for pair in row]
        for batch in record_batches(options(bootstrap, topic, includeHeaders="true"), wanted)
        for row in batch.column("headers").to_pylist()
    ]
    assert found == [each or None for each in headers[5:]]


@NEWEST
def test_gaps_that_compaction_leaves_are_nothing_to_wait_for(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_ms=100)
    for _ in range(3):
        fill(bootstrap, topic, [{"key": b"k%d" % (n % 3), "value": b"%d" % n} for n in range(10)])
    time.sleep(0.15)  # only a segment that has had its time is closed, and compacted
    fill(bootstrap, topic, [{"key": b"last", "value": b"x"}])
    found: list[int] = []

    def compacted() -> bool:
        found[:] = [message.offset for message in read(bootstrap, topic)]
        return len(found) < 10

    wait_until(compacted, 60, "compaction", poll=0.2)
    assert list(scan(bootstrap, topic, 0, 31)) == found
    for start in range(0, 30, 5):
        assert list(scan(bootstrap, topic, start, start + 5)) == [n for n in found if start <= n < start + 5]
