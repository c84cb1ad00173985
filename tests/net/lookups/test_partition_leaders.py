"""Grouping partitions by their leader."""

from pyklient.net.lookups.partition_leaders import by_leader
from pyklient.topic_partition import TopicPartition
from tests.net.lookups.played import A0, A1, B0, cluster

_LEADER_NOT_AVAILABLE, _UNKNOWN_TOPIC, _NOT_ALLOWED = 5, 3, 29


def test_partitions_are_grouped_by_the_node_that_leads_them() -> None:
    leaders, errors = by_leader(cluster({A0: 1, A1: 2, B0: 1}), [A0, A1, B0])
    assert leaders == {1: [A0, B0], 2: [A1]}
    assert not errors


def test_a_partition_without_a_leader_is_told_from_one_that_does_not_exist() -> None:
    absent = TopicPartition("a", 7)
    _, errors = by_leader(cluster({A0: -1}), [A0, absent, B0])
    assert {each: error.code for each, error in errors.items()} == {
        A0: _LEADER_NOT_AVAILABLE,
        absent: _UNKNOWN_TOPIC,
        B0: _UNKNOWN_TOPIC,
    }
    assert all(error.retriable for error in errors.values())


def test_the_error_of_a_topic_is_the_error_of_its_partitions() -> None:
    _, errors = by_leader(cluster({A0: -1}, error=_NOT_ALLOWED), [A0])
    assert "find the leader of a-0" in str(errors[A0])
    assert not errors[A0].retriable
