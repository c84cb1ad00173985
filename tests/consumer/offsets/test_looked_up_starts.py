"""Starts that are still to be committed, because auto_offset_reset has looked them up or because only one of
two stores has them: when they count as handed out, and who may commit them."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.commit.offset_storages.dual_offset_storage import DualOffsetStorage
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.owned_partitions import LookedUp, MemberIdentity, Ownership
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.by_hand import DictionaryStore
from tests.consumer.stream.bench import Bench, batch, until_raised, values

TOPIC_ID = bytes(range(16))
LATEST: dict[str, Any] = {
    "auto_offset_reset": "latest",
    "enable_auto_commit": False,
    "fetch_max_wait_ms": 50,
    "heartbeat_interval_ms": 30,
    "consumer_timeout_ms": 10_000,
}


def connect(feed: Feed, group: str, **options: Any) -> ConsumerConnector:
    return ConsumerConnector(feed.bootstrap_servers, group_id=group, **{**LATEST, **options})


def wait_started(connector: ConsumerConnector, *partitions: TopicPartition) -> None:
    """Return when *connector* knows the offsets at which *partitions* begin."""
    (stream,) = connector._streams
    wait_for(lambda: stream.handed(in_hand=True).keys() == set(partitions), "starts that were looked up")


def test_a_start_counts_at_once_where_nothing_is_queued() -> None:
    bench = Bench()
    bench.stream.queue.begin_at(bench.cursors[0], 7)
    assert bench.committable(in_hand=False) == {0: 7}
    bench.put(batch("a", base=7), start=7, then=8)
    assert values(list(islice(bench.stream, 1))) == ["a"]
    assert bench.committable(in_hand=False) == {0: 7}
    assert bench.committable(in_hand=True) == {0: 8}


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_position_looked_up_again_counts_once_what_was_queued_before_is_handed_out(taken: int) -> None:
    bench = Bench(timeout=0.05)
    bench.put(batch("a", "b"), then=2)
    list(islice(bench.stream, taken))
    bench.stream.queue.begin_at(bench.cursors[0], 100)
    assert bench.committable(in_hand=True) == ({0: taken} if taken else {})
    assert values(until_raised(bench.stream)) == ["a", "b"][taken:]
    assert bench.committable(in_hand=False) == {0: 100}


def test_a_start_that_comes_after_the_partition_was_taken_away_does_not_count() -> None:
    bench = Bench()
    bench.deactivate()
    bench.stream.queue.begin_at(bench.cursors[0], 7)
    assert bench.committable(in_hand=True) == {}


def test_a_start_wakes_a_read_whose_end_it_passes() -> None:
    bench = Bench(timeout=5)
    cursor = bench.cursors[0]
    cursor.end = 3
    bench.stream.end_with([cursor])
    bench.stream.queue.begin_at(cursor, 4)
    assert list(bench.stream) == []


class Cursors:
    """The part of a FetcherManager to which an AssignmentHandler gives its cursors."""

    def __init__(self) -> None:
        self.cursors: dict[int, Cursor] = {}

    def hold_back(self, cursors: Sequence[tuple[Cursor, FetchQueue]]) -> None: ...

    def release(self, cursors: Sequence[tuple[Cursor, FetchQueue]]) -> None:
        self.cursors.update((cursor.partition.partition, cursor) for cursor, _ in cursors)

    def drop_inactive(self) -> None: ...


def taken_over(
    bench: Bench, looked_up: dict[TopicPartition, LookedUp], committed: dict[TopicPartition, int]
) -> dict[int, Cursor]:
    """Assign the partitions of *bench* to it again. Return the cursors of its stream, by partition."""
    for each, found in looked_up.items():
        bench.assignment.partitions[each].looked_up = found
    store = DictionaryStore({each: OffsetAndMetadata(at) for each, at in committed.items()})
    return assigned_again(bench, list(looked_up), store)[0]


def assigned_again(
    bench: Bench, partitions: list[TopicPartition], store: OffsetStorage
) -> tuple[dict[int, Cursor], OffsetCommitter]:
    """Assign *partitions* to *bench* again, which begin at their offsets in *store*. Return the cursors of
    its stream, by partition, and what commits its positions."""
    fetchers: Any = Cursors()
    ownership = Ownership()
    ownership.begin(bench.assignment)
    commits = OffsetCommitter(ownership, store, [bench.stream], lambda _topic: 2)
    handler = AssignmentHandler(
        ConsumerConfig(),
        StreamChoice(Subscription({"t": 1}), {"t": [bench.stream]}),
        fetchers,
        ownership,
        store,
        commits,
        None,
    )
    ownership.revoke(bench.assignment.partitions)
    handler.assigned(partitions, MemberIdentity(2, "m"))
    return fetchers.cursors, commits


def test_a_start_that_was_looked_up_just_when_a_rebalance_began_counts_after_it() -> None:
    bench, (zero, one) = Bench(), (TopicPartition("t", number) for number in range(2))
    bench.deactivate()
    bench.stream.queue.begin_at(bench.cursors[0], 7)
    assert bench.committable(in_hand=True) == {}
    taken_over(bench, {zero: LookedUp(7, TOPIC_ID), one: LookedUp(8, TOPIC_ID)}, {one: 3})
    assert bench.committable(in_hand=True) == {0: 7}


def test_what_was_handed_out_counts_more_than_the_start_before_it() -> None:
    bench, zero = Bench(), TopicPartition("t", 0)
    bench.put(batch("a", base=7), start=7, then=8)
    assert values(list(islice(bench.stream, 1))) == ["a"]
    offset = bench.committable(in_hand=True)
    taken_over(bench, {zero: LookedUp(0, TOPIC_ID)}, {})
    assert bench.committable(in_hand=True) == offset


def test_a_start_that_was_looked_up_in_a_topic_that_is_gone_is_told_by_its_id() -> None:
    bench, (zero, one) = Bench(), (TopicPartition("t", number) for number in range(2))
    cursors = taken_over(bench, {zero: LookedUp(7, TOPIC_ID), one: LookedUp(8, TOPIC_ID)}, {one: 3})
    assert (cursors[0].position, cursors[0].topic_id) == (7, TOPIC_ID)
    assert (cursors[1].position, cursors[1].topic_id) == (3, ZERO_UUID)


def test_a_start_that_one_of_two_stores_has_is_committed_to_both_although_nothing_is_read() -> None:
    bench, (zero, one) = Bench(), (TopicPartition("t", number) for number in range(2))
    kafka = DictionaryStore({one: OffsetAndMetadata(9, "in Kafka", 3)})
    zookeeper = DictionaryStore({zero: OffsetAndMetadata(7)})
    cursors, commits = assigned_again(bench, [zero, one], DualOffsetStorage(kafka, zookeeper))
    assert [cursors[number].position for number in range(2)] == [7, 9]
    commits.commit_completed(1.0, in_hand=False)
    assert kafka.positions == zookeeper.positions
    assert kafka.positions == {zero: OffsetAndMetadata(7), one: OffsetAndMetadata(9, "in Kafka", 3)}


def test_a_start_that_both_stores_have_is_not_committed_again() -> None:
    bench, zero = Bench(), TopicPartition("t", 0)
    kafka = DictionaryStore({zero: OffsetAndMetadata(7, "in Kafka")})
    zookeeper = DictionaryStore({zero: OffsetAndMetadata(7)})
    _, commits = assigned_again(bench, [zero], DualOffsetStorage(kafka, zookeeper))
    commits.commit_completed(1.0, in_hand=False)
    assert zookeeper.positions == {zero: OffsetAndMetadata(7)}


def test_no_commit_error_names_a_lost_partition_of_which_nothing_was_handed_out(feed: Feed) -> None:
    topic, group = feed.topic(2), feed.name()
    with connect(feed, group) as first:
        first.stream(topic)
        wait_started(first, TopicPartition(topic, 0), TopicPartition(topic, 1))
        with connect(feed, group) as second:
            second.stream(topic)
            first.commit_offsets()
            assert sorted(feed.committed(group, topic, 2), key=str) == [0, None]


def test_a_member_that_keeps_a_partition_through_a_rebalance_begins_where_it_began(feed: Feed) -> None:
    topic, other, group = feed.topic(1, "old"), feed.topic(1), feed.name()
    with connect(feed, group) as first:
        stream = first.stream(topic)
        wait_started(first, TopicPartition(topic, 0))
        feed.send(topic, ["a", "b"])
        with connect(feed, group) as second:
            second.stream(other)
            assert values(list(islice(stream, 2))) == ["a", "b"]
    assert feed.committed(group, topic) == [None]


def test_an_offset_that_the_user_commits_stands_against_a_start_that_was_looked_up(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b", "c"), feed.name()
    with connect(feed, group, enable_auto_commit=True) as connector:
        connector.stream(topic)
        wait_started(connector, TopicPartition(topic, 0))
        connector.commit_offsets({TopicPartition(topic, 0): 1})
    assert feed.committed(group, topic) == [1]


def test_the_position_after_a_reset_is_committed_though_nothing_was_handed_out(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group) as connector:
        connector.stream(topic)
        connector.commit_offsets({TopicPartition(topic, 0): 100})
    with connect(feed, group, enable_auto_commit=True, auto_commit_interval_ms=50) as connector:
        connector.stream(topic)
        wait_for(lambda: feed.committed(group, topic) == [2], "the end of the log committed")
