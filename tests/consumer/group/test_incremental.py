"""Groups whose members keep their partitions while the group rebalances (KIP-429)."""

import threading
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.group.classic.classic_membership import ClassicMembership
from pyklient.consumer.group.classic.states import State
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import Listener, held
from tests.consumer.group.test_groups import connect as connect_to_group
from tests.consumer.group.test_rebalance_listener import Calls
from tests.consumer.group.test_rebalances import Holder


def connect(feed: Feed, group: str, **options: Any) -> ConsumerConnector:
    return connect_to_group(feed, group, **{"partition_assignment_strategy": "cooperative-sticky", **options})


def queued(connector: ConsumerConnector) -> dict[int, Any]:
    """Return the fetched batches that no loop has read, by partition."""
    (stream,) = connector._streams
    return {item.cursor.partition.partition: item for item in stream.queue.items}


def test_what_stays_owned_keeps_its_queue_and_is_neither_fetched_nor_delivered_again(feed: Feed) -> None:
    topic, group, listener = feed.topic(4), feed.name(), Listener()
    for partition in range(4):
        feed.send(topic, [f"p{partition}a", f"p{partition}b"], partition)
    with connect(feed, group, client_id="a") as first:
        first.set_rebalance_listener(listener)
        stream = first.stream(topic)
        wait_for(lambda: queued(first).keys() == {0, 1, 2, 3}, "all to be fetched")
        before = queued(first)
        positions = {number: item.cursor.position for number, item in before.items()}
        with connect(feed, group, client_id="b") as second:
            other = second.stream(topic)
            wait_for(lambda: len(held(second)) == 2, "the other member's share")
            wait_for(lambda: not first._ownership.rebalancing and len(held(first)) == 2, "the rest to stay")
            kept, gone = held(first), held(second)
            assert kept.isdisjoint(gone)
            after = queued(first)
            assert {number: id(item) for number, item in after.items()} == {
                number: id(before[number]) for number in kept
            }
            assert all(
                item.cursor.active and item.cursor.position == positions[n] for n, item in after.items()
            )
            assert listener.told[2] == {topic: gone}, "only what goes is released"
            mine = [(each.partition, each.offset) for each in islice(stream, 4)]
            others = [(each.partition, each.offset) for each in islice(other, 4)]
            assert sorted(mine) == [(number, offset) for number in sorted(kept) for offset in (0, 1)]
            assert sorted(others) == [(number, offset) for number in sorted(gone) for offset in (0, 1)]
    assert feed.committed(group, topic, 4) == [2, 2, 2, 2]


def test_a_message_in_hand_of_what_stays_owned_holds_no_rebalance_up(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    with connect(feed, group, client_id="a", consumer_timeout_ms=-1) as first:
        holder = Holder(first.stream(topic))  # of partition 0, which is kept
        with connect(feed, group, client_id="b") as second:
            second.stream(topic)
            wait_for(lambda: held(second) == {1}, "the other member's share")
            assert not holder.go_on.is_set()
            assert held(first) == {0}
            holder.go_on.set()
            feed.send(topic, ["b"])
            wait_for(lambda: holder.values == [b"a", b"b"], "the next message")
    holder.join()
    assert feed.committed(group, topic) == [2]


def test_a_member_takes_over_what_another_leaves_and_keeps_its_own(feed: Feed) -> None:
    topic, group = feed.topic(4), feed.name()
    with connect(feed, group, client_id="a", consumer_timeout_ms=-1) as first:
        seen: list[tuple[int, int]] = []
        stream = first.stream(topic)
        reader = threading.Thread(target=lambda: seen.extend((m.partition, m.offset) for m in stream))
        reader.start()
        second = connect(feed, group, client_id="b")
        second.stream(topic)
        wait_for(lambda: len(held(second)) == 2 and len(held(first)) == 2, "the shares")
        assignment = first._ownership.assignment
        assert assignment is not None
        second.close()
        wait_for(lambda: len(held(first)) == 4, "the rest")
        taken_over = first._ownership.assignment
        assert taken_over is not None
        assert all(taken_over.partitions[each] is owned for each, owned in assignment.partitions.items())
        for partition in range(4):
            feed.send(topic, ["x"], partition)
        wait_for(lambda: len(seen) == 4, "a message of each")
        assert sorted(seen) == [(partition, 0) for partition in range(4)]
    reader.join(30)


def test_a_member_that_its_group_removed_loses_what_it_kept_and_reads_on_from_the_commits(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        loop = iter(stream)
        assert next(loop).value == b"a"
        connector.commit_offsets()
        assert next(loop).value == b"b"
        before = connector._membership.identity
        feed.remove(group, before.member_id)
        wait_for(lambda: connector._membership.identity.member_id not in ("", before.member_id), "a new name")
        assert next(loop).value == b"b"


def test_a_member_whose_process_was_stopped_for_longer_than_its_session_gives_its_partitions_up_at_once(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group, listener = feed.topic(1, "a", "b"), feed.name(), Calls()
    with connect(feed, group, enable_auto_commit=False) as connector:
        connector.set_rebalance_listener(listener)
        loop = iter(connector.stream(topic))
        assert next(loop).value == b"a"
        membership = connector._membership
        assert isinstance(membership, ClassicMembership)
        assert membership._loop is not None
        before = membership.identity
        membership._loop._heartbeats._ran_at -= 10  # as if the thread had not run since then
        wait_for(lambda: len(listener.told) == 3, "to join again")
        assert listener.told[1:] == [("lost", {0}), ("assigned", {0})]
        assert membership.identity.generation > before.generation
        assert next(loop).value == b"a", "the message in hand was not done"
        assert membership.identity.member_id == before.member_id, "the group still knew it"
    assert "this process did not run for 10." in caplog.text


def test_a_member_that_closes_while_the_group_has_kept_it_waiting_for_long_commits_what_it_owns(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group, listener, blocked = feed.topic(2, "a", "b"), feed.name(), Calls(), threading.Event()
    feed.send(topic, ["c", "d"], 1)
    blocked.set()
    with connect(feed, group, client_id="a") as slow, connect(feed, group, client_id="b") as connector:
        slow.set_rebalance_listener(Calls(blocked))
        slow.stream(topic)
        connector.set_rebalance_listener(listener)
        loop = iter(connector.stream(topic))
        wait_for(lambda: len(held(connector)) == 1, "a share")
        (mine,) = held(connector)
        assert [(next(loop).partition, offset) for offset in range(2)] == [(mine, 0), (mine, 1)]
        membership = connector._membership
        assert isinstance(membership, ClassicMembership)
        assert membership._loop is not None
        blocked.clear()
        with connect(feed, group, client_id="c") as newcomer:
            newcomer.stream(topic)
        wait_for(lambda: membership._member.state is State.JOINING, "the group to rebalance again")
        membership._loop._heartbeats._ran_at -= 10  # as if the slow member had kept the group waiting
        membership._loop._heartbeats.due_at -= 10
        connector.close()
        blocked.set()
    assert listener.told[-1] == ("revoked", {mine})
    assert feed.committed(group, topic, 2)[mine] == 2
    assert "did not run" not in caplog.text
