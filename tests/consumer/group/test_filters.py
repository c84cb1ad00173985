"""Streams by filter: of members of a group that Kafka coordinates, and of connectors without a group."""

import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from pyklient import Blacklist, KafkaStream, Whitelist
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.errors import ConfigurationError, ConsumerTimeout, MessageStreamsExistError
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import QUICK
from tests.consumer.stream.bench import values

FRESH: dict[str, Any] = {"metadata_max_age_ms": 50}

Connect = Callable[..., ConsumerConnector]


@pytest.fixture(params=["in a group", "alone"])
def connect(request: pytest.FixtureRequest, feed: Feed) -> Connect:
    """Return a function that creates a connector, of the same group each time or without a group."""
    group = feed.name() if request.param == "in a group" else None

    def make(**options: Any) -> ConsumerConnector:
        return ConsumerConnector(feed.bootstrap_servers, group_id=group, **{**QUICK, **FRESH, **options})

    return make


def read(stream: KafkaStream, count: int) -> list[str]:
    """Return the next *count* values, after which nothing comes. The last message is done then."""
    found = values(list(islice(stream, count)))
    assert next(stream.batches(timeout=0)) == []
    return found


def test_topics_that_match_are_read_and_new_ones_join_by_themselves(connect: Connect, feed: Feed) -> None:
    prefix = feed.name()
    first, other = feed.topic(2, "a", name=f"{prefix}-1"), feed.topic(1, "no", name=f"not-{prefix}")
    with connect() as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        assert read(stream, 1) == ["a"]
        assert list(stream.topics) == [first]
        second = feed.topic(1, "b", "c", name=f"{prefix}-2")
        assert read(stream, 2) == ["b", "c"]
        assert list(stream.topics) == [first, second]
        feed.send(other, ["no"])
        feed.send(first, ["d"], 1)
        assert read(stream, 1) == ["d"]


def test_a_topic_that_was_deleted_leaves_and_is_read_from_its_start_when_it_is_created_again(
    connect: Connect, feed: Feed
) -> None:
    prefix = feed.name()
    stays, goes = feed.topic(1, name=f"{prefix}-stays"), feed.topic(1, "a", "b", name=f"{prefix}-goes")
    with connect() as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        assert read(stream, 2) == ["a", "b"]
        feed.delete(goes)
        wait_for(lambda: stream.topics == (stays,), "the end of the deleted topic")
        feed.topic(3, "c", "d", "e", name=goes)
        assert read(stream, 3) == ["c", "d", "e"]
        feed.send(stays, ["f"])
        assert read(stream, 1) == ["f"]


def test_a_topic_that_is_deleted_and_created_again_at_once_is_read_from_its_start(
    connect: Connect, feed: Feed
) -> None:
    prefix = feed.name()
    topic = feed.topic(1, "a", "b", name=f"{prefix}-1")
    with connect() as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        assert read(stream, 2) == ["a", "b"]
        for text in "cde":
            feed.delete(topic)
            feed.topic(1, *[text] * 5, name=topic)
            assert read(stream, 5) == [text] * 5


def test_a_hundred_new_topics_are_shared_by_the_streams(connect: Connect, feed: Feed) -> None:
    prefix = feed.name()
    with connect(consumer_timeout_ms=200) as connector:
        streams = connector.create_message_streams_by_filter(Whitelist(f"{prefix}-.*"), 2)
        topics = [feed.topic(1, "x", name=f"{prefix}-{number}") for number in range(100)]
        seen: list[Counter[str]] = [Counter(), Counter()]

        def read() -> bool:
            for stream, count in zip(streams, seen, strict=True):
                count.update(
                    message.topic for batch in islice(stream.batches(timeout=0.02), 8) for message in batch
                )
            return len(seen[0] + seen[1]) == 100

        wait_for(read, "all topics")
        assert set(seen[0] + seen[1]) == set(topics)
        wait_for(lambda: streams[0].topics == tuple(sorted(topics)), "the last assignment")
        assert min(map(len, seen)) > 20


def test_a_filter_that_selects_nothing_waits(connect: Connect, feed: Feed) -> None:
    prefix = feed.name()
    with connect(consumer_timeout_ms=200) as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        assert stream.topics == ()
        began = time.monotonic()
        with pytest.raises(ConsumerTimeout, match=prefix):
            next(iter(stream))
        assert time.monotonic() - began < 20
        topic = feed.topic(1, "a", name=f"{prefix}-1")
        wait_for(lambda: stream.topics == (topic,), "the topic")
        assert read(stream, 1) == ["a"]


def test_a_blacklist_reads_all_other_topics(connect: Connect, feed: Feed) -> None:
    wanted, unwanted = feed.topic(1, "mine"), feed.topic(1, "theirs")
    with connect() as connector:
        (stream,) = connector.create_message_streams_by_filter(Blacklist(f"(?!{wanted}$).*"))
        assert unwanted not in stream.topics
        assert read(stream, 1) == ["mine"]


def test_partitions_that_are_added_are_read(connect: Connect, feed: Feed) -> None:
    prefix = feed.name()
    topic = feed.topic(1, "a", name=f"{prefix}-1")
    with connect() as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        assert read(stream, 1) == ["a"]
        feed.grow(topic, 2)
        feed.send(topic, ["b"], 1)
        assert read(stream, 1) == ["b"]


def test_a_group_reads_what_each_of_its_members_asks_for(feed: Feed) -> None:
    prefix, group = feed.name(), feed.name()
    named, matched, shared = (feed.topic(2, name=f"{prefix}{suffix}") for suffix in ("", "-1", "-2"))
    options = {**QUICK, **FRESH, "group_id": group}
    with ConsumerConnector(feed.bootstrap_servers, **options) as leads:
        by_name = leads.stream(named, shared)
        with ConsumerConnector(feed.bootstrap_servers, **options) as follows:
            by_filter = follows.stream(pattern=f"{prefix}-.*")
            for topic in (named, matched, shared):
                for partition in range(2):
                    feed.send(topic, [f"{topic}/{partition}"], partition)
            mine = read(by_name, 3)
            theirs = read(by_filter, 3)
            assert sorted(mine + theirs) == sorted(
                f"{topic}/{partition}" for topic in (named, matched, shared) for partition in range(2)
            )
            new = feed.topic(1, "new", name=f"{prefix}-3")
            assert read(by_filter, 1) == ["new"]
        assert new not in by_name.topics


def test_a_member_with_a_filter_that_leads_assigns_the_topics_of_others(feed: Feed) -> None:
    prefix, group = feed.name(), feed.name()
    matched, named = feed.topic(1, "a", name=f"{prefix}-1"), feed.topic(1, "b", name=f"x-{prefix}")
    options = {**QUICK, **FRESH, "group_id": group}
    with ConsumerConnector(feed.bootstrap_servers, **options) as leads:
        by_filter = leads.stream(pattern=f"{prefix}-.*")
        with ConsumerConnector(feed.bootstrap_servers, **options) as follows:
            late = f"y-{prefix}"
            by_name = follows.stream(named, late)
            assert read(by_name, 1) == ["b"]
            assert read(by_filter, 1) == ["a"]
            feed.topic(1, "c", name=late)
            assert read(by_name, 1) == ["c"]
        assert by_filter.topics == (matched,)


def test_rows_7_and_8_streams_are_made_once_per_connector_by_name_or_by_filter(
    connect: Connect, feed: Feed
) -> None:
    topic = feed.topic(1)
    calls: list[Callable[[ConsumerConnector], object]] = [
        lambda connector: connector.create_message_streams({topic: 1}),
        lambda connector: connector.create_message_streams_by_filter(Whitelist(topic)),
        lambda connector: connector.stream(topic),
        lambda connector: connector.stream(pattern=topic),
    ]
    for first in calls:
        with connect() as connector:
            first(connector)
            for second in calls:
                with pytest.raises(MessageStreamsExistError, match="already made its streams"):
                    second(connector)


def test_wrong_arguments_are_errors_and_the_connector_can_still_make_streams(feed: Feed) -> None:
    topic, anything = feed.topic(1), "a str, no filter"
    wrong: Any = anything
    with ConsumerConnector(feed.bootstrap_servers) as connector:
        with pytest.raises(TypeError, match="must be a Whitelist or a Blacklist"):
            connector.create_message_streams_by_filter(wrong)
        with pytest.raises(ConfigurationError, match="num_streams"):
            connector.create_message_streams_by_filter(Whitelist(topic), 0)
        with pytest.raises(ConfigurationError, match="topics or a pattern"):
            connector.stream(topic, pattern=topic)
        with pytest.raises(ConfigurationError, match="or a pattern"):
            connector.stream()
        with pytest.raises(ConfigurationError, match="not a valid pattern"):
            connector.stream(pattern="[")
        assert connector.stream(pattern=topic).topics == (topic,)
