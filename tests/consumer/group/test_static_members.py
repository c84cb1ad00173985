"""Static members, which keep their partitions while their process restarts (KIP-345)."""

from itertools import islice

import pytest

from pyklient.errors import BrokerError
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import Listener, connect, held, spread
from tests.consumer.group.test_rebalance_listener import Calls


def test_a_static_member_that_restarts_causes_no_rebalance(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    listener = Listener()
    with connect(feed, group) as other:
        other.set_rebalance_listener(listener)
        other.stream(topic)
        with connect(feed, group, group_instance_id="one") as static:
            static.stream(topic)
            wait_for(lambda: len(listener.told) == 4, "the first rebalance")
        with connect(feed, group, group_instance_id="one") as static:
            static.stream(topic)
            assert held(static) == {0}, "static members come first"
        assert len(listener.told) == 4


@pytest.mark.parametrize(("strategy", "calls"), [("sticky", 3), ("cooperative-sticky", 4)])
def test_a_static_member_with_a_sticky_assignor_gets_its_partitions_back_without_a_rebalance(
    feed: Feed, strategy: str, calls: int
) -> None:
    """The other member rebalances once to share its partitions, or twice. So much its listener hears."""
    topic, group, listener = feed.topic(4), feed.name(), Calls()
    options = {"partition_assignment_strategy": strategy}
    with connect(feed, group, client_id="a", **options) as other:
        other.set_rebalance_listener(listener)
        other.stream(topic)
        with connect(feed, group, group_instance_id="one", **options) as static:
            static.stream(topic)
            wait_for(lambda: len(held(static)) == len(held(other)) == 2, "the shares")
            wait_for(lambda: len(listener.told) == calls, "the end of the rebalance of the other member")
            before = held(static)
            generation = static._membership.identity.generation
        spread(feed, topic, 4, "x")
        with connect(feed, group, group_instance_id="one", **options) as static:
            seen = [message.partition for message in islice(static.stream(topic), 2)]
            assert set(seen) == held(static) == before
            assert static._membership.identity.generation == generation
        assert len(listener.told) == calls


def test_two_processes_of_one_instance_id_fence_the_older_one(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, group_instance_id="one") as older:
        stream = older.stream(topic)
        with connect(feed, group, group_instance_id="one") as newer:
            newer.stream(topic)
            with pytest.raises(BrokerError, match="give each process its own"):
                for _ in stream:
                    pass


def test_a_fenced_member_that_closes_says_that_another_process_has_its_instance_id(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group, group_instance_id="one", auto_commit_interval_ms=60_000) as older:
        loop = iter(older.stream(topic))
        assert [next(loop).value, next(loop).value] == [b"a", b"b"]
        with connect(feed, group, group_instance_id="one") as newer:
            newer.stream(topic)
            wait_for(lambda: older._ownership.ended, "the older member to hear of it")
    closed = [record.getMessage() for record in caplog.records if "has closed without" in record.getMessage()]
    assert len(closed) == 1
    assert "another process has joined as group_instance_id='one'" in closed[0]
    assert "rebalances" not in closed[0]
