"""Seek, pause, positions and lag of streams, on a reference broker."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.errors import (
    ClosedError,
    ConfigurationError,
    ConsumerTimeout,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    PartitionNotAssignedError,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.stream.bench import until_quiet, values
from tests.consumer.test_consumer_connector import connect

LETTERS = "abcdefghij"


def at_second(second: int) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def offsets(messages: list[Any]) -> list[int]:
    return [message.offset for message in messages]


@pytest.fixture
def letters(feed: Feed) -> TopicPartition:
    """A partition with one batch for each letter. The timestamp of letter n is n seconds after 2020 began."""
    topic = feed.topic(1)
    for number, letter in enumerate(LETTERS):
        feed.send(topic, [letter], at=int(at_second(number).timestamp() * 1000))
    return TopicPartition(topic, 0)


@pytest.mark.parametrize(
    ("to", "found"),
    [
        (7, "hij"),
        (0, LETTERS),
        ("beginning", LETTERS),
        ("end", ""),
        (at_second(4), "efghij"),
        (at_second(4) + timedelta(microseconds=1), "fghij"),
        (at_second(4).astimezone(), "efghij"),
        (at_second(-100_000_000), LETTERS),
        (datetime(1960, 1, 1, tzinfo=UTC), LETTERS),
        (at_second(1000), ""),
    ],
)
def test_a_seek_leads_to_an_offset_an_end_of_the_log_or_a_time(
    feed: Feed, letters: TopicPartition, to: Any, found: str
) -> None:
    with connect(feed) as connector:
        stream = connector.stream(letters.topic)
        assert values(list(islice(stream, 3))) == ["a", "b", "c"]
        stream.seek(letters, to)
        assert stream.position(letters) == len(LETTERS) - len(found)
        assert "".join(values(until_quiet(stream, len(found)))) == found
        feed.send(letters.topic, ["k"])
        assert values(list(islice(stream, 1))) == ["k"]


def test_a_loop_goes_on_where_its_own_handler_seeks(feed: Feed) -> None:
    partition = TopicPartition(feed.topic(1, *LETTERS), 0)
    with connect(feed) as connector:
        stream, seen = connector.stream(partition.topic), []
        for message in stream:
            seen.append(message.value.decode())
            if seen == ["a", "b", "c"]:
                stream.seek(partition, 1)
            elif len(seen) == 5:
                stream.seek(partition, 8)
            elif message.offset == 9:
                break
    assert seen == ["a", "b", "c", "b", "c", "i", "j"]


def test_an_arrow_loop_and_a_loop_over_batches_go_on_at_the_offset_too(feed: Feed) -> None:
    partition = TopicPartition(feed.topic(1, *LETTERS), 0)
    with connect(feed) as connector:
        stream = connector.stream(partition.topic)
        lists = stream.batches(4, timeout=30)
        assert offsets(next(lists)) == [0, 1, 2, 3]
        stream.seek(partition, 2)
        assert offsets(next(lists)) == [2, 3, 4, 5]
        columns = stream.arrow_batches(3, timeout=30)
        assert next(columns).column("offset").to_pylist() == [6, 7, 8]
        stream.seek(partition, 1)
        assert next(columns).column("offset").to_pylist() == [1, 2, 3]


def test_after_a_seek_of_another_thread_nothing_older_comes(feed: Feed, letters: TopicPartition) -> None:
    with connect(feed, prefetch_max_bytes=1000) as connector:
        stream = connector.stream(letters.topic)
        messages = iter(stream)
        for to in (5, 2, 9, 0, 3, 8, 1):
            mover = threading.Thread(target=stream.seek, args=(letters, to))
            mover.start()
            mover.join()
            assert next(messages).offset == to


def test_the_position_after_a_seek_is_committed_and_is_where_the_next_owner_begins(
    feed: Feed, letters: TopicPartition
) -> None:
    group = feed.name()
    with connect(feed, group) as connector:
        stream = connector.stream(letters.topic)
        assert stream.committed(letters) is None
        assert len(list(islice(stream, 5))) == 5
        stream.commit_offsets()
        assert stream.committed(letters) == OffsetAndMetadata(5, leader_epoch=0)
        stream.seek(letters, 2)
        assert stream.position(letters) == 2
        stream.commit_offsets()
        assert feed.committed(group, letters.topic) == [2]
        stream.redeliver()
        assert values(list(islice(stream, 1))) == ["c"], "the message in hand before is left for good"
        stream.seek(letters, 7)
    assert feed.committed(group, letters.topic) == [7]


def test_an_offset_that_the_log_does_not_have_leads_where_the_reset_says(
    feed: Feed, letters: TopicPartition
) -> None:
    with connect(feed) as connector:
        stream = connector.stream(letters.topic)
        assert len(list(islice(stream, 5))) == 5
        stream.seek(letters, 1000)
        assert stream.position(letters) == 1000
        assert values(list(islice(stream, 1))) == ["a"], "auto_offset_reset is earliest"
    group = feed.name()
    with connect(feed, group, auto_offset_reset="none") as connector:
        stream = connector.stream(letters.topic)
        with pytest.raises(OffsetOutOfRangeError, match="has no committed offset"):
            stream.position(letters)
        stream.seek(letters, 1000)
        with pytest.raises(OffsetOutOfRangeError, match=f"{letters} at offset 1000"):
            next(iter(stream))
        stream.seek(letters, 4)
        assert values(list(islice(stream, 1))) == ["e"]


def test_arguments_that_are_no_places_and_partitions_of_others_are_errors(
    feed: Feed, letters: TopicPartition
) -> None:
    with connect(feed, default_api_timeout_ms=5_000) as connector:
        stream = connector.stream(letters.topic)
        with pytest.raises(ConfigurationError, match="has no time zone"):
            stream.seek(letters, datetime(2020, 1, 1))
        with pytest.raises(ConfigurationError, match="to=-1 is out of range"):
            stream.seek(letters, -1)
        texts = {
            "latest": "write 'end'",
            "earliest": "write 'beginning'",
            "now": "'end' or a datetime with a time zone",
        }
        for text, said in texts.items():
            wrong: Any = text
            with pytest.raises(ConfigurationError, match=said):
                stream.seek(letters, wrong)
        for no_place in (1.5, True, None):
            place: Any = no_place
            with pytest.raises(TypeError, match="takes an offset"):
                stream.seek(letters, place)
        foreign = TopicPartition(letters.topic, 1)
        calls: list[Any] = [
            lambda: stream.seek(foreign, 0),
            lambda: stream.seek(foreign, "end"),
            lambda: stream.pause(letters, foreign),
            lambda: stream.resume(foreign),
            lambda: stream.position(foreign),
        ]
        for call in calls:
            with pytest.raises(PartitionNotAssignedError, match=f"does not read {foreign} now.*: {letters}$"):
                call()
        assert stream.paused() == []
        with pytest.raises(ConfigurationError, match="set group_id"):
            stream.committed(letters)
        with pytest.raises(TypeError, match="partitions takes"):
            stream.pause(letters.topic)  # type: ignore[arg-type]  # what a user may try
    with pytest.raises(ClosedError):
        stream.seek(letters, 0)
    with pytest.raises(ClosedError):
        stream.lag()


def test_a_paused_partition_hands_out_nothing_and_goes_on_where_it_was(feed: Feed) -> None:
    topic = feed.topic(2, *LETTERS)
    feed.send(topic, ["x", "y"], partition=1)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with connect(feed, consumer_timeout_ms=400) as connector:
        stream, seen = connector.stream(topic), []
        for some in stream.batches(max_records=1, timeout=30):
            seen += some
            if len([each for each in seen if each.partition == 0]) == 3:
                break
        stream.pause(first)
        assert stream.paused() == [first]
        stream.pause(first)
        seen += until_quiet(stream, 5 - len(seen))
        assert [each.offset for each in seen if each.partition == 0] == [0, 1, 2]
        assert stream.position(first) == 3
        assert stream.lag() == {first: 7, second: 0}
        stream.pause(second)
        feed.send(topic, ["z"], partition=1)
        with pytest.raises(ConsumerTimeout, match=r"0\.4 s: all partitions that the stream reads are paused"):
            next(iter(stream))
        stream.resume(first)
        assert offsets(until_quiet(stream, 7)) == [3, 4, 5, 6, 7, 8, 9]
        stream.resume(first, second)
        assert values(until_quiet(stream, 1)) == ["z"]
        assert stream.lag() == {first: 0, second: 0}


def test_what_is_in_hand_when_its_partition_is_paused_can_come_again(feed: Feed) -> None:
    partition = TopicPartition(feed.topic(1, *LETTERS), 0)
    with connect(feed, feed.name(), enable_auto_commit=False) as connector:
        stream = connector.stream(partition.topic)
        messages = iter(stream)
        for resumed_first in (True, False):
            at = next(messages).offset
            stream.pause(partition)
            if resumed_first:
                stream.resume(partition)
            stream.redeliver()
            assert stream.position(partition) == at
            if not resumed_first:
                stream.resume(partition)
            assert [next(messages).offset for _ in range(3)] == [at, at + 1, at + 2]


def test_a_paused_partition_keeps_what_was_fetched_and_is_not_fetched_more(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = feed.topic(1)
    partition = TopicPartition(topic, 0)
    for _ in range(50):
        feed.send(topic, ["x" * 2_000])
    with connect(feed, prefetch_max_bytes=40_000, max_partition_fetch_bytes=10_000) as connector:
        stream = connector.stream(topic)
        messages = iter(stream)
        next(messages)
        cursor = connector._streams[0].cursors[partition]
        stream.pause(partition)
        fetched = cursor.fetched
        assert cursor.waiting_bytes > 0
        assert until_quiet(stream, 0) == []
        assert cursor.fetched <= fetched + 10_500, "at most the response that was on its way"
        assert cursor.waiting_bytes > 0
        stream.resume(partition)
        assert offsets(list(islice(stream, 49))) == list(range(1, 50))


def test_a_stream_with_only_paused_partitions_does_not_count_as_standing_still(feed: Feed) -> None:
    partition = TopicPartition(feed.topic(1, *LETTERS), 0)
    group = feed.name()
    options: dict[str, Any] = {
        "max_poll_interval_ms": 1000,
        "heartbeat_interval_ms": 50,
        "enable_auto_commit": False,
    }
    with connect(feed, group, **options) as connector:
        stream = connector.stream(partition.topic)
        next(iter(stream))
        stream.pause(partition)
        handler = connector._lifecycle.handler
        assert handler is not None
        members = feed.members(group)
        assert len(members) == 1
        gone = threading.Event()
        gone.wait(1.5)
        assert handler.stalled_for() == 0
        assert feed.members(group) == members
        stream.resume(partition)
        assert next(iter(stream)).offset == 1


def test_a_pause_and_a_position_stay_with_a_partition_that_a_rebalance_leaves_with_its_member(
    feed: Feed,
) -> None:
    topic, group = feed.topic(2, *LETTERS), feed.name()
    feed.send(topic, ["x", "y"], partition=1)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    options: dict[str, Any] = {"enable_auto_commit": False, "heartbeat_interval_ms": 50}
    with connect(feed, group, client_id="a", **options) as connector:
        stream = connector.stream(topic)
        until_quiet(stream, len(LETTERS) + 2)
        stream.seek(first, 4)
        assert next(iter(stream)).offset == 4
        stream.pause(first)
        with connect(feed, group, client_id="b", **options) as other:
            joined: list[KafkaStream] = []
            joining = threading.Thread(target=lambda: joined.append(other.stream(topic)))
            joining.start()
            assert until_quiet(stream, 0) == []
            joining.join(30)
            wait_for(lambda: [*connector._streams[0].cursors] == [first], "the rebalance")
            assert stream.paused() == [first]
            assert stream.position(first) == 5
            with pytest.raises(PartitionNotAssignedError):
                stream.position(second)
            stream.resume(first)
            assert next(iter(stream)).offset == 5
            assert feed.committed(group, topic, 2) == [None, None]


def test_a_position_that_cannot_be_found_in_time_is_an_error_with_the_cause(feed: Feed) -> None:
    topic = feed.topic(1)
    with connect(feed) as connector:
        stream = connector.stream(topic)
        monkey: Any = connector._streams[0]
        monkey.position = lambda _partition: None
        with pytest.raises(KafkaTimeoutError, match=f"cannot tell the position of {topic}-0 in time"):
            stream.position(TopicPartition(topic, 0), timeout=0.02)


def test_threads_may_seek_and_pause_while_a_loop_reads(feed: Feed, letters: TopicPartition) -> None:
    with connect(feed, consumer_timeout_ms=30_000) as connector:
        stream = connector.stream(letters.topic)
        done = threading.Event()
        # Each seek drops what was fetched, so threads that seek without end can keep the loop from all of it.
        turns = threading.Semaphore(0)

        def disturb() -> None:
            while turns.acquire() and not done.is_set():
                for _ in range(50):
                    stream.pause(letters)
                    stream.seek(letters, 0)
                    stream.resume(letters)
                    stream.position(letters)

        threads = [threading.Thread(target=disturb) for _ in range(2)]
        for thread in threads:
            thread.start()
        lists = stream.batches(4, timeout=None)
        try:
            for _ in range(30):
                turns.release(len(threads))
                at = offsets(next(lists))
                assert at == list(range(at[0], at[0] + len(at)))
        finally:
            done.set()
            turns.release(len(threads))
            for thread in threads:
                thread.join(30)
        stream.seek(letters, 6)
        assert offsets(next(lists)) == [6, 7, 8, 9]
