from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient.assignors.assignor import Partitions, Subscriber
from pyklient.assignors.even_split import split_evenly
from pyklient.assignors.range_assignor import RangeAssignor
from pyklient.assignors.round_robin_assignor import RoundRobinAssignor
from pyklient.topic_partition import TopicPartition


def member(name: str, *topics: str, instance: str | None = None) -> Subscriber:
    return Subscriber(name, frozenset(topics), instance)


def without_racks(counts: Mapping[str, int]) -> Partitions:
    """Return topics with the given numbers of partitions, whose brokers are in no rack."""
    return {topic: [frozenset()] * count for topic, count in counts.items()}


def dealt(assigned: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {name: [str(each) for each in partitions] for name, partitions in assigned.items()}


@pytest.mark.parametrize(
    ("partitions", "takers", "runs"),
    [
        (10, 3, [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (5, 4, [[0, 1], [2], [3], [4]]),
        (2, 3, [[0], [1], []]),
        (0, 2, [[], []]),
    ],
)
def test_the_range_rule_deals_runs_of_neighbours_with_the_longer_ones_first(
    partitions: int, takers: int, runs: list[list[int]]
) -> None:
    assert [list(run) for run in split_evenly(range(partitions), takers)] == runs


def test_range_deals_each_topic_on_its_own_so_the_first_member_gets_the_longer_runs() -> None:
    assigned = RangeAssignor().assign(
        [member("b", "x", "y"), member("a", "x", "y")], without_racks({"x": 3, "y": 3})
    )
    assert dealt(assigned) == {"a": ["x-0", "x-1", "y-0", "y-1"], "b": ["x-2", "y-2"]}


def test_range_gives_a_topic_only_to_its_subscribers() -> None:
    assigned = RangeAssignor().assign(
        [member("a", "x"), member("b", "x", "y")], without_racks({"x": 2, "y": 2})
    )
    assert dealt(assigned) == {"a": ["x-0"], "b": ["x-1", "y-0", "y-1"]}


def test_range_orders_members_by_name_as_strings() -> None:
    members = [member(f"c-{number}", "x") for number in range(11)]
    assigned = RangeAssignor().assign(members, without_racks({"x": 11}))
    assert dealt(assigned)["c-10"] == ["x-2"], "c-10 comes before c-2"


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = [
        member("a", "x"),
        member("z", "x", instance="two"),
        member("y", "x", instance="one"),
    ]
    assert dealt(RangeAssignor().assign(members, without_racks({"x": 3}))) == {
        "y": ["x-0"],
        "z": ["x-1"],
        "a": ["x-2"],
    }


def test_members_are_ordered_by_utf16_units_as_java_orders_them() -> None:
    above, below = "\U00010000", "\uffff"
    assigned = RangeAssignor().assign([member(below, "x"), member(above, "x")], without_racks({"x": 1}))
    assert dealt(assigned)[above] == ["x-0"], "a surrogate pair begins below U+FFFF"


def test_round_robin_goes_through_all_topics_in_one_row() -> None:
    members = [member("m1", "a", "b"), member("m2", "a", "b")]
    assigned = RoundRobinAssignor().assign(members, without_racks({"a": 3, "b": 3}))
    assert dealt(assigned) == {"m1": ["a-0", "a-2", "b-1"], "m2": ["a-1", "b-0", "b-2"]}


def test_round_robin_passes_over_members_without_the_topic_and_goes_on_behind_the_taker() -> None:
    # the example in the documentation of Java's RoundRobinAssignor
    members = [member("c0", "t0"), member("c1", "t0", "t1"), member("c2", "t0", "t1", "t2")]
    assigned = RoundRobinAssignor().assign(members, without_racks({"t0": 1, "t1": 2, "t2": 3}))
    assert dealt(assigned) == {"c0": ["t0-0"], "c1": ["t1-0"], "c2": ["t1-1", "t2-0", "t2-1", "t2-2"]}


def test_topics_that_do_not_exist_or_that_nobody_wants_are_not_dealt() -> None:
    for assign in (RangeAssignor().assign, RoundRobinAssignor().assign):
        assert dealt(assign([member("a", "x", "missing")], without_racks({"x": 1, "unwanted": 4}))) == {
            "a": ["x-0"]
        }


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("xyz")), min_size=1),
    st.dictionaries(st.sampled_from("xyz"), st.integers(0, 12)),
)
def test_every_wanted_partition_is_dealt_once_and_to_a_subscriber(
    wanted: dict[str, set[str]], counts: dict[str, int]
) -> None:
    members = [Subscriber(name, frozenset(topics)) for name, topics in wanted.items()]
    expected = {
        TopicPartition(topic, partition)
        for topic, count in counts.items()
        if any(topic in topics for topics in wanted.values())
        for partition in range(count)
    }
    for assign in (RangeAssignor().assign, RoundRobinAssignor().assign):
        assigned = assign(members, without_racks(counts))
        everything = [each for partitions in assigned.values() for each in partitions]
        assert len(everything) == len(set(everything))
        assert set(everything) == expected
        assert all(each.topic in wanted[name] for name, those in assigned.items() for each in those)


@given(st.integers(0, 100), st.integers(1, 20))
def test_the_range_rule_is_even_and_keeps_the_order(count: int, takers: int) -> None:
    runs = split_evenly(range(count), takers)
    assert [each for run in runs for each in run] == list(range(count))
    assert all(left - right in (0, 1) for left, right in pairwise(len(run) for run in runs) if left != right)
