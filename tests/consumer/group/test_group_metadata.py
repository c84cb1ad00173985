"""``ConsumerConnector.group_metadata``: what a transaction that commits offsets says about the member."""

import pickle
from collections.abc import Collection
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from pyklient import Admin, GroupMetadata
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.errors import ClosedError, CommitError, ConfigurationError
from pyklient.offset_stores import SQLiteOffsetStore
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for


def connect(feed: Feed, group: str | None, **options: Any) -> ConsumerConnector:
    return ConsumerConnector(feed.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **options)


def test_a_member_tells_the_generation_and_the_ids_that_the_coordinator_knows(feed: Feed) -> None:
    topic, group = feed.topic(2), feed.name()
    with connect(feed, group, group_instance_id="blue") as connector:
        connector.stream(topic)
        mine = connector.group_metadata()
        with Admin(feed.bootstrap_servers) as admin:
            [member] = admin.describe_group(group).members
        assert (mine.group_id, mine.member_id, mine.group_instance_id) == (group, member.member_id, "blue")
        with connect(feed, group) as other:
            other.stream(topic)
            wait_for(lambda: connector.group_metadata() != mine, "the next generation of the first member")
            assert connector.group_metadata().generation_id == mine.generation_id + 1
            theirs = other.group_metadata()
    assert theirs.generation_id == mine.generation_id + 1
    assert theirs.member_id != mine.member_id
    assert theirs.group_instance_id is None


def test_group_metadata_cannot_be_changed_and_can_be_pickled() -> None:
    metadata = GroupMetadata("orders", 3, "m", "i")
    with pytest.raises(FrozenInstanceError):
        metadata.generation_id = 4  # type: ignore[misc]  # which is what must fail
    assert pickle.loads(pickle.dumps(metadata)) == metadata
    assert GroupMetadata("orders") == GroupMetadata("orders", -1, "", None)


def test_partitions_by_hand_belong_to_no_member(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    with connect(feed, group) as connector:
        connector.assign({topic: [0]})
        assert connector.group_metadata() == GroupMetadata(group)


def test_a_connector_that_is_no_member_has_no_metadata(feed: Feed) -> None:
    group = feed.name()
    connector = connect(feed, group)
    with connector, pytest.raises(CommitError, match=f"not a member of group {group} yet: make its streams"):
        connector.group_metadata()
    with pytest.raises(ClosedError):
        connector.group_metadata()


def test_a_member_that_has_left_because_its_loop_stood_still_has_no_metadata(feed: Feed) -> None:
    """Without ids, the coordinator would accept the offsets of partitions that another member owns now."""
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group, max_poll_interval_ms=500) as connector:
        messages = iter(connector.stream(topic))
        next(messages)
        errors: list[CommitError] = []

        def refused() -> list[CommitError]:
            try:
                assert connector.group_metadata().member_id
            except CommitError as error:
                errors.append(error)
            return errors

        wait_for(refused, "the end of the membership")
    assert "abort the transaction" in str(errors[0])


def test_the_listener_of_a_connector_that_closes_may_ask_for_metadata(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    told: list[GroupMetadata] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            if partitions:
                told.append(connector.group_metadata())

    with connect(feed, group) as connector:
        connector.set_rebalance_listener(Listener())
        connector.stream(topic)
        mine = connector.group_metadata()
    assert told[-1] == mine


def test_a_connector_without_a_group_in_kafka_is_told_so(feed: Feed, tmp_path: Path) -> None:
    with connect(feed, None) as connector, pytest.raises(ConfigurationError, match="set group_id"):
        connector.group_metadata()
    store = SQLiteOffsetStore(tmp_path / "positions.db")
    with (
        connect(feed, "g", offset_store=store) as connector,
        pytest.raises(ConfigurationError, match="offset_store"),
    ):
        connector.group_metadata()
    with (
        connect(feed, "g", offsets_storage="zookeeper") as connector,
        pytest.raises(ConfigurationError, match="commits offsets to Kafka only"),
    ):
        connector.group_metadata()
