"""Both isolation levels on logs with random transactions, compared with Java's consumer and librdkafka."""

import random

import pytest

from pyklient import TopicPartition, read
from pyklient.argument_checks import ISOLATION_LEVELS, IsolationLevel
from tests.interop.transactional_logs import FORMS, RandomLog, javas, librdkafkas
from tests.oracles.process import Oracle
from tests.run.seed import dice
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.pool import ServerPool
from tests.servers.topics import await_transaction_ends
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_SMALL, _LARGE = 300, 1 << 20
_OLDER = ("0.11.0.3", "2.8.2", "3.9.1")


def check_all_forms(bootstrap: str, topic: str, oracle: Oracle, rng: random.Random, starts: int) -> None:
    """Compare every way to read with pyklient with the other clients, from the start of the log and from some
    further offsets."""
    ends = {level: end_of(bootstrap, topic, level) for level in ISOLATION_LEVELS}
    for level, end in ends.items():
        for start in (0, *(rng.randrange(1, end) for _ in range(starts))):
            size = rng.choice((_SMALL, _LARGE))
            expected = javas(oracle, bootstrap, topic, start, level, size)
            assert librdkafkas(bootstrap, topic, start, level) == expected
            for name, form in FORMS.items():
                options = {"isolation_level": level, "max_partition_fetch_bytes": size}
                found = form(bootstrap, TopicPartition(topic, 0), start, end, **options)
                assert found == expected, f"{name}, {level}, from {start}, {size} bytes"


def end_of(bootstrap: str, topic: str, level: IsolationLevel) -> int:
    """Return the offset at which a read with the isolation level *level* ends."""
    bounds = read(bootstrap, topic, isolation_level=level).bounds
    return bounds[TopicPartition(topic, 0)][1]


def check_log(bootstrap: str, topic: str, kafka: str, *, steps: int, starts: int) -> None:
    """Write a log with random transactions, and check it with an open transaction and without."""
    rng = dice(kafka)
    log = RandomLog(bootstrap, topic, rng)
    for _ in range(steps):
        log.step()
    log.leave_open()
    with Oracle(kafka, "ConsumerOracle.java") as oracle:
        assert end_of(bootstrap, topic, "read_committed") < end_of(bootstrap, topic, "read_uncommitted")
        check_all_forms(bootstrap, topic, oracle, rng, starts)
        log.end()
        await_transaction_ends(bootstrap, topic)
        assert end_of(bootstrap, topic, "read_committed") == end_of(bootstrap, topic, "read_uncommitted")
        check_all_forms(bootstrap, topic, oracle, rng, starts - 1)


@pytest.mark.brokers(min="4.3", needs=["transactions"], real=True)
@pytest.mark.both_kernels
def test_random_transactions_are_read_as_other_clients_read_them(bootstrap: str, new_topic: NewTopic) -> None:
    check_log(bootstrap, new_topic(), "4.3.1", steps=60, starts=1)


@pytest.mark.long
@pytest.mark.parametrize(
    "kafka", [pytest.param(each, marks=pytest.mark.uses(f"kafka-{each}")) for each in _OLDER]
)
def test_random_transactions_of_older_brokers_are_read_as_other_clients_read_them(
    servers: ServerPool, new_name: NewName, kafka: str
) -> None:
    server = servers.get_as(ZooKeeperKafka, f"kafka-{kafka}")
    check_log(server.bootstrap_servers, server.create_topic(new_name()), kafka, steps=200, starts=3)
