"""Committed offsets of a group are shown and reset on the reference broker, and resets of running groups are
errors."""

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
from pyklient.broker import Broker
from tests.servers.fixtures import NewName

_RECORDS = 10


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, new_name: NewName) -> str:
    """A topic with two partitions of ten records. Record N has the timestamp 1,000 * N."""
    name = new_name()
    admin.create_topic(name, 2)
    servers = admin._config.bootstrap_servers
    with Producer(servers) as producer:
        for number in range(_RECORDS):
            for partition in range(2):
                producer.send(name, b"x", partition=partition, timestamp_ms=1000 * number)
    return name


def _after(admin: Admin, group: str, *to: Any, **options: Any) -> dict[int, int]:
    changes = admin.reset_offsets(group, *to, **options).changes
    return {each.partition: change.after.offset for each, change in changes.items()}


def _committed(admin: Admin, group: str) -> Mapping[int, int | None]:
    return {each.partition: at.committed for each, at in admin.stored_offsets(group).items()}


def test_a_reset_changes_nothing_until_it_is_executed(admin: Admin, topic: str, new_name: NewName) -> None:
    group = new_name()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    plan = admin.reset_offsets(group, {zero: 3, one: OffsetAndMetadata(4, "why")})
    assert (plan.members, plan.executed, plan.storage) == (0, False, ("kafka",))
    assert admin.stored_offsets(group) == {}
    assert admin.reset_offsets(group, {zero: 3, one: OffsetAndMetadata(4, "why")}, execute=True).executed
    found = admin.stored_offsets(group)
    assert (found[zero].kafka, found[one].kafka) == (OffsetAndMetadata(3), OffsetAndMetadata(4, "why"))
    assert (found[one].start, found[one].end, found[one].lag) == (0, _RECORDS, 6)
    plan = admin.reset_offsets(group, 7, topics=[one], execute=True)
    assert plan.changes[one].before == found[one]
    assert _committed(admin, group) == {0: 3, 1: 7}


def test_each_kind_of_reset_moves_offsets_to_its_own_place(
    admin: Admin, topic: str, new_name: NewName
) -> None:
    group = new_name()
    admin.reset_offsets(group, {TopicPartition(topic, 0): 3}, execute=True)
    both = {"topics": [topic]}
    assert _after(admin, group, "earliest") == {0: 0}
    assert _after(admin, group, "latest", **both) == {0: _RECORDS, 1: _RECORDS}
    assert _after(admin, group, "current", **both) == {0: 3, 1: _RECORDS}
    assert _after(admin, group, shift_by=4) == {0: 7}
    assert _after(admin, group, shift_by=-2) == {0: 1}
    assert _after(admin, group, 5, **both) == {0: 5, 1: 5}
    assert _after(admin, group, datetime.fromtimestamp(5.5, UTC), **both) == {0: 6, 1: 6}
    assert _after(admin, group, datetime.fromtimestamp(6, UTC), **both) == {0: 6, 1: 6}
    assert _committed(admin, group) == {0: 3}


def test_an_offset_that_the_log_does_not_have_becomes_the_nearest_and_a_note_says_so(
    admin: Admin, topic: str, new_name: NewName
) -> None:
    group, zero = new_name(), TopicPartition(topic, 0)
    admin.reset_offsets(group, {zero: 3}, execute=True)
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"shift_by": -4}, 0, "-1 is before the start of the log"),
        ({"shift_by": 8}, _RECORDS, "11 is after the end of the log"),
        ({"to": 2**63 - 1}, _RECORDS, f"{2**63 - 1} is after the end of the log"),
        (
            {"to": datetime.now(UTC)},
            _RECORDS,
            "no record is as new as that, so the offset is the end of the log",
        ),
    ]
    for options, offset, note in cases:
        change = admin.reset_offsets(group, **options).changes[zero]
        assert (change.after.offset, change.note) == (offset, note)


def test_a_group_with_members_is_not_reset_but_told_what_would_change(
    admin: Admin, topic: str, new_name: NewName
) -> None:
    group = new_name()
    servers = admin._config.bootstrap_servers
    with ConsumerConnector(servers, group_id=group, auto_offset_reset="earliest") as connector:
        for number, _ in enumerate(connector.stream(topic), 1):
            if number == 2 * _RECORDS:
                break
        connector.commit_offsets()
        plan = admin.reset_offsets(group, "earliest")
        assert plan.members == 1
        assert {each.after.offset for each in plan.changes.values()} == {0}
        with pytest.raises(BrokerError, match=r"while it has 1 member: .* \(NON_EMPTY_GROUP"):
            admin.reset_offsets(group, "earliest", execute=True)
        assert _committed(admin, group) == {0: _RECORDS, 1: _RECORDS}
    admin.reset_offsets(group, "earliest", execute=True)
    assert _committed(admin, group) == {0: 0, 1: 0}


def test_what_cannot_be_reset_is_an_error_and_nothing_is_committed(
    admin: Admin, topic: str, new_name: NewName
) -> None:
    group, zero, missing = new_name(), TopicPartition(topic, 0), TopicPartition(topic, 2)
    with pytest.raises(BrokerError, match=f"cannot reset the offset of {missing} .* has no partition 2"):
        admin.reset_offsets(group, {zero: 3, missing: 3}, execute=True)
    with pytest.raises(BrokerError, match="there is no topic unknown"):
        admin.reset_offsets(group, {zero: 3, TopicPartition("unknown", 0): 3}, execute=True)
    with pytest.raises(ConfigurationError, match=f"{zero} cannot be shifted, because the group has not"):
        admin.reset_offsets(group, shift_by=1, topics=[zero], execute=True)
    with pytest.raises(ConfigurationError, match="offsets in ZooKeeper need its address"):
        admin.reset_offsets(group, 1, topics=[zero], storage="zookeeper", execute=True)
    with pytest.raises(ConfigurationError, match="offsets in ZooKeeper need its address"):
        admin.copy_offsets(group, "kafka")
    assert admin.stored_offsets(group) == {}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "takes either 'to' or 'shift_by'"),
        ({"to": 1, "shift_by": 1}, "takes either 'to' or 'shift_by'"),
        ({"to": "first"}, "to='first' is not one of 'earliest', 'latest', 'current'"),
        ({"to": -1}, "to=-1 is out of range"),
        ({"to": datetime(2026, 1, 1)}, "has no time zone"),
        ({"to": 1, "storage": "disk"}, "storage='disk' is neither 'kafka' nor 'zookeeper'"),
    ],
)
def test_wrong_arguments_are_errors_before_anything_is_asked(options: Any, error: str) -> None:
    with Admin("localhost:1") as admin, pytest.raises(ConfigurationError, match=error):
        admin.reset_offsets("g", **options)
