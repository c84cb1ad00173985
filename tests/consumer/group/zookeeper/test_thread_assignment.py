"""The assignors of ZooKeeper groups. The expected values were computed by Scala's own classes, which
test_scalas_assignors.py runs."""

import pytest

from pyklient import TopicPartition
from pyklient.consumer.group.zookeeper.thread_assignment import (
    assign_range_to_threads,
    assign_round_robin_to_threads,
    has_identical_threads,
)
from pyklient.consumer.group.zookeeper.thread_ids import ThreadId
from pyklient.kernel import string_hash


def threads(**streams: int) -> list[ThreadId]:
    """Return the threads of consumers with so many streams each."""
    return [ThreadId(consumer, stream) for consumer, count in streams.items() for stream in range(count)]


def by_thread(assigned: dict[TopicPartition, ThreadId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for partition, thread in assigned.items():
        found.setdefault(str(thread), []).append(partition.partition)
    return found


def test_row_1_ten_partitions_are_divided_among_three_threads_in_runs() -> None:
    assigned = assign_range_to_threads({"t": threads(c=3)}, {"t": range(10)})
    assert by_thread(assigned) == {"c-0": [0, 1, 2, 3], "c-1": [4, 5, 6], "c-2": [7, 8, 9]}


def test_row_2_the_first_of_four_threads_gets_the_fifth_partition() -> None:
    assigned = assign_range_to_threads({"t": threads(C1=2, C2=2)}, {"t": range(5)})
    assert by_thread(assigned) == {"C1-0": [0, 1], "C1-1": [2], "C2-0": [3], "C2-1": [4]}


def test_row_3_a_thread_without_a_partition_gets_none() -> None:
    assigned = assign_range_to_threads({"t": threads(c=3)}, {"t": range(2)})
    assert by_thread(assigned) == {"c-0": [0], "c-1": [1]}


def test_row_4_thread_ids_are_sorted_as_text() -> None:
    assigned = assign_range_to_threads({"t": threads(c=11)}, {"t": range(11)})
    assert list(by_thread(assigned)) == ["c-0", "c-1", "c-10", *(f"c-{number}" for number in range(2, 10))]


def test_row_5_round_robin_follows_javas_hashes_of_the_partitions() -> None:
    assert (string_hash("[beta,0]"), string_hash("[alpha,0]")) == (-535395666, 650873494)
    topics = dict.fromkeys(("alpha", "beta"), threads(g_c1=2, g_c2=1))
    assigned = assign_round_robin_to_threads(topics, {"alpha": range(3), "beta": range(3)})
    assert [(each.topic, each.partition) for each in assigned] == [
        *(("beta", number) for number in range(3)),
        *(("alpha", number) for number in range(3)),
    ]
    assert [str(thread) for thread in assigned.values()] == ["g_c1-0", "g_c1-1", "g_c2-0"] * 2


def test_row_6_round_robin_passes_over_threads_of_other_topics_where_scala_0_8_2_fails() -> None:
    differing = {"t": threads(a=2, b=1), "u": threads(b=1)}
    assert not has_identical_threads(differing)
    assigned = assign_round_robin_to_threads(differing, {"t": range(4), "u": range(1)})
    # Hashes: [t,0] … [t,3], then [u,0]. After a-0, the turn passes over a-1.
    assert [str(thread) for thread in assigned.values()] == ["a-0", "a-1", "b-0", "a-0", "b-0"]
    assert has_identical_threads({"t": threads(a=2, b=1), "u": threads(b=1, a=2)})
    assert not has_identical_threads({"t": threads(a=2), "u": threads(a=1)})
    assert has_identical_threads({})


@pytest.mark.parametrize("assign", [assign_range_to_threads, assign_round_robin_to_threads])
def test_topics_without_partitions_or_threads_are_passed_over(assign: object) -> None:
    assert callable(assign)
    assert assign({"gone": threads(c=1), "empty": []}, {"empty": range(3), "other": range(1)}) == {}
    assert assign({}, {}) == {}
