"""Behaviours of Kafka's classic consumer, by their numbers, as a member of a group that Kafka coordinates has
them."""

import time
from itertools import islice
from typing import Any

import pytest

from pyklient.errors import ClosedError, ConsumerTimeout, MessageStreamsExistError, OffsetOutOfRangeError
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import Listener, Reader, connect
from tests.consumer.stream.bench import until_quiet, values


def test_row_9_a_rebalance_listener_after_the_streams_is_an_error(feed: Feed) -> None:
    with connect(feed, feed.name()) as connector:
        connector.stream(feed.topic())
        with pytest.raises(MessageStreamsExistError):
            connector.set_rebalance_listener(Listener())


def test_row_13_a_timeout_without_a_message_is_raised_each_time_and_the_stream_goes_on(feed: Feed) -> None:
    topic = feed.topic(1)
    with connect(feed, feed.name(), consumer_timeout_ms=200) as connector:
        stream = connector.stream(topic)
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(ConsumerTimeout):
                next(iter(stream))
            assert 0.2 <= time.monotonic() - began < 20
        feed.send(topic, ["a"])
        wait_for(lambda: any(batch for batch in islice(stream.batches(timeout=0.2), 1)), "the message")


def test_rows_14_and_15_a_commit_is_behind_what_was_handed_out_and_a_wait_moves_nothing(feed: Feed) -> None:
    """The committed value is the last offset that was handed out, plus one."""
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        loop = iter(stream)
        for expected in (1, 2):
            assert next(loop).offset == expected - 1
            connector.commit_offsets()
            assert feed.committed(group, topic) == [expected]
        assert next(stream.batches(timeout=0)) == []
        connector.commit_offsets()
        assert feed.committed(group, topic) == [2]


def test_row_16_shutdown_ends_every_stream_and_commits_and_may_be_called_again(feed: Feed) -> None:
    topics, group = (feed.topic(1, "a"), feed.topic(1, "b")), feed.name()
    connector = connect(feed, group, consumer_timeout_ms=-1)
    streams = connector.create_message_streams(dict.fromkeys(topics, 1))
    readers = [Reader(streams[topic][0]) for topic in topics]
    wait_for(lambda: all(reader.seen for reader in readers), "both messages")
    connector.shutdown()
    for reader in readers:
        reader.join()
    assert [feed.committed(group, topic) for topic in topics] == [[1], [1]]
    connector.shutdown()
    with pytest.raises(ClosedError):
        iter(streams[topics[0]][0])


@pytest.mark.parametrize(("reset", "found"), [("earliest", ["a", "b"]), ("latest", [])])
@pytest.mark.parametrize("committed", [None, 500], ids=["row 17", "row 18"])
def test_rows_17_and_18_without_a_valid_offset_the_reset_decides(
    committed: int | None, reset: str, found: list[Any], feed: Feed
) -> None:
    """No committed offset, or one beyond the log: ``earliest`` reads all, ``latest`` only what is new."""
    topic, group = feed.topic(1, "a", "b"), feed.name()
    if committed is not None:
        with connect(feed, group) as connector:
            connector.stream(topic)
            connector.commit_offsets({TopicPartition(topic, 0): committed})
    with connect(feed, group, auto_offset_reset=reset) as connector:
        stream = connector.stream(topic)
        assert values(until_quiet(stream, len(found))) == found
        feed.send(topic, ["new"])
        assert values(list(islice(stream, 1))) == ["new"]


@pytest.mark.parametrize("committed", [None, 500])
def test_rows_17_and_18_a_reset_of_none_is_an_error(committed: int | None, feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    if committed is not None:
        with connect(feed, group) as connector:
            connector.stream(topic)
            connector.commit_offsets({TopicPartition(topic, 0): committed})
    with connect(feed, group, auto_offset_reset="none") as connector, pytest.raises(OffsetOutOfRangeError):
        next(iter(connector.stream(topic)))
