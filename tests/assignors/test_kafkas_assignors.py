"""Random groups are assigned the same partitions as by Kafka's own assignors."""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from pyklient.assignors.assignor import Assignor, Subscriber
from pyklient.assignors.assignors_by_name import load_assignor
from tests.assignors.test_assignors import without_racks
from tests.oracles.process import Oracle
from tests.run.seed import dice

pytestmark = pytest.mark.java

_GROUPS: Final = 300
_LETTERS: Final = "aZ09._-"
_ANY_LETTERS: Final = _LETTERS + "é日\uffee𝄞"
"""Letters beyond ASCII. 𝄞 consists of two units of UTF-16, which sort before \uffee in UTF-16 and after it in
UTF-8."""


@pytest.fixture(scope="module", params=["2.8.2", "3.9.1", "4.3.1"])
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle(request.param, "AssignorOracle.java") as oracle:
        yield oracle


def name(chance: random.Random, letters: str, taken: set[str]) -> str:
    """Return a name that is not in *taken*, and add it."""
    while (found := "".join(chance.choices(letters, k=chance.randint(1, 4)))) in taken:
        pass
    taken.add(found)
    return found


def group(chance: random.Random) -> tuple[list[Subscriber], dict[str, int]]:
    """Return members, some of them static, that subscribe to some topics each. Some of the topics do not
    exist."""
    taken: set[str] = set()
    topics = [name(chance, _LETTERS, taken) for _ in range(chance.randint(1, 6))]
    taken = set()
    members = [
        Subscriber(
            name(chance, _ANY_LETTERS, taken),
            frozenset(chance.sample(topics, chance.randint(0, len(topics)))),
            name(chance, _ANY_LETTERS, taken) if chance.random() < 0.4 else None,
        )
        for _ in range(chance.randint(1, 8))
    ]
    return members, {topic: chance.randint(1, 9) for topic in topics if chance.random() < 0.8}


def kafkas(
    oracle: Oracle, assignor: str, groups: list[tuple[list[Subscriber], dict[str, int]]]
) -> list[dict[str, list[Any]]]:
    questions = [
        json.dumps(
            {
                "assignor": assignor,
                "partitions": counts,
                "members": [
                    {"id": each.member_id, "instance": each.instance_id, "topics": sorted(each.topics)}
                    for each in members
                ],
            }
        )
        for members, counts in groups
    ]
    return [_sorted(json.loads(line)) for line in oracle.ask(questions)]


def ours(assignor: Assignor, members: list[Subscriber], counts: Mapping[str, int]) -> dict[str, list[Any]]:
    found = assignor.assign(members, without_racks(counts))
    return _sorted({each: [[where.topic, where.partition] for where in found[each]] for each in found})


def _sorted(assigned: dict[str, list[Any]]) -> dict[str, list[Any]]:
    # In which order a member has its topics is up to a hash table in Java.
    return {member: sorted(partitions) for member, partitions in assigned.items()}


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_a_random_group_gets_the_partitions_that_kafka_gives_it(oracle: Oracle, assignor: str) -> None:
    chance = dice("groups", assignor)
    groups = [group(chance) for _ in range(_GROUPS)]
    for given, theirs in zip(groups, kafkas(oracle, assignor, groups), strict=True):
        assert ours(load_assignor(assignor), *given) == theirs, given


def test_another_order_of_the_members_is_noticed(oracle: Oracle) -> None:
    static_first = [Subscriber("a", frozenset({"t"})), Subscriber("b", frozenset({"t"}), "z")]
    [theirs] = kafkas(oracle, "range", [(static_first, {"t": 3})])
    assert theirs == {"a": [["t", 2]], "b": [["t", 0], ["t", 1]]}
    assert ours(load_assignor("range"), static_first, {"t": 3}) == theirs
    by_member_id = [each._replace(instance_id=None) for each in static_first]
    assert ours(load_assignor("range"), by_member_id, {"t": 3}) != theirs
