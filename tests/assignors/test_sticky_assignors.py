"""The sticky assignors without Java: what they guarantee, how long they take, and where they differ from
Java."""

import time
from collections import Counter
from itertools import pairwise

import pytest

from pyklient.assignors.assignor import Assignor, LastAssignment, Partitions, Subscriber
from pyklient.assignors.assignors_by_name import BUILT_IN_ASSIGNORS, load_assignor
from pyklient.topic_partition import TopicPartition
from tests.assignors.test_assignors import without_racks

STICKY = [load_assignor("sticky"), load_assignor("cooperative-sticky")]


def after(
    assignor: Assignor, assigned: dict[str, list[TopicPartition]], generation: int, *members: Subscriber
) -> list[Subscriber]:
    """Return *members* as they join after they have got *assigned* in *generation*."""
    found = []
    for each in members:
        last = LastAssignment(assigned.get(each.member_id, ()), generation)
        owned = frozenset(last.partitions) if assignor.incremental else frozenset()
        data = assignor.user_data(each.topics, last)
        found.append(each._replace(owned=owned, generation=generation, user_data=data))
    return found


def numbers(assigned: dict[str, list[TopicPartition]]) -> dict[str, list[int]]:
    return {name: sorted(each.partition for each in of) for name, of in assigned.items()}


def assign(
    assignor: Assignor, members: list[Subscriber], partitions: Partitions
) -> dict[str, list[TopicPartition]]:
    return {name: list(of) for name, of in assignor.assign(members, partitions).items()}


@pytest.mark.parametrize("assignor", STICKY, ids=lambda assignor: assignor.name)
def test_members_keep_what_they_have_and_a_partition_that_moves_is_given_back_first(
    assignor: Assignor,
) -> None:
    partitions = without_racks({"t": 6})
    a, b, c = (Subscriber(name, frozenset({"t"})) for name in "abc")
    first = assign(assignor, [a, b], partitions)
    assert numbers(first) == {"a": [0, 2, 4], "b": [1, 3, 5]}
    second = assign(assignor, after(assignor, first, 1, a, b, c), partitions)
    moving = [] if assignor.incremental else [4, 5]
    assert numbers(second) == {"a": [0, 2], "b": [1, 3], "c": moving}
    third = assign(assignor, after(assignor, second, 2, a, b, c), partitions)
    assert numbers(third) == {"a": [0, 2], "b": [1, 3], "c": [4, 5]}
    without_a = assign(assignor, after(assignor, third, 3, b, c), partitions)
    assert {1, 3} <= set(numbers(without_a)["b"])
    assert {4, 5} <= set(numbers(without_a)["c"])


@pytest.mark.parametrize(
    "assignor", [load_assignor(each) for each in BUILT_IN_ASSIGNORS], ids=lambda assignor: assignor.name
)
@pytest.mark.parametrize(("topics", "each"), [(1, 1000), (50, 20), (1000, 1)])
@pytest.mark.parametrize("equal", [True, False], ids=["same-topics", "different-topics"])
def test_a_thousand_partitions_are_assigned_to_twenty_members_within_two_seconds(
    assignor: Assignor, topics: int, each: int, equal: bool
) -> None:
    partitions = without_racks({f"t{number}": each for number in range(topics)})
    names = sorted(partitions)
    members = [
        Subscriber(f"member-{number}", frozenset(names if equal else names[number % 3 :] or names))
        for number in range(21)
    ]
    got: dict[str, list[TopicPartition]] = {}
    for generation, some in enumerate((members[:20], members, members[1:], members[:20])):
        joined = after(assignor, got, generation - 1, *some)
        began = time.thread_time()
        got = assign(assignor, joined, partitions)
        assert time.thread_time() - began < 2
        counts = Counter(where for of in got.values() for where in of)
        assert set(counts.values()) <= {1}


def test_a_member_that_subscribes_to_nothing_gets_nothing() -> None:
    members = [Subscriber("a", frozenset()), Subscriber("b", frozenset({"t"}))]
    assert numbers(assign(STICKY[0], members, without_racks({"t": 2}))) == {"a": [], "b": [0, 1]}


def test_partitions_that_are_gone_with_their_topic_are_not_kept() -> None:
    gone = frozenset({TopicPartition("t", 1), TopicPartition("t", 7)})
    member = Subscriber("a", frozenset({"t"}), owned=gone, generation=1)
    other = Subscriber("b", frozenset({"t"}), generation=1)
    found = assign(STICKY[1], [member, other], without_racks({"t": 4}))
    assert numbers(found) == {"a": [0, 1], "b": [2, 3]}


def test_of_two_members_that_claim_a_partition_the_one_of_the_newer_generation_keeps_it() -> None:
    here = frozenset({TopicPartition("t", 0)})
    for generations in ((1, 2), (2, 1)):
        members = [
            Subscriber(name, frozenset({"t"}), owned=here, generation=generation)
            for name, generation in zip("ab", generations, strict=True)
        ]
        found = numbers(assign(STICKY[1], members, without_racks({"t": 2})))
        keeper, other = ("b", "a") if generations == (1, 2) else ("a", "b")
        assert (found[keeper], found[other]) == ([0], [1])


def test_a_subscription_of_an_old_client_tells_its_generation_in_its_user_data() -> None:
    here = frozenset({TopicPartition("t", 0)})
    data = [load_assignor("cooperative-sticky").user_data(frozenset(), LastAssignment((), n)) for n in (1, 2)]
    members = [
        Subscriber(name, frozenset({"t"}), owned=here, user_data=each)
        for name, each in zip("ab", data, strict=True)
    ]
    found = numbers(assign(STICKY[1], members, without_racks({"t": 2})))
    assert found["b"] == [0]
    assert all(len(one) <= len(other) + 1 for one, other in pairwise(found.values()))
