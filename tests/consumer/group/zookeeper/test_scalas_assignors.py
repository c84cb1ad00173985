"""Random groups are assigned the same partitions as by the assignors of Scala's high-level consumer."""

import json
import random
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from pyklient.consumer.group.zookeeper.thread_assignment import (
    ZOOKEEPER_ASSIGNORS,
    has_identical_threads,
)
from pyklient.consumer.group.zookeeper.thread_ids import ThreadId
from tests.oracles.process import Oracle
from tests.run.seed import dice

pytestmark = pytest.mark.java

_GROUPS: Final = 20
_LETTERS: Final = "aZ09._-"
_FAILED: Final = "java.lang.IllegalArgumentException"


class Group(NamedTuple):
    """For each member its streams of each topic, and for each topic the number of its partitions."""

    members: dict[str, dict[str, int]]
    partitions: dict[str, int]

    @property
    def threads(self) -> dict[str, list[ThreadId]]:
        found: dict[str, list[ThreadId]] = {}
        for member, streams in self.members.items():
            for topic, count in streams.items():
                found.setdefault(topic, []).extend(ThreadId(member, stream) for stream in range(count))
        return found

    def question(self, assignor: str) -> str:
        nodes = {
            f"/consumers/g/ids/{member}": json.dumps(
                {"version": 1, "subscription": streams, "pattern": "static", "timestamp": "1"}
            )
            for member, streams in self.members.items()
        } | {
            f"/brokers/topics/{topic}": json.dumps(
                {"version": 1, "partitions": {str(number): [0] for number in range(count)}}
            )
            for topic, count in self.partitions.items()
        }
        return "\t".join((assignor, "g", *(part for node in nodes.items() for part in node)))


@pytest.fixture(scope="module", params=["0.8.2.2", "0.10.2.2"])
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle(request.param, "ThreadAssignorOracle.java") as oracle:
        yield oracle


def name(chance: random.Random) -> str:
    return "".join(chance.choices(_LETTERS, k=chance.randint(1, 4)))


def group(chance: random.Random, *, identical: bool) -> Group:
    """Return a group of members with up to 12 streams of some topics each, one of which does not exist."""
    topics = sorted({f"t{name(chance)}" for _ in range(chance.randint(1, 5))})
    streams = {topic: chance.randint(1, 12) for topic in topics}
    if identical:
        streams = dict.fromkeys(topics, chance.randint(1, 12))
    members = {}
    for _ in range(chance.randint(1, 6)):
        some = topics if identical else chance.sample(topics, chance.randint(1, len(topics)))
        members[f"g_{name(chance)}"] = {topic: streams[topic] for topic in some}
    partitions = {topic: chance.randint(1, 40) for topic in topics}
    partitions[f"{topics[0]}-nobody-reads"] = 3
    if chance.random() < 0.2:
        del partitions[topics[0]]
    return Group(members, partitions)


@pytest.mark.parametrize("assignor", ZOOKEEPER_ASSIGNORS)
@pytest.mark.parametrize("identical", [True, False], ids=["same topics", "other topics"])
def test_rows_1_to_6_a_random_group_gets_the_partitions_that_scala_gives_it(
    oracle: Oracle, assignor: str, identical: bool
) -> None:
    chance = dice("zookeeper groups", assignor, identical)
    groups = [group(chance, identical=identical) for _ in range(_GROUPS)]
    theirs = oracle.ask([each.question(assignor) for each in groups])
    failed = 0
    for given, answer in zip(groups, theirs, strict=True):
        counts = {topic: range(count) for topic, count in given.partitions.items()}
        assigned = ZOOKEEPER_ASSIGNORS[assignor](given.threads, counts)
        ours = {f"{where.topic} {where.partition} {thread}" for where, thread in assigned.items()}
        if (
            oracle.version == "0.8.2.2"
            and assignor == "roundrobin"
            and not has_identical_threads(given.threads)
        ):
            assert answer == _FAILED, given
            failed += 1
        else:
            assert ours == set(filter(None, answer.split("\t"))), given
    assert (failed > 0) is (oracle.version == "0.8.2.2" and assignor == "roundrobin" and not identical)
