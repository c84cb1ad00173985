"""``read`` with an offset store: each read begins where the transaction of the last one ended."""

from collections.abc import Mapping
from typing import Any

import pytest

from pyklient import (
    ConfigurationError,
    ConsumerConnector,
    OffsetOutOfRangeError,
    OffsetStoreFencedError,
    TopicPartition,
    read,
)
from pyklient.consumer.bounded_read import BoundedRead
from pyklient.offset_stores import StoredPosition
from tests.consumer.feed import Feed
from tests.consumer.offsets.results import NUMBERS, Results


def begin(feed: Feed, results: Results, topic: str, **options: Any) -> BoundedRead:
    return read(feed.bootstrap_servers, topic, offset_store=results.store, group_id="g", **options)


def store(results: Results, reading: BoundedRead, values: list[bytes]) -> None:
    """Store *values* and the positions of *reading* in one transaction."""
    with results.database:
        rows = [[value.decode()] for value in values]
        results.database.executemany("INSERT INTO results VALUES (0, ?)", rows)
        reading.save_offsets(results.database)


def test_each_form_of_read_begins_where_the_last_transaction_ended(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    with begin(feed, results, topic, start=1) as reading:
        for message in reading:
            store(results, reading, [message.value])
            if message.offset == 2:
                break
    reading = begin(feed, results, topic, end=4)  # in the middle of a batch
    store(results, reading, [message.value for message in reading])  # after the end of the read
    reading = begin(feed, results, topic, end=6)
    for batch in reading.batches():
        store(results, reading, [message.value for message in batch])
    reading = begin(feed, results, topic, end=8)
    for columns in reading.arrow_batches():
        store(results, reading, columns.column("value").to_pylist())
    reading = begin(feed, results, topic)
    store(results, reading, reading.to_arrow().column("value").to_pylist())
    assert results.values() == NUMBERS[1:]
    assert list(begin(feed, results, topic)) == []
    assert results.store.positions("g") == {TopicPartition(topic, 0): 10}


def test_a_read_whose_transaction_was_rolled_back_is_read_again(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    reading = begin(feed, results, topic)
    values = [message.value for message in reading]
    for _ in range(2):
        reading.save_offsets(results.database)
        results.database.rollback()
    with begin(feed, results, topic) as newer:
        batch = next(newer.batches(4))
        with pytest.raises(OffsetStoreFencedError, match=r"read\(\) again"):
            store(results, reading, values)
        store(results, newer, [message.value for message in batch])
    assert results.values() == NUMBERS[:4]


def test_a_connector_goes_on_where_a_read_has_ended(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    reading = begin(feed, results, topic, end=5)
    store(results, reading, [message.value for message in reading])
    with ConsumerConnector(feed.bootstrap_servers, group_id="g", offset_store=results.store) as connector:
        assert next(iter(connector.stream(topic))).value == b"5"


def test_a_stored_position_that_the_log_does_not_have_is_an_error(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    results.store.reset("g", {TopicPartition(topic, 0): 11})
    with pytest.raises(OffsetOutOfRangeError, match=r"the stored position 11 of .* is after the end"):
        begin(feed, results, topic)


def test_a_position_that_was_stored_after_the_ends_were_looked_up_is_not_after_the_end(
    feed: Feed, results: Results
) -> None:
    zero = TopicPartition(feed.topic(1, *NUMBERS[:5]), 0)

    class Overtaken:
        """A store in which another program stores the position of new messages, shortly before the read
        acquires the partition."""

        save = results.store.save

        def acquire(
            self, group_id: str, starts: Mapping[TopicPartition, int | None]
        ) -> Mapping[TopicPartition, StoredPosition]:
            feed.send(zero.topic, NUMBERS[5:])
            results.store.reset(group_id, {zero: 8})
            return results.store.acquire(group_id, starts)

    reading = read(feed.bootstrap_servers, zero.topic, offset_store=Overtaken(), group_id="g")
    assert reading.bounds == {zero: (8, 10)}
    store(results, reading, [message.value for message in reading])
    assert results.values() == NUMBERS[8:]


def test_options_of_a_store_belong_together(feed: Feed, results: Results) -> None:
    topic = feed.topic(1)
    with pytest.raises(ConfigurationError, match="needs group_id"):
        read(feed.bootstrap_servers, topic, offset_store=results.store)
    with pytest.raises(ConfigurationError, match="remove the options group_id"):
        read(feed.bootstrap_servers, topic, group_id="g")
    with (
        read(feed.bootstrap_servers, topic) as reading,
        pytest.raises(ConfigurationError, match="this read has no offset store"),
    ):
        reading.save_offsets(results.database)
