"""Every membership with every offset storage: Kafka's own, a membership that the test controls, and a
dictionary."""

import threading
from itertools import islice
from typing import Any

import pytest

from pyklient.config import ConsumerConfig
from pyklient.consumer import consumer_connector as connector_module
from pyklient.consumer.commit.offset_storages.dual_offset_storage import DualOffsetStorage
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.group.membership_and_offset_storage import MembershipAndStore, choose_coordination
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.owned_partitions import NOBODY
from pyklient.errors import CommitError
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.by_hand import DictionaryStore, MembershipByHand
from tests.consumer.group.test_groups import connect
from tests.consumer.group.test_rebalances import Holder
from tests.consumer.stream.bench import values


class Kept:
    """Returns committed offsets from the store of the test."""

    def __init__(self, feed: Feed, positions: dict[TopicPartition, OffsetAndMetadata] | None) -> None:
        self._feed = feed
        self._positions = positions

    def committed(self, group: str, topic: str, partitions: int = 1) -> list[int | None]:
        if self._positions is None:
            return self._feed.committed(group, topic, partitions)
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        return [at.offset if (at := self._positions.get(each)) is not None else None for each in wanted]


@pytest.fixture(params=["kafka", "by hand"])
def membership(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(params=["kafka", "dictionary", "two dictionaries"])
def kept(
    request: pytest.FixtureRequest, membership: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> Kept:
    """Make connectors of the test use this *membership* and this store."""
    positions: dict[TopicPartition, OffsetAndMetadata] | None = None
    store: OffsetStorage | None = None
    if request.param != "kafka":
        positions = {}
        store = DictionaryStore(positions)
    if request.param == "two dictionaries":
        store = DualOffsetStorage(DictionaryStore(), DictionaryStore(positions))

    def choose(client: NetworkClient, config: ConsumerConfig) -> MembershipAndStore:
        chosen = choose_coordination(client, config)
        return MembershipAndStore(
            chosen.membership if membership == "kafka" else MembershipByHand(client),
            store or chosen.store,
        )

    monkeypatch.setattr(connector_module, "choose_coordination", choose)
    return Kept(feed, positions)


def test_what_is_handed_out_is_committed_and_the_next_one_goes_on_behind_it(kept: Kept, feed: Feed) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(list(islice(stream, 2))) == ["a", "b"]
        stream.commit_offsets()
        assert kept.committed(group, topic, 2)[0] == 2
    with connect(feed, group) as connector:
        assert values(list(islice(connector.stream(topic), 1))) == ["c"]
    assert kept.committed(group, topic) == [3]


def test_an_automatic_commit_leaves_out_the_message_in_hand(kept: Kept, feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group, auto_commit_interval_ms=50) as connector:
        loop = iter(connector.stream(topic))
        next(loop)
        next(loop)
        handler: Any = connector._lifecycle.handler

        def is_committed() -> bool:
            handler.commit_if_due(handler.next_commit_at)
            return kept.committed(group, topic) == [1]

        wait_for(is_committed, "the first message to be committed")
    assert kept.committed(group, topic) == [2]


def test_named_offsets_are_committed_and_those_of_others_are_an_error(kept: Kept, feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        connector.stream(topic)
        connector.commit_offsets({TopicPartition(topic, 0): 1})
        with pytest.raises(CommitError, match=f"{topic}-7"):
            connector.commit_offsets({TopicPartition(topic, 7): 1})
    assert kept.committed(group, topic) == [1]


def test_a_changed_subscription_is_read_and_what_is_dropped_is_not(kept: Kept, feed: Feed) -> None:
    stays, goes, comes, group = feed.topic(1), feed.topic(1), feed.topic(1), feed.name()
    with connect(feed, group, consumer_timeout_ms=30_000) as connector:
        stream = connector.stream(stays, goes, comes)
        connector._membership.subscribe(Subscription({stays: 1, goes: 1}))
        wait_for(lambda: topics(connector) == {stays, goes}, "the first change")
        connector._membership.subscribe(Subscription({stays: 1, comes: 1}))
        wait_for(lambda: topics(connector) == {stays, comes}, "the second change")
        feed.send(goes, ["lost"])
        feed.send(comes, ["came"])
        feed.send(stays, ["stayed"])
        assert sorted(values(list(islice(stream, 2)))) == ["came", "stayed"]


def topics(connector: ConsumerConnector) -> set[str]:
    assignment = connector._ownership.assignment
    if assignment is None or connector._ownership.rebalancing:
        return set()
    return {each.topic for each, owned in assignment.partitions.items() if owned.active}


@pytest.mark.parametrize("membership", ["by hand"], indirect=True)
class TestOnePartitionAtATime:
    def test_a_revoked_partition_is_committed_and_hands_nothing_more_out_while_others_go_on(
        self, kept: Kept, feed: Feed
    ) -> None:
        topic, group = feed.topic(2), feed.name()
        with connect(feed, group) as connector:
            stream = connector.stream(topic)
            hand: Any = connector._membership
            feed.send(topic, ["a", "b"], 0)
            assert next(iter(stream)).value == b"a"
            list(islice(stream.batches(max_records=1, timeout=0), 1))
            feed.send(topic, ["x", "y"], 1)
            hand.revoke(TopicPartition(topic, 0))
            assert kept.committed(group, topic) in ([1], [2])
            feed.send(topic, ["c"], 0)
            assert values(list(islice(stream, 2))) == ["x", "y"]
            at = kept.committed(group, topic)[0]
            hand.assign(TopicPartition(topic, 0))
            rest = values(list(islice(stream, 3 - (at or 0))))
            assert rest == ["a", "b", "c"][at or 0 :]

    def test_a_message_in_hand_is_waited_for_only_if_its_partition_goes(self, kept: Kept, feed: Feed) -> None:
        topic, group = feed.topic(2, "a"), feed.name()
        with connect(feed, group, consumer_timeout_ms=-1) as connector:
            holder = Holder(connector.stream(topic))
            hand: Any = connector._membership
            hand.revoke(TopicPartition(topic, 1), patience=60.0)
            assert not holder.go_on.is_set()
            revoking = threading.Thread(
                target=hand.revoke, args=(TopicPartition(topic, 0),), kwargs={"patience": 60.0}
            )
            revoking.start()
            revoking.join(0.2)
            assert revoking.is_alive(), "it waits for the handler"
            holder.go_on.set()
            revoking.join(10)
            assert kept.committed(group, topic) == [1]
        holder.join()

    def test_lost_partitions_are_not_committed(self, kept: Kept, feed: Feed) -> None:
        topic, group = feed.topic(2, "a"), feed.name()
        with connect(feed, group) as connector:
            batches = connector.stream(topic).batches(timeout=0.05)
            wait_for(lambda: next(batches), "the message")
            next(batches)
            hand: Any = connector._membership
            hand.lose(TopicPartition(topic, 0))
            assert kept.committed(group, topic) == [None]


@pytest.mark.parametrize("kind", ["kafka", "dictionary"])
def test_a_store_gives_back_what_was_committed_and_nothing_else(kind: str, feed: Feed) -> None:
    topic, config = (
        feed.topic(2),
        ConsumerConfig.from_options({"bootstrap_servers": feed.bootstrap_servers, "group_id": feed.name()}),
    )
    client = NetworkClient(config)
    try:
        chosen = choose_coordination(client, config).store
        store = chosen if kind == "kafka" else DictionaryStore()
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        assert store.fetch([first, second], 10.0) == {first: None, second: None}
        assert store.commit({first: OffsetAndMetadata(0, "note")}, NOBODY, 10.0) == {}
        assert store.fetch([first, second], 10.0) == {first: OffsetAndMetadata(0, "note"), second: None}
        sent = store.commit_async({second: OffsetAndMetadata(7)}, NOBODY)
        assert sent is not None
        assert sent.result(30) == {}
        assert store.fetch([second], 10.0) == {second: OffsetAndMetadata(7)}
        assert store.fetch([], 10.0) == {}
        assert store.unreachable() is None
    finally:
        client.close()


@pytest.mark.parametrize("kind", ["kafka", "dictionary"])
def test_a_store_tells_an_identity_that_the_group_has_moved_on_from(kind: str, feed: Feed) -> None:
    topic, group = feed.topic(1), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        connector.stream(topic)
        identity = connector._membership.identity
        store: Any = connector._store if kind == "kafka" else DictionaryStore(generation=identity.generation)
        position = {TopicPartition(topic, 0): OffsetAndMetadata(0)}
        assert store.commit(position, identity, 10.0) == {}
        (rejected,) = store.commit(position, identity._replace(generation=99), 10.0).values()
        assert rejected.outdated
