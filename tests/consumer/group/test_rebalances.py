"""The events for which a rebalance waits, and those that end the wait."""

import threading
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from pyklient.consumer.commit.offset_storages.offset_storage import Rejections
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.owned_partitions import Assignment, MemberIdentity
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import connect, held, released
from tests.consumer.stream.bench import values


class Holder:
    """A loop in a thread that keeps its first message in hand until the test tells it to continue."""

    def __init__(self, stream: KafkaStream) -> None:
        self.values: list[Any] = []
        self.go_on = threading.Event()
        self._got = threading.Event()
        self._stream = stream
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._got.wait(30)

    def _run(self) -> None:
        for message in self._stream:
            self.values.append(message.value)
            self._got.set()
            self.go_on.wait(60)

    def join(self) -> None:
        self.go_on.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def identity(connector: ConsumerConnector) -> str:
    assignment = connector._ownership.assignment
    return "" if assignment is None else assignment.identity.member_id


def test_a_member_that_its_group_removes_waits_no_longer_for_the_message_in_hand(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, client_id="a", consumer_timeout_ms=-1) as connector:
        holder = Holder(connector.stream(topic))
        before = identity(connector)
        other = connect(feed, group, client_id="b")
        joining = threading.Thread(target=other.stream, args=(topic,))
        joining.start()
        wait_for(lambda: released(connector), "the rebalance to begin")
        feed.remove(group, before)
        wait_for(lambda: identity(connector) not in ("", before), "the member to join again")
        holder.go_on.set()
        joining.join(30)
        other.close()
    holder.join()


def test_a_listener_may_close_its_connector_which_then_commits_and_leaves(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    connector = connect(feed, group, consumer_timeout_ms=-1, session_timeout_ms=30_000)

    class Closing:
        def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
            if owned:
                connector.close()

        def before_starting_fetchers(self, *_: object) -> None: ...

    connector.set_rebalance_listener(Closing())
    seen: list[Any] = []
    stream = connector.stream(topic)
    reader = threading.Thread(target=lambda: seen.extend(each.value for each in stream))
    reader.start()
    wait_for(lambda: len(seen) == 2, "both messages")
    with connect(feed, group, default_api_timeout_ms=5_000, rebalance_timeout_ms=5_000) as other:
        other.stream(topic)
        reader.join(30)
        assert not reader.is_alive()
        assert feed.committed(group, topic) == [2]
        wait_for(lambda: len(feed.members(group)) == 1, "the first member to leave")
        assert identity(other) in feed.members(group)


def test_a_commit_made_while_an_assignment_begins_is_not_taken_back(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    with connect(feed, group, client_id="a", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(next(stream.batches(3, timeout=30))) == ["a", "b", "c"]  # which are in hand
        commits, store = connector._commits, connector._store
        begin, commit = commits.begin, store.commit
        committer, refused = threading.Thread(target=connector.commit_offsets), threading.Event()

        def beginning(assignment: Assignment, assigned: Collection[TopicPartition]) -> None:
            committer.start()
            wait_for(lambda: refused.is_set() or not committer.is_alive(), "the commit to be answered")
            begin(assignment, assigned)

        def committing(
            positions: Mapping[TopicPartition, OffsetAndMetadata],
            identity: MemberIdentity,
            timeout: float,
            *,
            once: bool = False,
        ) -> Rejections:
            rejected = commit(positions, identity, timeout, once=once)
            if rejected:
                refused.set()
            return rejected

        monkeypatch.setattr(commits, "begin", beginning)
        monkeypatch.setattr(store, "commit", committing)
        with connect(feed, group, client_id="b") as other:
            other.stream(topic)
            wait_for(lambda: held(connector) == {0}, "the rebalance")
            committer.join(30)
            assert feed.committed(group, topic) == [3]
            for value in "abc":  # the assignment began before the commit
                assert values([next(iter(stream))]) == [value]
                connector.commit_offsets()
                assert feed.committed(group, topic) == [3]
