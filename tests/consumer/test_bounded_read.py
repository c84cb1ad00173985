import gc
import os
import pickle
import threading
import warnings
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.bounded_read import read
from pyklient.errors import (
    BrokerError,
    ClosedError,
    ConfigurationError,
    ConsumerTimeout,
    ForkError,
    OffsetOutOfRangeError,
)
from pyklient.serialization import decode_text
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed
from tests.consumer.stream.bench import values

pytestmark = pytest.mark.both_kernels


def texts(feed: Feed, topic: str | list[str], **bounds: Any) -> list[str]:
    return sorted(values(list(read(feed.bootstrap_servers, topic, **bounds))))


def test_everything_is_read_up_to_where_the_log_ended_at_the_call(feed: Feed) -> None:
    topic = feed.topic(3, "a", "b")
    feed.send(topic, ["c"], partition=2)
    reading = read(feed.bootstrap_servers, topic, value_decoder=decode_text)
    feed.send(topic, ["later"])
    assert sorted(message.value for message in reading) == ["a", "b", "c"]
    assert reading.bounds[TopicPartition(topic, 0)] == (0, 2)


def test_several_topics_are_read_in_one_loop(feed: Feed) -> None:
    assert texts(feed, [feed.topic(1, "a"), feed.topic(2, "b")]) == ["a", "b"]


def test_an_empty_topic_ends_at_once(feed: Feed) -> None:
    assert texts(feed, feed.topic(2)) == []


def test_offsets_bound_a_read_with_the_end_left_out(feed: Feed) -> None:
    topic = feed.topic(1, "a", "b", "c", "d")
    assert texts(feed, topic, start=1, end=3) == ["b", "c"]
    assert texts(feed, topic, start=3) == ["d"]
    assert texts(feed, topic, end=100) == ["a", "b", "c", "d"], "an end beyond the log is cut to it"
    assert texts(feed, topic, start=3, end=1) == []


def test_each_partition_may_have_bounds_of_its_own(feed: Feed) -> None:
    topic = feed.topic(2, "a0", "a1")
    feed.send(topic, ["b0", "b1", "b2"], partition=1)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert texts(feed, topic, start={first: 1}, end={second: 2}) == ["a1", "b0", "b1"]


@pytest.mark.parametrize("key", [0, TopicPartition("another", 0), ("another", 0)])
@pytest.mark.parametrize("side", ["start", "end"])
def test_a_bound_for_what_is_not_read_is_refused(feed: Feed, side: str, key: Any) -> None:
    bounds: dict[str, Any] = {side: {key: 1}}
    with pytest.raises(ConfigurationError, match="which is not a partition of the topics to read"):
        read(feed.bootstrap_servers, feed.topic(1, "a"), **bounds)


def test_times_bound_a_read(feed: Feed) -> None:
    topic = feed.topic(1)
    for second in range(1, 5):
        feed.send(topic, [str(second)], at=second * 1000)

    def at(second: float) -> datetime:
        return datetime.fromtimestamp(second, UTC)

    assert texts(feed, topic, start=at(2)) == ["2", "3", "4"]
    assert texts(feed, topic, start=at(1.5), end=at(4)) == ["2", "3"]
    assert texts(feed, topic, end=at(99)) == ["1", "2", "3", "4"]
    assert texts(feed, topic, start=at(99)) == []


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (datetime(2026, 1, 1), "no time zone"),
        (-1, "start or end cannot be"),
        ("earliest", "omit start"),
        (True, "start or end cannot be"),
    ],
)
def test_bounds_that_say_nothing_are_refused(feed: Feed, bound: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read(feed.bootstrap_servers, "t", start=bound)


def test_group_options_have_no_place_in_a_read(feed: Feed) -> None:
    with pytest.raises(ConfigurationError, match=r"belongs to no group.*group_id"):
        read(feed.bootstrap_servers, "t", group_id="g")
    with pytest.raises(ConfigurationError, match="at least one topic"):
        read(feed.bootstrap_servers, [])


def test_a_topic_that_does_not_exist_says_so(feed: Feed) -> None:
    with pytest.raises(BrokerError, match="cannot read topic nobody-made-this: no such topic"):
        read(feed.bootstrap_servers, "nobody-made-this", retry_backoff_ms=1)


def test_a_start_that_the_log_has_lost_is_an_error_and_not_a_gap(feed: Feed) -> None:
    topic = feed.topic(1, "a", "b")
    reading = read(feed.bootstrap_servers, topic, start=0, end=2)
    reading._cursors[0].position = 500
    with reading, pytest.raises(OffsetOutOfRangeError):
        list(reading)


def test_loops_and_batches_share_one_cursor_and_may_stop_and_go_on(feed: Feed) -> None:
    topic = feed.topic(1, *"abcdef")
    with read(feed.bootstrap_servers, topic) as reading:
        assert values(list(islice(reading, 2))) == ["a", "b"]
        batches = reading.batches(max_records=3)
        assert values(next(batches)) == ["c", "d", "e"]
        assert values(list(reading)) == ["f"]


def test_a_read_is_gone_through_once_and_says_so_afterwards(feed: Feed) -> None:
    topic = feed.topic(1, "a", "b")
    reading, left = read(feed.bootstrap_servers, topic), read(feed.bootstrap_servers, topic)
    loop = iter(reading)
    assert values(list(loop)) == ["a", "b"]
    assert list(loop) == []
    left.close()
    for used, said in ((reading, "has come to its end"), (left, "has been closed")):
        for again in (used.__iter__, used.batches, used.arrow_batches, used.to_arrow):
            with pytest.raises(ClosedError, match=f"this result of read\\(\\) {said}; call read\\(\\) again"):
                again()


def test_a_large_topic_comes_whole_within_a_small_budget(feed: Feed) -> None:
    topic = feed.topic(4)
    for number in range(40):
        feed.send(topic, [f"{number}:{index}" for index in range(100)], partition=number % 4)
    options: dict[str, Any] = {"prefetch_max_bytes": 20_000, "max_partition_fetch_bytes": 3_000}
    assert sum(1 for _ in read(feed.bootstrap_servers, topic, **options)) == 4000


def test_a_broker_that_falls_silent_is_noticed(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    reading = read(feed.bootstrap_servers, topic, consumer_timeout_ms=100)
    reading._cursors[0].end = 5  # as if more had been promised
    reading._stream.end_with(reading._cursors)
    with reading, pytest.raises(ConsumerTimeout):
        list(reading)


def test_a_read_that_is_dropped_ends_its_threads(feed: Feed) -> None:
    topic = feed.topic(1, *"abc")
    before = set(threading.enumerate())
    for _ in read(feed.bootstrap_servers, topic):
        break
    gc.collect()
    started = [each for each in set(threading.enumerate()) - before if each.name.startswith("pyklient")]
    for thread in started:
        thread.join(30)
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize("loop", ["iter", "batches", "arrow_batches"])
def test_a_loop_under_way_hands_out_nothing_in_the_child_of_a_fork(feed: Feed, loop: str) -> None:
    topic = feed.topic(1, *"abc")
    with read(feed.bootstrap_servers, topic) as reading:
        under_way: Any = iter(reading) if loop == "iter" else getattr(reading, loop)(max_records=1)
        next(under_way)
        assert reading._stream._lock.acquire(), "as a fetcher's thread might have"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                next(under_way)
                os._exit(1)
            except ForkError:
                closing = threading.Thread(target=reading.close)  # to which the lock is another's
                closing.start()
                closing.join(30)
                os._exit(2 if closing.is_alive() else 0)
        reading._stream._lock.release()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(list(under_way)) == 2


def test_a_read_cannot_be_pickled(feed: Feed) -> None:
    with (
        read(feed.bootstrap_servers, feed.topic()) as reading,
        pytest.raises(TypeError, match="call read"),
    ):
        pickle.dumps(reading)
