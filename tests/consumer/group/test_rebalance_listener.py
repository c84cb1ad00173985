"""The rebalance listener: what is assigned, revoked and lost, and for how long it may block."""

import threading
import time
from collections.abc import Collection

import pytest

from pyklient.consumer.group.listener_calls import ListenerCalls
from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.errors import ClosedError
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import Listener, connect, held

__all__ = ["Calls"]


class Calls(ConsumerRebalanceListener):
    """A rebalance listener that records its calls: what was called, and the numbers of the partitions."""

    def __init__(self, blocked: threading.Event | None = None) -> None:
        self.told: list[tuple[str, set[int]]] = []
        self._blocked = blocked

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._tell("assigned", partitions)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._tell("revoked", partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._tell("lost", partitions)

    def _tell(self, what: str, partitions: Collection[TopicPartition]) -> None:
        self.told.append((what, {each.partition for each in partitions}))
        if self._blocked is not None:
            self._blocked.wait(10)


def test_a_listener_hears_what_is_assigned_revoked_and_lost(feed: Feed) -> None:
    topic, group, listener = feed.topic(2), feed.name(), Calls()
    with connect(feed, group, client_id="a") as connector:
        connector.set_rebalance_listener(listener)
        connector.stream(topic)
        assert listener.told == [("assigned", {0, 1})], "nothing was revoked before"
        with connect(feed, group, client_id="b") as other:
            other.stream(topic)
            wait_for(lambda: len(listener.told) == 3, "the rebalance")
        wait_for(lambda: len(listener.told) == 5, "the other member to leave")
        feed.remove(group, connector._membership.identity.member_id)
        wait_for(lambda: len(listener.told) == 7, "to join again")
    assert listener.told[1:] == [
        *[("revoked", {0, 1}), ("assigned", {0})],
        *[("revoked", {0}), ("assigned", {0, 1})],
        *[("lost", {0, 1}), ("assigned", {0, 1})],
        ("revoked", {0, 1}),
    ]


def test_a_listener_gets_the_partitions_sorted() -> None:
    told: list[Collection[TopicPartition]] = []

    class Recording(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            told.append(partitions)

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            told.append(partitions)

    calls, backwards = ListenerCalls([Recording()]), [TopicPartition("t", each) for each in (2, 1, 0)]
    calls.assigned(backwards)
    calls.revoked(backwards)
    calls.assigned(backwards)
    calls.lost(backwards)
    assert told == [backwards[::-1]] * 4


def test_a_listener_may_have_both_interfaces_and_lost_partitions_count_as_revoked_by_default(
    feed: Feed,
) -> None:
    class Both(Listener, ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            self.told.append(sorted(each.partition for each in partitions))

    topic, group, listener = feed.topic(1), feed.name(), Both()
    with connect(feed, group) as connector:
        connector.set_rebalance_listener(listener)
        connector.stream(topic)
        assert listener.told == [{}, {topic: {0: "0"}}], (
            "only Scala's consumer begins with a call without partitions"
        )
        feed.remove(group, connector._membership.identity.member_id)
        wait_for(lambda: len(listener.told) == 5, "to join again")
        assert listener.told[2:] == [[0], {topic: {0}}, {topic: {0: "0"}}]


def test_a_listener_that_blocks_for_longer_than_the_session_costs_no_membership(feed: Feed) -> None:
    topic, group, go_on = feed.topic(2), feed.name(), threading.Event()
    listener = Calls()
    with connect(feed, group, client_id="a", session_timeout_ms=2_000) as connector:
        connector.set_rebalance_listener(listener)
        connector.stream(topic)
        name = connector._membership.identity.member_id
        listener._blocked = go_on
        with connect(feed, group, client_id="b") as other:
            joining = threading.Thread(target=other.stream, args=(topic,))
            joining.start()
            wait_for(lambda: listener.told[-1] == ("revoked", {0, 1}), "the rebalance")
            began = time.monotonic()
            wait_for(lambda: time.monotonic() > began + 4.5, "more than two sessions")
            go_on.set()
            joining.join(30)
            assert held(other) == {1}
            assert connector._membership.identity.member_id == name


def test_a_fenced_member_tells_its_listener_that_its_partitions_are_lost(feed: Feed) -> None:
    topic, group, listener = feed.topic(1), feed.name(), Calls()
    with connect(feed, group, group_instance_id="one") as older:
        older.set_rebalance_listener(listener)
        older.stream(topic)
        with connect(feed, group, group_instance_id="one") as newer:
            newer.stream(topic)
            wait_for(lambda: listener.told[-1] == ("lost", {0}), "the older member to hear of it")


def test_a_listener_may_commit_what_is_revoked_because_the_connector_closes(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    told: list[Collection[TopicPartition]] = []

    class Committing(Calls):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            connector.commit_offsets(timeout=10)
            told.append(partitions)

    with connect(feed, group, enable_auto_commit=False) as connector:
        connector.set_rebalance_listener(Committing())
        next(iter(connector.stream(topic)))
    assert told == [[TopicPartition(topic, 0)]]
    assert feed.committed(group, topic) == [1]
    with pytest.raises(ClosedError):
        connector.commit_offsets()


@pytest.mark.parametrize("name", ["assigned", "revoked"])
def test_a_listener_that_exits_is_logged_and_stops_nobody(
    feed: Feed, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    class Exiting(Calls):
        def _tell(self, what: str, partitions: Collection[TopicPartition]) -> None:
            if what == name:
                raise SystemExit(f"in {what}")

    with connect(feed, feed.name(), consumer_timeout_ms=10_000) as connector:
        connector.set_rebalance_listener(Exiting())
        assert next(iter(connector.stream(feed.topic(1, "a")))).value == b"a"
    assert f"in {name}" in caplog.text
