"""Subscriptions, and the topics that they select in the metadata."""

from types import MappingProxyType

import pytest

from pyklient.consumer.group import subscription as subscription_module
from pyklient.consumer.group.subscription import Subscription, TopicSelection
from pyklient.consumer.topic_filters.topic_filter import Blacklist, Whitelist
from pyklient.net.metadata import Metadata, PartitionInfo, TopicInfo

FILTER = Subscription(topic_filter=Whitelist("click.*"), shared_streams=3)


def metadata(*names: str, internal: tuple[str, ...] = (), empty: tuple[str, ...] = ()) -> Metadata:
    one = MappingProxyType({0: PartitionInfo(1)})
    found = [TopicInfo(name, partitions=one) for name in names]
    found += [TopicInfo(name, partitions=one, internal=True) for name in internal]
    found += [TopicInfo(name, error=5) for name in empty]
    return Metadata(topics={each.name: each for each in found})


def test_named_topics_are_selected_whether_they_exist_or_not() -> None:
    named = Subscription({"a": 2, "b": 1})
    assert named.topics(metadata("a", "c")) == named.asks_for == frozenset({"a", "b"})
    assert (named.stream_count("a"), named.stream_count("c")) == (2, 0)
    assert named.selects("b")
    assert not named.selects("c")


def test_a_filter_selects_among_the_topics_that_exist_and_needs_the_metadata_of_all() -> None:
    assert FILTER.topics(metadata("clicks", "views", empty=("clicked",))) == {"clicks"}
    assert FILTER.asks_for is None
    assert FILTER.stream_count("clicks") == 3


def test_internal_topics_are_hidden_unless_the_subscription_shows_them() -> None:
    seen = metadata("a", "__consumer_offsets", internal=("__of_the_brokers",))
    everything = Subscription(topic_filter=Blacklist("a"), shared_streams=1)
    assert everything.topics(seen) == set()
    shows = Subscription(topic_filter=Blacklist("a"), shared_streams=1, hides_internal=False)
    assert shows.topics(seen) == {"__consumer_offsets", "__of_the_brokers"}


def test_a_topic_leaves_the_selection_when_two_snapshots_do_not_contain_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selection = TopicSelection(FILTER)
    assert selection.update(metadata("clicks", "click2")) == {"clicks", "click2"}
    assert selection.update(gone := metadata("click2", "click3")) == {"clicks", "click2", "click3"}
    monkeypatch.setattr(subscription_module, "_SURELY_GONE", 0.0)
    assert selection.update(gone) == {"clicks", "click2", "click3"}, "the same snapshot shows nothing new"
    assert selection.update(metadata("click2", "click3")) == {"click2", "click3"}
    assert selection.update(metadata("clicks", "click2")) == {"clicks", "click2"}


def test_a_selection_of_named_topics_does_not_change() -> None:
    selection = TopicSelection(Subscription({"a": 1}))
    assert selection.update(metadata()) == selection.update(metadata("a", "b")) == {"a"}
