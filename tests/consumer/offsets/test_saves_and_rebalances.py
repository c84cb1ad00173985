"""Positions in an offset store when partitions are assigned again: messages from before are stored once."""

from collections.abc import Collection
from functools import partial
from pathlib import Path

import pytest

from pyklient import (
    ConfigurationError,
    ConsumerRebalanceListener,
    KafkaStream,
    KafkaTimeoutError,
    OffsetStoreFencedError,
    TopicPartition,
)
from pyklient.offset_stores import SQLiteOffsetStore
from tests.consumer.feed import Feed, wait_for
from tests.consumer.offsets.results import NUMBERS, Results, connect, read_some


def test_messages_from_before_a_rebalance_are_not_stored_after_it(feed: Feed, results: Results) -> None:
    topic = feed.topic(2, *NUMBERS[:5])
    feed.send(topic, NUMBERS[5:], partition=1)
    with connect(feed, results.store) as first:
        stream = first.stream(topic)
        read = read_some(stream, 10)
        with connect(feed, results.store) as second:
            second.stream(topic)
            with pytest.raises(OffsetStoreFencedError):
                results.save(stream, read)
            stream.rewind()
            results.save(stream, read_some(stream, 5))
    assert sorted(results.values() + results.values(1)) in (NUMBERS[:5], NUMBERS[5:])


def test_messages_of_a_partition_that_stays_in_a_rebalance_are_read_again(
    feed: Feed, results: Results
) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store, metadata_max_age_ms=200, heartbeat_interval_ms=100) as connector:
        stream = connector.stream(topic)
        read = read_some(stream, 5)
        feed.grow(topic, 2)
        wait_for(lambda: len(results.store.positions("g")) == 2, "the new partition")
        wait_for(lambda: len(stream.lag()) == 2, "the end of the rebalance")
        with pytest.raises(OffsetStoreFencedError, match="were assigned again before these messages"):
            results.save(stream, read)
        stream.rewind()
        results.save(stream, read_some(stream, 10))
    assert results.values() == NUMBERS


def grow_and_wait(feed: Feed, results: Results, stream: KafkaStream, topic: str) -> None:
    """Add a second partition to *topic*, and wait for the end of the rebalance that this causes."""
    feed.grow(topic, 2)
    wait_for(lambda: len(results.store.positions("g")) == 2, "the new partition")
    wait_for(lambda: len(stream.lag()) == 2, "the end of the rebalance")


@pytest.mark.parametrize("saved", [False, True], ids=["not saved", "saved, and rolled back"])
def test_messages_that_another_member_has_stored_are_not_stored_again(
    feed: Feed, results: Results, saved: bool
) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store, metadata_max_age_ms=200, heartbeat_interval_ms=100) as connector:
        stream = connector.stream(topic)
        read = read_some(stream, 5)
        if saved:
            results.save(stream, read, commit=False)
        with connect(feed, results.store) as other:
            theirs = other.assign({topic: [0]})
            results.save(theirs, read_some(theirs, 5))
        grow_and_wait(feed, results, stream, topic)
        if saved:
            read += read_some(stream, 2)
        with pytest.raises(OffsetStoreFencedError, match="were assigned again before these messages"):
            results.save(stream, read)
        stream.rewind()
        results.save(stream, read_some(stream, 5))
    assert results.values() == NUMBERS


def test_a_partition_that_stays_goes_on_without_rewind_if_all_its_messages_are_saved(
    feed: Feed, results: Results
) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store, metadata_max_age_ms=200, heartbeat_interval_ms=100) as connector:
        stream = connector.stream(topic)
        results.save(stream, read_some(stream, 5))
        grow_and_wait(feed, results, stream, topic)
        results.save(stream, read_some(stream, 5))
    assert results.values() == NUMBERS


def test_a_rebalance_listener_can_neither_save_nor_rewind(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    errors: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            for call in (partial(stream.save_offsets, results.database), stream.rewind):
                try:
                    call()
                except ConfigurationError as error:
                    errors.append(str(error))

    with connect(feed, results.store) as connector:
        connector.set_rebalance_listener(Listener())
        stream = connector.stream(topic)
        read_some(stream, 5)
    assert [each.partition(" cannot be called in a rebalance listener")[0] for each in errors[-2:]] == [
        "save_offsets()",
        "rewind()",
    ]


def test_a_loop_that_waits_for_messages_inside_a_transaction_raises_an_error(
    feed: Feed, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyklient.consumer.group.start_positions._LONGEST_BLOCK", 0.0)
    topic, impatient = feed.topic(1, *NUMBERS), SQLiteOffsetStore(tmp_path / "results.db", timeout=0.05)
    options = {"metadata_max_age_ms": 200, "heartbeat_interval_ms": 100}
    with connect(feed, impatient, **options) as connector:
        stream = connector.stream(topic)
        for message in read_some(stream, 10):
            results.database.execute("INSERT INTO results VALUES (0, ?)", [message.value.decode()])
        feed.grow(topic, 2)
        with pytest.raises(KafkaTimeoutError, match="end it before the loop continues"):
            next(iter(stream))
        results.database.rollback()
        stream.rewind()
        results.save(stream, read_some(stream, 10))
    assert results.values() == NUMBERS
