import pickle
import sys
import warnings
from typing import Any

import pytest

from pyklient.broker import Broker
from pyklient.consumer.simple.fetched import Fetched
from pyklient.consumer.simple.simple_consumer import SimpleConsumer
from pyklient.errors import (
    BrokerError,
    ClosedError,
    ConfigurationError,
    CorruptRecordError,
    OffsetOutOfRangeError,
)
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed
from tests.consumer.stream.bench import values


def test_a_fetch_gives_messages_and_where_to_go_on(feed: Feed) -> None:
    topic = feed.topic(1, "a", "b", "c")
    with SimpleConsumer(feed.bootstrap_servers) as simple:
        fetched = simple.fetch(topic, 0, 1)
        assert values(fetched.messages) == values(list(fetched)) == ["b", "c"]
        assert (fetched.next_offset, fetched.high_watermark, len(fetched)) == (3, 3, 2)
        at_the_end = simple.fetch(topic, 0, 3)
        assert (at_the_end.messages, at_the_end.next_offset) == ([], 3)


def test_a_fetch_is_bounded_and_goes_on_where_it_stopped(feed: Feed) -> None:
    topic = feed.topic(1)
    for number in range(10):
        feed.send(topic, [str(number) * 1000])
    seen: list[bytes] = []
    offset = 0
    with SimpleConsumer(feed.bootstrap_servers) as simple:
        while len(seen) < 10:
            fetched = simple.fetch(topic, 0, offset, max_bytes=3000)
            assert 1 <= len(fetched) <= 2
            seen += [message.value[:1] for message in fetched]
            offset = fetched.next_offset
    assert seen == [str(number).encode() for number in range(10)]


def test_an_offset_that_is_not_in_the_log_is_an_error(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    with SimpleConsumer(feed.bootstrap_servers) as simple:
        with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0 at offset 2"):
            simple.fetch(topic, 0, 2)
        with pytest.raises(ConfigurationError, match="below 0"):
            simple.fetch(topic, 0, -1)


def test_one_fetch_takes_from_many_partitions_and_each_fails_on_its_own(feed: Feed) -> None:
    topic = feed.topic(3, "a")
    feed.send(topic, ["b"], partition=2)
    good, bad, empty, missing = (TopicPartition(topic, partition) for partition in (2, 0, 1, 9))
    with SimpleConsumer(feed.bootstrap_servers, retry_backoff_ms=10) as simple:
        found = simple.multifetch({good: 0, bad: 50, empty: 0, missing: 0})
    assert list(found) == [good, bad, empty, missing]
    assert values(found[good].messages) == ["b"]
    assert found[empty] == Fetched([], 0, 0, last_stable_offset=0)
    assert isinstance(found[bad].error, OffsetOutOfRangeError)
    assert isinstance(found[missing].error, BrokerError)
    with pytest.raises(OffsetOutOfRangeError):
        list(found[bad])


def test_an_isolation_level_that_does_not_exist_is_an_error(feed: Feed) -> None:
    wrong: Any = "committed"
    with (
        SimpleConsumer(feed.bootstrap_servers) as simple,
        pytest.raises(ConfigurationError, match="isolation_level='committed' is not one of 'read_uncomm"),
    ):
        simple.fetch("t", 0, 0, isolation_level=wrong)


def test_a_topic_that_does_not_exist_says_so(feed: Feed) -> None:
    with (
        SimpleConsumer(feed.bootstrap_servers, retry_backoff_ms=10) as simple,
        pytest.raises(BrokerError, match="no such topic"),
    ):
        simple.fetch("nobody-made-this", 0, 0)


def test_offsets_before_a_time_are_segment_starts_in_descending_order() -> None:
    with Broker(segment_bytes=100, auto_create_topics=False) as broker, Feed(broker) as feed:
        topic = feed.topic(1)
        with SimpleConsumer(feed.bootstrap_servers) as simple:
            assert simple.get_offsets_before(topic, 0, simple.LATEST, 10) == [0]
            assert simple.get_offsets_before(topic, 0, simple.EARLIEST, 10) == [0]
            for number in range(6):
                feed.send(topic, [str(number)])
            latest = simple.get_offsets_before(topic, 0, simple.LATEST, 10)
            assert latest[0] == 6
            assert latest[-1] == 0
            assert latest == sorted(set(latest), reverse=True)
            assert len(latest) > 2, "several segments"
            assert simple.get_offsets_before(topic, 0, simple.LATEST, 2) == latest[:2]
            assert simple.get_offsets_before(topic, 0, simple.EARLIEST, 10) == [0]
            assert simple.get_offsets_before(topic, 0, 0, 10) == [], "nothing is that old"


def test_what_is_asked_for_must_make_sense(feed: Feed) -> None:
    topic = feed.topic()
    with SimpleConsumer(feed.bootstrap_servers) as simple:
        with pytest.raises(ConfigurationError, match="max_bytes=0"):
            simple.fetch(topic, 0, 0, max_bytes=0)
        with pytest.raises(ConfigurationError, match="max_offsets=0"):
            simple.get_offsets_before(topic, 0, -1, 0)


def test_a_damaged_batch_names_its_place(feed: Feed) -> None:
    with Broker(auto_create_topics=False) as broker, Feed(broker) as own:
        topic = own.topic(1, "good")
        own.send(topic, ["to be damaged"])
        (log,) = (broker.data_dir / f"{topic}-0").glob("*.log")
        data = bytearray(log.read_bytes())
        data[-3] ^= 0xFF
        log.write_bytes(data)
        with (
            SimpleConsumer(own.bootstrap_servers) as simple,
            pytest.raises(CorruptRecordError, match=f"{topic}-0 at offset 1"),
        ):
            simple.fetch(topic, 0, 1)


def test_a_simple_consumer_left_open_warns_and_cannot_be_pickled(feed: Feed) -> None:
    simple = SimpleConsumer(feed.bootstrap_servers)
    with pytest.raises(TypeError, match="create it in the process that uses it"):
        pickle.dumps(simple)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del simple
    said = [
        each.category for each in caught if "SimpleConsumer" in str(each.message)
    ]  # and no garbage of other tests
    assert said == [ResourceWarning]


def test_one_that_is_dropped_closes_its_connections_also_with_warnings_as_errors(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raising: raised.append(raising.exc_type))
    simple = SimpleConsumer(feed.bootstrap_servers)
    client = simple._client
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del simple
    assert raised == [ResourceWarning]
    with pytest.raises(ClosedError):
        client.pause(0)
