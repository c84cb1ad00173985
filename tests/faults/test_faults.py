"""Ten faults during each of the two runs; ``make faults`` injects a hundred."""

import itertools

import pytest

from pyklient import Producer
from tests.run.seed import seed as run_seed
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tests.system.reading import connector
from tools.faults.group import CommitWatch, skipped
from tools.faults.producing import order_problems, produce_through_faults
from tools.faults.reading import read_through_faults

_FAULTS = 10


@pytest.fixture
def seed() -> int:
    """The seed of the faults."""
    return run_seed()


@pytest.mark.slow
def test_an_idempotent_producer_loses_doubles_and_reorders_nothing_through_faults(
    kafka_cluster: KraftCluster, new_name: NewName, seed: int
) -> None:
    bootstrap = kafka_cluster.bootstrap_servers
    problems = produce_through_faults(bootstrap, new_name(), seed=seed, faults=_FAULTS, say=print)
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_a_group_skips_nothing_through_faults_and_rebalances(
    kafka_cluster: KraftCluster, new_name: NewName, seed: int
) -> None:
    bootstrap = kafka_cluster.bootstrap_servers
    problems = read_through_faults(bootstrap, new_name(), seed=seed, faults=_FAULTS, say=print)
    assert not problems, "\n".join(problems)


def test_what_is_lost_doubled_or_out_of_order_is_seen() -> None:
    assert order_problems({0: 3, 1: 2}, {0: [0, 1, 2], 1: [0, 1]}) == []
    assert order_problems({0: 3}, {0: [0, 2]}) == ["partition 0: 1 of 3 records are lost, first 1"]
    assert order_problems({4: 2}, {}) == ["partition 4: 2 of 2 records are lost, first 0"]
    assert order_problems({0: 2}, {0: [0, 1, 0]}) == ["partition 0: 1 records are stored more than once"]
    assert order_problems({0: 3}, {0: [0, 2, 1]}) == ["partition 0: 1 records are out of order, first 1"]


def test_what_was_not_handed_out_is_seen() -> None:
    stored = {(0, 0), (0, 1), (1, 0)}
    assert skipped(stored, [(1, 0), (0, 1), (0, 0), (0, 1)]) == []
    assert skipped(stored, [(0, 0)]) == [
        "partition 0: 1 records were not handed out, first 1",
        "partition 1: 1 records were not handed out, first 0",
    ]


def test_a_commit_that_passes_over_a_record_is_seen(
    reference_broker: ReferenceBroker, new_name: NewName
) -> None:
    bootstrap = reference_broker.bootstrap_servers
    topic, group = create_topic(bootstrap, new_name()), new_name()
    with Producer(bootstrap) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number)
    handed_out: list[tuple[int, int]] = []
    watch = CommitWatch(bootstrap, group, handed_out)
    with connector(bootstrap, group, enable_auto_commit=False) as reader:
        messages = list(itertools.islice(reader.stream(topic), 3))
        handed_out += [(message.partition, message.offset) for message in messages if message.offset != 1]
        reader.commit_offsets()
    watch.stop()
    assert watch.problems[-1] == "partition 0: 3 is committed, and 1 has not been handed out"
