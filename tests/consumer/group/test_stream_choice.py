"""The choice of the stream of a connector that reads a partition."""

from typing import Any

import pytest

from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.topic_filters.topic_filter import Whitelist
from pyklient.topic_partition import TopicPartition

NAMED = Subscription({"t": 2, "u": 2})
FILTER = Subscription(topic_filter=Whitelist("t|u|v.*"), shared_streams=2)


class Stream:
    """Stands for a StreamCore, of which only the topics matter here."""

    topics: tuple[str, ...] = ()


def partitions(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def named() -> tuple[StreamChoice, dict[str, list[Any]]]:
    streams: dict[str, list[Any]] = {topic: [Stream(), Stream()] for topic in NAMED.named}
    return StreamChoice(NAMED, streams), streams


def shared() -> tuple[StreamChoice, list[Any]]:
    streams: list[Any] = [Stream(), Stream()]
    return StreamChoice(FILTER, {}, streams), streams


def test_the_partitions_of_a_topic_are_divided_between_its_streams_in_runs() -> None:
    choice, streams = named()
    choice.choose(partitions("u", 2, 0, 1), ())
    assert [choice.stream_of(each) for each in partitions("u", 0, 1, 2)] == [
        streams["u"][0],
        streams["u"][0],
        streams["u"][1],
    ]
    assert [choice.number_of(each) for each in partitions("u", 0, 1, 2)] == [0, 0, 1]


def test_a_membership_may_name_the_stream_of_each_partition() -> None:
    choice, streams = named()
    wanted = dict(zip(partitions("t", 0, 1, 2), (1, 0, 1), strict=True))
    choice.choose(list(wanted), (), wanted)
    assert [choice.stream_of(each) for each in wanted] == [streams["t"][number] for number in wanted.values()]
    assert [choice.number_of(each) for each in wanted] == [1, 0, 1]


def test_partitions_that_stay_keep_their_stream_and_all_others_have_none() -> None:
    choice, streams = named()
    zero, one, two, three = partitions("t", 0, 1, 2, 3)
    choice.choose([zero, one, two], ())
    choice.choose([three], [two])
    assert [choice.stream_of(each) for each in (zero, one, two, three)] == [
        None,
        None,
        streams["t"][1],
        streams["t"][0],
    ]


def test_streams_of_a_filter_share_topics_of_one_partition_evenly() -> None:
    choice, streams = shared()
    names = [f"v{number}" for number in range(10)]
    choice.choose([TopicPartition(name, 0) for name in names], ())
    chosen = [choice.stream_of(TopicPartition(name, 0)) for name in names]
    assert [chosen.count(stream) for stream in streams] == [5, 5]


def test_streams_of_a_filter_know_the_topics_that_their_connector_reads() -> None:
    choice, streams = shared()
    choice.choose([*partitions("u", 0), *partitions("t", 0, 1)], ())
    assert [stream.topics for stream in streams] == [("t", "u"), ("t", "u")]
    choice.choose([], partitions("u", 0))
    assert [stream.topics for stream in streams] == [("u",), ("u",)]


def test_a_topic_that_was_not_asked_for_has_no_stream(caplog: pytest.LogCaptureFixture) -> None:
    for choice in (named()[0], shared()[0]):
        choice.choose(partitions("other", 0), ())
        assert choice.stream_of(TopicPartition("other", 0)) is None
        assert "no stream of that topic" in caplog.text
        caplog.clear()
