"""Random groups of several generations are assigned the same partitions as by Kafka's own assignors.

Members join, leave and miss generations, and they may be in racks.
"""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from pyklient.assignors.assignor import LastAssignment, Partitions, Subscriber
from pyklient.assignors.assignors_by_name import load_assignor
from pyklient.topic_partition import TopicPartition
from tests.assignors.test_kafkas_assignors import name
from tests.oracles.process import Oracle
from tests.run.seed import dice

pytestmark = pytest.mark.java

_GROUPS: Final = 60
_GENERATIONS: Final = 5
_LETTERS: Final = "aZ09._-é日\uffee𝄞"
_RACKS: Final = ("a", "b", "c")


@pytest.fixture(scope="module", params=["3.9.1", "4.3.1"])
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle(request.param, "StickyAssignorOracle.java") as oracle:
        yield oracle


class Group:
    """A group over its generations: its topics, and what each member got last and owns."""

    def __init__(self, chance: random.Random, assignor: str, *, racks: bool, equal: bool) -> None:
        self._chance = chance
        self._assignor = load_assignor(assignor)
        self._racks = racks
        self._equal = equal
        self._names: set[str] = set()
        self._topics = [name(chance, "aZ09._-", self._names) for _ in range(chance.randint(1, 5))]
        self.partitions: dict[str, list[frozenset[str]]] = {each: [] for each in self._topics}
        self._generation = 0
        self._members: dict[str, Subscriber] = {}
        self._got: dict[str, LastAssignment] = {}
        for _ in range(chance.randint(1, 5)):
            self._join()

    def next_members(self) -> list[Subscriber]:
        """Let members come and go and topics grow, and return the members that join the next generation."""
        chance = self._chance
        for topic in chance.sample(self._topics, chance.randint(0, len(self._topics))):
            for _ in range(chance.randint(1, 6)):
                count = chance.randint(0, 2) if self._racks else 0
                self.partitions[topic].append(frozenset(chance.sample(_RACKS, count)))
        for _ in range(chance.randint(0, 3)):
            self._join()
        for gone in chance.sample(sorted(self._members), chance.randint(0, len(self._members) - 1)):
            del self._members[gone]
        found = []
        for each in self._members.values():
            got = self._got.get(each.member_id, LastAssignment())
            data = self._assignor.user_data(each.topics, got)
            owned = frozenset(got.partitions) if self._assignor.incremental else frozenset()
            found.append(each._replace(owned=owned, generation=got.generation, user_data=data))
        return chance.sample(found, len(found))

    def assign(self, assigned: dict[str, list[TopicPartition]]) -> None:
        """Begin a generation with *assigned*. Some members do not hear of it."""
        self._generation += 1
        for member_id, partitions in assigned.items():
            if self._chance.random() < 0.9:
                self._got[member_id] = LastAssignment(partitions, self._generation)

    def _join(self) -> None:
        member_id = name(self._chance, _LETTERS, self._names)
        some = (
            self._topics
            if self._equal
            else self._chance.sample(self._topics, self._chance.randint(1, len(self._topics)))
        )
        rack = self._chance.choice((None, *_RACKS)) if self._racks else None
        instance = f"i{member_id}" if self._chance.random() < 0.3 else None
        self._members[member_id] = Subscriber(member_id, frozenset(some), instance, rack=rack)


def question(assignor: str, members: list[Subscriber], partitions: Partitions) -> str:
    """Return the line that asks the oracle for an assignment."""
    return json.dumps(
        {
            "assignor": assignor,
            "partitions": {topic: [sorted(each) for each in racks] for topic, racks in partitions.items()},
            "members": [
                {
                    "id": each.member_id,
                    "instance": each.instance_id,
                    "topics": sorted(each.topics),
                    "owned": sorted(each.owned),
                    "generation": each.generation,
                    "rack": each.rack,
                    "data": None if each.user_data is None else each.user_data.hex(),
                }
                for each in members
            ],
        }
    )


def _sorted(assigned: Any) -> dict[str, list[Any]]:
    return {member: sorted(map(tuple, partitions)) for member, partitions in assigned.items()}


@pytest.mark.parametrize("equal", [True, False], ids=["same-topics", "different-topics"])
@pytest.mark.parametrize("racks", [False, True], ids=["no-racks", "racks"])
@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky", "range"])
def test_a_group_gets_the_partitions_that_kafka_gives_it_in_each_generation(
    oracle: Oracle, assignor: str, racks: bool, equal: bool
) -> None:
    chance = dice("sticky groups", assignor, racks, equal)
    groups = [Group(chance, assignor, racks=racks, equal=equal) for _ in range(_GROUPS)]
    for _ in range(_GENERATIONS):
        members = [group.next_members() for group in groups]
        questions = [
            question(assignor, each, group.partitions) for group, each in zip(groups, members, strict=True)
        ]
        for group, joined, asked, line in zip(groups, members, questions, oracle.ask(questions), strict=True):
            assigned = load_assignor(assignor).assign(joined, group.partitions)
            assert _sorted(assigned) == _sorted(json.loads(line)), asked
            group.assign({each: list(partitions) for each, partitions in assigned.items()})


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_the_user_data_is_that_of_kafka_byte_for_byte(oracle: Oracle, assignor: str) -> None:
    chance = dice("user data", assignor)
    cases = [LastAssignment()]
    for generation in range(60):
        topics = ["".join(chance.choices("aZ09._-", k=4)) for _ in range(chance.randint(0, 20))]
        got = [TopicPartition(chance.choice(topics), chance.randint(0, 99)) for _ in topics]
        cases.append(LastAssignment(got, generation))
    questions = [
        json.dumps({"assignor": assignor, "got": each.partitions, "generation": each.generation})
        for each in cases
    ]
    theirs = [json.loads(line) for line in oracle.ask(questions)]
    ours = [load_assignor(assignor).user_data(frozenset(), each) for each in cases]
    assert [None if each is None else each.hex() for each in ours] == theirs
