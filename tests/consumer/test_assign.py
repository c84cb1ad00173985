"""Partitions that a program chooses by hand, and the offsets and times at which it begins, on a reference
broker."""

import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.bounded_read import read
from pyklient.errors import (
    CommitError,
    ConfigurationError,
    MessageStreamsExistError,
    MessageTooLargeError,
    PartitionNotAssignedError,
)
from pyklient.kernel import Message, encode_batch
from pyklient.protocol.records import Compression, NewRecord
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.stream.bench import values
from tests.consumer.test_consumer_connector import connect
from tests.consumer.test_stream_control import at_second


def up_to(last: str, stream: Iterable[Message]) -> list[Message]:
    """Return the messages that *stream* hands out, up to the one with the value *last*."""
    found: list[Message] = []
    for message in stream:
        found.append(message)
        if message.value == last.encode():
            break
    return found


@pytest.fixture
def topic(feed: Feed) -> str:
    """A topic of three partitions with four messages each. Message n was sent n seconds after 2020 began."""
    topic = feed.topic(3)
    for partition in range(3):
        for number in range(4):
            at = int(at_second(number).timestamp() * 1000)
            feed.send(topic, [f"{partition}{number}"], partition, at=at)
    return topic


@pytest.mark.parametrize("form", ["mapping", "partitions", "tuples"])
def test_exactly_the_partitions_that_were_chosen_are_read(feed: Feed, topic: str, form: str) -> None:
    chosen: Any = {
        "mapping": {topic: [0, 2]},
        "partitions": {TopicPartition(topic, 0), TopicPartition(topic, 2)},
        "tuples": [(topic, 0), (topic, 2)],
    }[form]
    with connect(feed) as connector:
        stream = connector.assign(chosen)
        for partition in (1, 0):
            feed.send(topic, ["last"], partition)
        found = values(list(islice(stream, 9)))
        assert sorted(found) == ["00", "01", "02", "03", "20", "21", "22", "23", "last"]
        with pytest.raises(PartitionNotAssignedError):
            stream.seek(TopicPartition(topic, 1), 0)
        with pytest.raises(ConfigurationError, match="set group_id"):
            connector.commit_offsets()
        with pytest.raises(MessageStreamsExistError):
            connector.stream(topic)


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (None, ["00", "01", "02", "03"]),
        ("beginning", ["00", "01", "02", "03"]),
        ("end", []),
        (3, ["03"]),
        (at_second(2), ["02", "03"]),
        ("mapping", ["02", "03"]),
    ],
)
@pytest.mark.parametrize("call", ["assign", "stream", "create_message_streams"])
def test_reading_begins_at_an_offset_an_end_or_a_time(
    feed: Feed, topic: str, start: Any, found: list[str], call: str
) -> None:
    first = TopicPartition(topic, 0)
    begin = {first: 2} if start == "mapping" else start
    with connect(feed) as connector:
        if call == "assign":
            stream = connector.assign([first], begin)
        elif call == "stream":
            stream = connector.stream(topic, start=begin)
        else:
            stream = connector.create_message_streams({topic: 1}, start=begin)[topic][0]
        assert stream.position(first) == 4 - len(found)
        feed.send(topic, ["04"], 0)
        read = [each for each in up_to("04", stream) if each.partition == 0]
        assert values(read) == [*found, "04"]


def test_a_group_begins_at_the_start_only_where_nothing_is_committed(feed: Feed, topic: str) -> None:
    group = feed.name()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with connect(feed, group) as connector:
        stream = connector.stream(topic, start={first: 1, second: "end"})
        assert stream.position(first) == 1
        assert stream.position(second) == 4
        assert stream.position(TopicPartition(topic, 2)) == 0, "auto_offset_reset is earliest"
    assert feed.committed(group, topic, 3) == [1, 4, 0]
    with connect(feed, group) as connector:
        stream = connector.stream(pattern=topic, start="end")
        assert stream.position(first) == 1


def test_offsets_of_partitions_chosen_by_hand_are_committed_for_the_group_and_reading_goes_on_there(
    feed: Feed, topic: str
) -> None:
    group = feed.name()
    with connect(feed, group, auto_commit_interval_ms=50) as connector:
        stream = connector.assign({topic: [1]})
        assert values(list(islice(stream, 2))) == ["10", "11"]
        wait_for(lambda: feed.committed(group, topic, 3) == [None, 1, None], "the automatic commit")
        assert feed.members(group) == []
        connector.commit_offsets()
        assert feed.committed(group, topic, 3) == [None, 2, None]
        connector.commit_offsets({TopicPartition(topic, 1): 1})
        with pytest.raises(CommitError, match=r"it was not passed to assign\(\)"):
            connector.commit_offsets({TopicPartition(topic, 0): 1})
        stream.seek(TopicPartition(topic, 1), 3)
    assert feed.committed(group, topic, 3) == [None, 3, None]
    with connect(feed, group) as connector:
        assert values(list(islice(connector.assign({topic: [1]}), 1))) == ["13"]
    with connect(feed, group) as connector:
        assert values(list(islice(connector.assign({topic: [1]}, start=1), 1))) == ["11"]
    assert feed.committed(group, topic, 3) == [None, 2, None], "a named start counts more"


def test_a_group_that_has_members_takes_no_commits_of_others_and_says_so(feed: Feed, topic: str) -> None:
    group = feed.name()
    with connect(feed, group) as member, connect(feed, group, enable_auto_commit=False) as by_hand:
        member.stream(topic)
        stream = by_hand.assign({topic: [0]})
        next(iter(stream))
        with pytest.raises(
            CommitError, match=r"uses assign.* is not one of them.*use another group_id"
        ) as no:
            stream.commit_offsets(timeout=5)
        assert "must join again" not in str(no.value)


def test_automatic_commits_beside_the_members_of_the_group_are_a_warning(
    feed: Feed, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    group = feed.name()
    with connect(feed, group) as member, connect(feed, group, auto_commit_interval_ms=50) as by_hand:
        member.stream(topic)
        stream = by_hand.assign({topic: [0]})
        list(islice(stream, 2))
        wait_for(lambda: "uses assign() is not one of them" in caplog.text, "the warning")
    told = [each for each in caplog.records if "the next automatic commit tries again" in each.message]
    assert [each.levelname for each in told] == ["WARNING"]


def test_a_partition_that_does_not_exist_yet_is_read_from_its_beginning_when_it_does(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    topic = feed.topic(1, "a")
    later = feed.name()
    with connect(feed, auto_offset_reset="latest", metadata_max_age_ms=200) as connector:
        stream = connector.assign({topic: [0, 1], later: [0]}, start={TopicPartition(topic, 0): 0})
        assert f"partitions to read do not exist yet: {topic}-1, {later}-0" in caplog.text
        messages = iter(stream)
        assert next(messages).value == b"a"
        feed.grow(topic, 3)
        for partition in (2, 1):
            feed.send(topic, [f"p{partition}"], partition)
        assert next(messages).value == b"p1"


def test_wrong_arguments_are_errors_before_anything_is_read(feed: Feed, topic: str) -> None:
    wrong: list[tuple[type[Exception], str, Any, Any]] = [
        (ConfigurationError, "needs partitions", {}, None),
        (ConfigurationError, "needs partitions", {topic: []}, None),
        (TypeError, "partitions takes", topic, None),
        (TypeError, r"takes a list", {topic: 3}, None),
        (ConfigurationError, "partition of topic", {topic: [-1]}, None),
        (
            ConfigurationError,
            "not one of the partitions to read",
            {topic: [0]},
            {TopicPartition(topic, 1): 0},
        ),
        (ConfigurationError, "has no time zone", {topic: [0]}, at_second(1).replace(tzinfo=None)),
        (ConfigurationError, "'earliest'; write 'beginning'", {topic: [0]}, "earliest"),
        (ConfigurationError, "'beginning', 'end'", {topic: [0]}, "first"),
    ]
    for kind, words, partitions, start in wrong:
        with connect(feed) as connector, pytest.raises(kind, match=words):
            connector.assign(partitions, start)
    with connect(feed) as connector, pytest.raises(ConfigurationError, match="is not one of those to read"):
        connector.stream(topic, start={TopicPartition("others", 0): 1})


@pytest.mark.parametrize(("age", "found"), [("PT1H", ["new"]), ("P30000D", ["old", "new"]), ("PT0S", [])])
def test_a_duration_as_the_reset_leads_to_the_messages_that_are_at_most_this_old(
    feed: Feed, age: str, found: list[str]
) -> None:
    topic = feed.topic(1)
    now = int(time.time() * 1000)
    feed.send(topic, ["old"], at=now - 2 * 3_600_000)
    feed.send(topic, ["new"], at=now - 1_000)
    feed.send(topic, ["later"], at=now + 600_000)
    with connect(feed, auto_offset_reset=f"by_duration:{age}") as connector:
        stream = connector.stream(topic)
        assert values(up_to("later", stream)) == [*found, "later"]
        stream.seek(TopicPartition(topic, 0), 1000)
        again = values(up_to("later", stream))
        assert again == [*found, "later"], "as after an offset that the log does not have"


def test_a_batch_that_decompresses_to_more_than_the_option_allows_is_an_error(feed: Feed) -> None:
    topic = feed.topic(1)
    feed.append(topic, encode_batch([NewRecord(0, None, bytes(100_000), ())], compression=Compression.GZIP))
    with connect(feed, max_decompressed_bytes=50_000) as connector:
        stream = connector.stream(topic)
        for loop in (iter(stream), stream.arrow_batches(timeout=30)):
            with pytest.raises(MessageTooLargeError, match=f"{topic}-0 at offset 0.*max_decompressed_bytes"):
                next(loop)
    with pytest.raises(MessageTooLargeError, match="max_decompressed_bytes"):
        list(read(feed.bootstrap_servers, topic, max_decompressed_bytes=50_000))
    with connect(feed, max_decompressed_bytes=200_000) as connector:
        assert len(next(iter(connector.stream(topic))).value) == 100_000
