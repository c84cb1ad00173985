"""Committed offsets in ZooKeeper and in Kafka are shown, reset in both and copied, by brokers old and new."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from pyklient import (
    BrokerError,
    ConfigurationError,
    ConsumerConnector,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from pyklient.admin import Admin
from pyklient.admin.descriptions import Storage
from pyklient.admin.group_offsets import GroupOffsets
from pyklient.registry.committed_offsets import replace_offsets
from tests.consumer.offsets.stores import put_in_zookeeper, stored_in_zookeeper
from tests.servers.fixtures import NewName
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.java

_RECORDS = 10

Places = tuple[int | None, int | None]


@pytest.fixture
def server(old_and_new_zookeeper_kafka: ZooKeeperKafka) -> ZooKeeperKafka:
    return old_and_new_zookeeper_kafka


@pytest.fixture
def topic(server: ZooKeeperKafka, new_name: NewName) -> str:
    """A topic with two partitions of ten records."""
    name = server.create_topic(new_name(), 2)
    with Producer(server.bootstrap_servers, enable_idempotence=False) as producer:
        for number in range(2 * _RECORDS):
            producer.send(name, b"x", partition=number % 2)
    return name


@pytest.fixture
def admin(server: ZooKeeperKafka) -> Iterator[Admin]:
    with Admin(zookeeper=server.zookeeper_connect) as admin:
        yield admin


def _places(admin: Admin, group: str) -> dict[int, Places]:
    """Return the offsets in Kafka and in ZooKeeper."""
    return {
        each.partition: (at.of("kafka"), at.of("zookeeper"))
        for each, at in admin.stored_offsets(group).items()
    }


def test_a_reset_changes_the_offsets_wherever_the_group_has_some(
    server: ZooKeeperKafka, admin: Admin, topic: str, new_name: NewName
) -> None:
    group, zero, one = new_name(), TopicPartition(topic, 0), TopicPartition(topic, 1)
    with pytest.raises(ConfigurationError, match="has offsets neither in Kafka nor in ZooKeeper"):
        admin.reset_offsets(group, {zero: 3})
    put_in_zookeeper(server, group, topic, 0, "6")
    assert admin.reset_offsets(group, shift_by=-2, execute=True).storage == ("zookeeper",)
    assert _places(admin, group) == {0: (None, 4)}
    admin.reset_offsets(group, {one: OffsetAndMetadata(7, "why")}, storage="kafka", execute=True)
    assert _places(admin, group) == {0: (None, 4), 1: (7, None)}
    assert admin.reset_offsets(group, shift_by=1, execute=True).storage == ("kafka", "zookeeper")
    assert _places(admin, group) == {0: (5, 5), 1: (8, 8)}
    admin.reset_offsets(group, "earliest", storage="zookeeper", topics=[one], execute=True)
    assert _places(admin, group) == {0: (5, 5), 1: (8, 0)}
    assert stored_in_zookeeper(server, group, topic) == {0: "5", 1: "0"}
    found = admin.stored_offsets(group)[one]
    assert (found.committed, found.start, found.end, found.lag) == (8, 0, _RECORDS, 2)


def test_a_group_in_zookeeper_that_has_members_is_not_reset(
    server: ZooKeeperKafka, admin: Admin, topic: str, new_name: NewName
) -> None:
    group = new_name()
    with ConsumerConnector(
        zookeeper=server.zookeeper_connect,
        group_id=group,
        coordination="zookeeper",
        auto_offset_reset="earliest",
    ) as member:
        for number, _ in enumerate(member.stream(topic), 1):
            if number == 2 * _RECORDS:
                break
        member.commit_offsets()
        assert admin.reset_offsets(group, "earliest").members == 1
        for storage in ("kafka", "zookeeper"):
            with pytest.raises(BrokerError, match="while it has 1 member"):
                admin.reset_offsets(group, "earliest", topics=[topic], storage=storage, execute=True)
        assert _places(admin, group) == {0: (None, _RECORDS), 1: (None, _RECORDS)}
    admin.reset_offsets(group, "earliest", execute=True)
    assert _places(admin, group) == {0: (None, 0), 1: (None, 0)}


def test_a_copy_makes_no_offset_smaller_unless_it_is_asked_to(
    server: ZooKeeperKafka, admin: Admin, topic: str, new_name: NewName
) -> None:
    group, zero, one = new_name(), TopicPartition(topic, 0), TopicPartition(topic, 1)
    put_in_zookeeper(server, group, topic, 0, "6")
    put_in_zookeeper(server, group, topic, 1, "2")
    admin.reset_offsets(group, {one: 5}, storage="kafka", execute=True)
    plan = admin.copy_offsets(group, "kafka")
    assert [(at.source, at.before, at.after, at.ahead) for at in plan.values()] == [
        (6, None, 6, False),
        (2, 5, 5, True),
    ]
    assert _places(admin, group) == {0: (None, 6), 1: (5, 2)}
    assert admin.copy_offsets(group, "kafka", execute=True) == plan
    assert _places(admin, group) == {0: (6, 6), 1: (5, 2)}
    done = admin.copy_offsets(group, "zookeeper", topics=[zero], execute=True)
    assert [(at.source, at.before, at.after) for at in done.values()] == [(6, 6, 6)]
    done = admin.copy_offsets(group, "kafka", topics=[one], lower=True, execute=True)
    assert [(at.before, at.after, at.ahead) for at in done.values()] == [(5, 2, False)]
    admin.reset_offsets(group, {zero: 9}, storage="kafka", execute=True)
    admin.copy_offsets(group, "zookeeper", execute=True)
    assert _places(admin, group) == {0: (9, 9), 1: (2, 2)}


def test_a_copy_warns_if_the_offsets_change_faster_than_it_copies(
    server: ZooKeeperKafka,
    admin: Admin,
    topic: str,
    new_name: NewName,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    group, zero = new_name(), TopicPartition(topic, 0)
    put_in_zookeeper(server, group, topic, 0, "1")
    write, offsets = GroupOffsets._write_copy, iter(range(2, 9))

    def write_and_commit(
        copier: GroupOffsets, to: Storage, due: Mapping[TopicPartition, int], found: Any
    ) -> Mapping[TopicPartition, int]:
        written = write(copier, to, due, found)
        admin.reset_offsets(group, {zero: next(offsets)}, storage="zookeeper", execute=True)
        return written

    monkeypatch.setattr(GroupOffsets, "_write_copy", write_and_commit)
    done = admin.copy_offsets(group, "kafka", execute=True)
    assert [(at.source, at.after) for at in done.values()] == [(5, 5)]
    assert _places(admin, group) == {0: (5, 6)}
    assert f"the offsets of group {group} may still differ" in caplog.text


def test_a_node_that_somebody_else_has_changed_is_not_replaced(
    server: ZooKeeperKafka, admin: Admin, topic: str, new_name: NewName
) -> None:
    group, zero, one = new_name(), TopicPartition(topic, 0), TopicPartition(topic, 1)
    put_in_zookeeper(server, group, topic, 0, "6")
    registry = admin._client.registry
    assert registry is not None
    assert registry.play(replace_offsets(group, {zero: 7, one: 3}, {zero: 1}), 10) == []
    assert registry.play(replace_offsets(group, {zero: 8, one: 8}, {zero: 1}), 10) == [zero, one]
    assert stored_in_zookeeper(server, group, topic) == {0: "7", 1: "3"}


def test_an_offset_that_members_ignore_has_an_error_and_can_be_replaced(
    server: ZooKeeperKafka, admin: Admin, topic: str, new_name: NewName
) -> None:
    group, later, zero = new_name(), new_name(), TopicPartition(topic, 0)
    put_in_zookeeper(server, group, topic, 0, "seven")
    put_in_zookeeper(server, group, later, 0, "4")
    server.create_topic(later, 1)
    found = admin.stored_offsets(group)
    assert {each.topic: at.committed for each, at in found.items()} == {topic: None, later: None}
    assert "the content is not a whole number" in (found[zero].error or "")
    assert "before the topic was created" in (found[TopicPartition(later, 0)].error or "")
    admin.reset_offsets(group, {zero: 7, TopicPartition(later, 0): 0}, storage="zookeeper", execute=True)
    assert {at.zookeeper for at in admin.stored_offsets(group).values()} == {7, 0}


@pytest.mark.java
def test_the_oldest_brokers_know_segments_and_no_members(
    oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    topic, group = oldest_kafka.create_topic(new_name(), 1), new_name()
    zero = TopicPartition(topic, 0)
    with Producer(oldest_kafka.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send(topic, b"x")
    with (
        Admin(oldest_kafka.bootstrap_servers) as without,
        pytest.raises(
            ConfigurationError, match=r"brokers before Kafka 0\.9 do not know if a group has members"
        ),
    ):
        without.reset_offsets(group, {zero: 0}, execute=True)
    with Admin(zookeeper=oldest_kafka.zookeeper_connect) as admin:
        plan = admin.reset_offsets(group, datetime(2020, 1, 1, tzinfo=UTC), topics=[zero], storage="kafka")
        assert plan.changes[zero].after.offset == 0
        assert "knows only the times of log segments" in (plan.changes[zero].note or "")
