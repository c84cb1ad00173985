"""Positions that a program saves in an offset store: each message is in the results once, whatever the
program and other members do."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import pytest

from pyklient import (
    ConfigurationError,
    ConsumerConnector,
    ConsumerTimeout,
    Message,
    OffsetStore,
    OffsetStoreFencedError,
    StreamInUseError,
    TopicPartition,
)
from pyklient.consumer.consumed_positions import Positions
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.offset_stores import StoredPosition
from tests.consumer.feed import Feed
from tests.consumer.offsets.results import NUMBERS, Results, connect, read_some
from tests.run.seed import dice


def test_each_form_of_loop_begins_where_the_last_transaction_ended(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store) as connector:
        stream = connector.stream(topic)
        for message in stream:
            results.save(stream, [message])
            if message.offset == 2:
                break
    with connect(feed, results.store) as connector:
        stream = connector.stream(topic)
        results.save(stream, next(stream.batches(4, timeout=30)))
    with connect(feed, results.store) as connector:
        stream = connector.assign({topic: [0]}, start="beginning")  # the stored position counts
        batch = next(stream.arrow_batches(timeout=30))
        values = [(0, value.decode()) for value in batch.column("value").to_pylist()]
        results.database.executemany("INSERT INTO results VALUES (?, ?)", values)
        stream.save_offsets(results.database)
        results.database.commit()
    assert results.values() == NUMBERS
    assert results.store.positions("g") == {TopicPartition(topic, 0): 10}


def test_a_fenced_member_stores_nothing_and_goes_on_after_rewind(feed: Feed, results: Results) -> None:
    zero = TopicPartition(feed.topic(1, *NUMBERS), 0)
    with connect(feed, results.store) as connector:
        stream = connector.stream(zero.topic)
        batches = stream.batches(3, timeout=30)
        first = next(batches)
        results.store.acquire("g", {zero: None})  # by another member
        with pytest.raises(OffsetStoreFencedError, match=rf"positions of {zero} were not saved"):
            results.save(stream, first)
        second = next(batches)
        with pytest.raises(OffsetStoreFencedError):
            results.save(stream, second)
        assert results.values() == []
        stream.rewind()
        results.save(stream, next(batches))
        results.save(stream, next(batches))
    assert results.values() == NUMBERS[:6]


def test_a_transaction_that_was_rolled_back_may_be_repeated_or_read_again(
    feed: Feed, results: Results
) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store) as connector:
        stream = connector.stream(topic)
        batches = stream.batches(2, timeout=30)
        batch = next(batches)
        results.save(stream, batch, commit=False)
        results.save(stream, batch, commit=False)
        results.save(stream, batch)
        batch = next(batches)
        results.save(stream, batch, commit=False)
        stream.redeliver()
        results.save(stream, next(batches))
    assert results.values() == NUMBERS[:4]


def test_a_transaction_whose_commit_has_succeeded_is_not_repeated(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store) as connector:
        stream = connector.stream(topic)
        batches = stream.batches(2, timeout=30)
        batch = next(batches)
        results.save(stream, batch)
        with pytest.raises(OffsetStoreFencedError):
            results.save(stream, batch)
        stream.redeliver()
        again = next(batches)
        assert [each.offset for each in again] == [0, 1]
        with pytest.raises(OffsetStoreFencedError):
            results.save(stream, again)
        stream.rewind()
        results.save(stream, next(batches))
    assert results.values() == NUMBERS[:4]


def test_messages_of_a_transaction_that_was_rolled_back_cannot_be_left_out(
    feed: Feed, results: Results
) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store) as connector:
        stream = connector.stream(topic)
        batches = stream.batches(2, timeout=30)
        results.save(stream, next(batches), commit=False)
        for _ in range(2):
            with pytest.raises(OffsetStoreFencedError):
                results.save(stream, next(batches))
        stream.rewind()
        results.save(stream, next(batches))
    assert results.values() == NUMBERS[:2]


def test_seek_skips_messages_but_stores_none_twice(feed: Feed, results: Results) -> None:
    zero = TopicPartition(feed.topic(1, *NUMBERS), 0)
    with connect(feed, results.store) as connector:
        stream = connector.stream(zero.topic)
        batches = stream.batches(2, timeout=30)
        results.save(stream, next(batches))
        stream.seek(zero, 5)
        results.save(stream, next(batches))
        stream.seek(zero, 1)
        batch = next(batches)
        assert [each.offset for each in batch] == [1, 2]
        with pytest.raises(OffsetStoreFencedError):
            results.save(stream, batch)
        results.store.reset("g", {zero: 1})
        stream.rewind()
        results.save(stream, next(batches))
    assert results.values() == ["0", "1", "5", "6", "1", "2"]


def test_a_transaction_that_was_rolled_back_is_noticed_when_its_partitions_have_not_moved(
    feed: Feed, results: Results
) -> None:
    topic = feed.topic(2, *NUMBERS[:5])
    with connect(feed, results.store) as connector:
        stream = connector.stream(topic)
        read = read_some(stream, 5)
        results.save(stream, read, commit=False)
        feed.send(topic, NUMBERS[5:], partition=1)
        read += read_some(stream, 5)
        with pytest.raises(OffsetStoreFencedError, match=f"positions of {topic}-0 were not saved"):
            results.save(stream, read)
        stream.rewind()
        results.save(stream, read_some(stream, 10))
    assert (results.values(0), results.values(1)) == (NUMBERS[:5], NUMBERS[5:])


def test_seek_back_while_messages_are_not_saved_prevents_the_next_save(feed: Feed, results: Results) -> None:
    zero = TopicPartition(feed.topic(1, *NUMBERS), 0)
    with connect(feed, results.store) as connector:
        stream = connector.stream(zero.topic)
        for back in (0, 3):
            read = read_some(stream, 5)
            stream.seek(zero, back)
            with pytest.raises(OffsetStoreFencedError, match=r"seek\(\) went back"):
                results.save(stream, read)
            stream.rewind()
        stream.seek(zero, 8)
        stream.seek(zero, 2)  # which goes back over no message
        results.save(stream, read_some(stream, 3))
        read = read_some(stream, 1)
        stream.seek(zero, 7)  # which leaves messages out
        results.save(stream, read + read_some(stream, 3))
    assert results.values() == ["2", "3", "4", "5", "7", "8", "9"]


def test_without_auto_offset_reset_seek_stores_the_offset_at_which_reading_begins(
    feed: Feed, results: Results
) -> None:
    zero = TopicPartition(feed.topic(1, *NUMBERS), 0)
    with connect(feed, results.store, auto_offset_reset="none") as connector:
        stream = connector.stream(zero.topic)
        stream.seek(zero, 3)
        assert results.store.positions("g") == {zero: 3}
        results.save(stream, read_some(stream, 2))
    assert results.values() == ["3", "4"]
    assert results.store.positions("g") == {zero: 5}


def test_another_thread_than_the_one_that_reads_the_stream_cannot_save(feed: Feed, results: Results) -> None:
    with connect(feed, results.store) as connector:
        stream = connector.stream(feed.topic(1, *NUMBERS))
        messages = iter(stream)
        next(messages)
        with ThreadPoolExecutor(1) as pool:
            for call in (partial(stream.save_offsets, results.database), stream.rewind):
                with pytest.raises(StreamInUseError):
                    pool.submit(call).result(30)


class BusyError(Exception):
    """An error of a database that is not reachable for the moment."""

    retriable = True


class BusyStore:
    """An offset store whose first call fails."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self.failed = False
        self.save = store.save

    def acquire(
        self, group_id: str, starts: Mapping[TopicPartition, int | None]
    ) -> Mapping[TopicPartition, StoredPosition]:
        if not self.failed:
            self.failed = True
            raise BusyError("try again")
        return self._store.acquire(group_id, starts)


def test_an_error_of_a_store_that_says_it_is_retriable_is_tried_again(feed: Feed, results: Results) -> None:
    store = BusyStore(results.store)
    with connect(feed, store) as connector:
        stream = connector.stream(feed.topic(1, *NUMBERS))
        results.save(stream, read_some(stream, 10))
    assert store.failed
    assert results.values() == NUMBERS


def test_programs_that_fence_each_other_again_and_again_are_told_why(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store) as connector, connect(feed, results.store) as other:
        stream, theirs = (each.assign({topic: [0]}) for each in (connector, other))
        for number in range(1, 4):
            theirs.rewind()
            with pytest.raises(OffsetStoreFencedError) as caught:
                results.save(stream, read_some(stream, 1))
            assert (f"save number {number} in a row" in str(caught.value)) is (number == 3)
            stream.rewind()
        results.save(stream, read_some(stream, 1))
    assert results.values() == ["0"]


def test_the_offset_at_which_reading_begins_is_stored_before_the_first_message(
    feed: Feed, results: Results
) -> None:
    topic = feed.topic(1, *NUMBERS[:3])
    with connect(feed, results.store, auto_offset_reset="latest") as connector:
        connector.stream(topic)
        assert results.store.positions("g") == {TopicPartition(topic, 0): 3}
    feed.send(topic, NUMBERS[3:])
    with connect(feed, results.store, auto_offset_reset="latest") as connector:
        stream = connector.stream(topic)
        results.save(stream, [next(iter(stream))])
    assert results.values() == ["3"]


def test_what_needs_committed_offsets_or_a_store_says_so(feed: Feed, results: Results) -> None:
    topic = feed.topic(1, *NUMBERS)
    with connect(feed, results.store) as connector:
        with pytest.raises(ConfigurationError, match=r"parallel\(\) cannot be used with offset_store"):
            connector.parallel(topic, print)
        stream = connector.stream(topic)
        next(iter(stream))
        calls: list[Callable[[], object]] = [
            connector.commit_offsets,
            connector.commit_offsets_async,
            stream.commit_offsets,
            partial(stream.committed, TopicPartition(topic, 0)),
        ]
        for call in calls:
            with pytest.raises(ConfigurationError, match="no committed offsets"):
                call()
    with connect(feed, None) as connector:
        stream = connector.stream(topic)
        with pytest.raises(ConfigurationError, match="has no offset store: pass offset_store="):
            stream.save_offsets(results.database)
        with pytest.raises(ConfigurationError, match="has no offset store: pass offset_store="):
            stream.rewind()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_id": None}, "needs group_id"),
        ({"offset_store": "results.db"}, "must be an object with the methods acquire and save"),
        ({"offsets_storage": "kafka"}, "contradict each other"),
        ({"dual_commit_enabled": True}, "contradict each other"),
        ({"offsets_retention_ms": 1000}, "contradict each other"),
    ],
)
def test_options_that_contradict_an_offset_store_are_errors(
    results: Results, options: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"group_id": "g", "offset_store": results.store} | options
    with pytest.raises(ConfigurationError, match=message):
        ConsumerConnector(**given)


def test_the_error_for_text_instead_of_a_store_hides_the_password() -> None:
    options: dict[str, Any] = {"group_id": "g", "offset_store": "postgresql://me:secret@host/results"}
    with pytest.raises(ConfigurationError, match="offset_store is a str, but must be") as caught:
        ConsumerConnector(**options)
    assert "secret" not in str(caught.value)


def test_records_that_are_skipped_after_the_last_message_do_not_count_as_messages() -> None:
    positions, zero = Positions(), TopicPartition("t", 0)
    owned = OwnedPartition(zero)
    positions.note_left(owned, 5, 6)
    assert (positions.all()[zero].offset, positions.all()[zero].after_message) == (6, 5)
    positions.note_left(owned, None, 9)  # nothing but control records
    assert (positions.all()[zero].offset, positions.all()[zero].after_message) == (9, 5)
    positions.note_left(owned, 12, 12)
    assert (positions.all()[zero].offset, positions.all()[zero].after_message) == (12, None)


class Program:
    """A program that stores the messages of both partitions, whose transactions fail at random."""

    def __init__(self, feed: Feed, results: Results, topic: str, random: Random) -> None:
        self.connector = connect(feed, results.store, consumer_timeout_ms=100)
        self._results, self._random = results, random
        self._stream = self.connector.assign({topic: [0, 1]})
        self._read: list[Message] = []
        self._left_out = False
        """True if the program has left out the results of a transaction, and has not asked for a message
        since. A save now would be the same transaction again, without these results."""

    def step(self) -> None:
        """Read some messages, or store those that were read."""
        if self._random.random() < 0.5 or self._left_out:
            self._left_out = False
            messages = iter(self._stream)
            try:
                for _ in range(self._random.randrange(1, 6)):
                    self._read.append(next(messages))
            except ConsumerTimeout:
                pass
            return
        try:
            self._store()
        except OffsetStoreFencedError:
            self._rewind()

    def _store(self) -> None:
        results, stream = self._results, self._stream
        fails = self._random.choice(["no", "no", "before the commit", "after the commit"])
        results.save(stream, self._read, commit=fails != "before the commit")
        if fails != "no" and self._read:
            match self._random.choice(["repeat", "redeliver", "rewind", "ignore"]):
                case "repeat":
                    results.save(stream, self._read)
                case "redeliver" if len(self._read) == 1:
                    stream.redeliver()
                case "ignore":
                    self._left_out = True
                case _:
                    self._rewind()
        self._read = []

    def _rewind(self) -> None:
        self._read = []
        self._stream.rewind()


def test_two_programs_that_take_each_other_partitions_away_store_each_message_once(
    feed: Feed, results: Results
) -> None:
    random, count = dice("saved positions"), 40
    topic = feed.topic(2, *map(str, range(count)))
    feed.send(topic, list(map(str, range(count))), partition=1)
    expected = list(map(str, range(count)))
    programs = [Program(feed, results, topic, random) for _ in range(2)]
    try:
        for _ in range(2000):
            random.choice(programs).step()
            if len(results.values(0)) + len(results.values(1)) >= 2 * count:
                break
        assert (results.values(0), results.values(1)) == (expected, expected)
    finally:
        for program in programs:
            program.connector.close()
