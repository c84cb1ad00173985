"""A group of Scala's console consumers is described as Kafka's own ConsumerOffsetChecker describes it."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pyklient import OffsetAndMetadata, Producer, TopicPartition
from pyklient.admin import Admin, GroupListing
from pyklient.consumer.owned_partitions import NOBODY
from tests.consumer.offsets.stores import open_store
from tests.servers.fixtures import NewName
from tests.servers.java import java_command
from tests.servers.process import wait_until
from tests.servers.zookeeper import connected
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_PARTITIONS = 4
_RECORDS = 10
_CONFIG = """\
group.id={group}
auto.commit.enable=false
rebalance.backoff.ms=300
rebalance.max.retries=40
zookeeper.session.timeout.ms=2000
"""


@contextmanager
def console_consumer(server: ZooKeeperKafka, config: Path, *topics: str) -> Iterator[None]:
    """Let Scala's console consumer be a member of the group in *config*. It is killed at the end."""
    main = "kafka.tools.ConsoleConsumer"
    arguments = ("--zookeeper", server.zookeeper_connect, "--consumer.config", str(config), *topics)
    with config.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            java_command(server.libs, main, *arguments, heap="64m"), stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.kill()
            process.wait(timeout=60)


def checked(server: ZooKeeperKafka, group: str, topic: str) -> dict[int, tuple[int, int, int, str]]:
    """Return what ConsumerOffsetChecker prints for each partition: offset, end, lag and owner."""
    main = "kafka.tools.ConsumerOffsetChecker"
    arguments = ("--zookeeper", server.zookeeper_connect, "--group", group, "--topic", topic)
    command = java_command(server.libs, main, *arguments, heap="64m")
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = [line.split() for line in said.splitlines() if line.startswith(group)]
    assert len(rows) == _PARTITIONS, said
    return {int(row[2]): (int(row[3]), int(row[4]), int(row[5]), row[6]) for row in rows}


@pytest.mark.java
def test_a_group_of_scala_consumers_is_described_as_kafkas_own_tool_describes_it(
    oldest_kafka: ZooKeeperKafka, new_name: NewName, tmp_path: Path
) -> None:
    topic, group = oldest_kafka.create_topic(new_name(), _PARTITIONS), new_name()
    partitions = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
    bootstrap = oldest_kafka.bootstrap_servers
    with Producer(bootstrap, enable_idempotence=False) as producer:
        for number in range(_RECORDS * _PARTITIONS):
            producer.send(topic, b"x", partition=number % _PARTITIONS)
    # An offset in ZooKeeper, one in Kafka, a larger one in Kafka, and the end of the log in ZooKeeper.
    in_zookeeper, in_kafka = {0: 3, 2: 4, 3: _RECORDS}, {1: 5, 2: 6}
    with connected(oldest_kafka.zookeeper_connect) as client:
        for number, offset in in_zookeeper.items():
            path = f"/consumers/{group}/offsets/{topic}/{number}"
            client.create(path, str(offset).encode(), makepath=True)
    with open_store(oldest_kafka, "kafka", group) as store:
        positions = {partitions[each]: OffsetAndMetadata(at) for each, at in in_kafka.items()}
        assert store.commit(positions, NOBODY, 60) == {}
    config = tmp_path / "consumer.properties"
    config.write_text(_CONFIG.format(group=group))
    with Admin(zookeeper=oldest_kafka.zookeeper_connect) as admin:
        with ExitStack() as members:
            members.enter_context(console_consumer(oldest_kafka, config, "--topic", topic))
            members.enter_context(console_consumer(oldest_kafka, config, "--whitelist", f"{topic}|none/.*"))
            wait_until(
                lambda: (
                    group in [each.group_id for each in admin.groups()]
                    and sorted(len(each.assignment) for each in admin.describe_zookeeper_group(group).members)
                    == [2, 2]
                ),
                60,
                "two partitions for each of two members",
            )
            expected = checked(oldest_kafka, group, topic)
            found = admin.describe_zookeeper_group(group)
            assert GroupListing(group, "consumer", "Stable", "zookeeper") in admin.groups()
        assert {
            tp.partition: (each.committed, each.end, each.lag, each.owner)
            for tp, each in found.partitions.items()
        } == expected
        assert [each.lag for each in found.partitions.values()] == [7, 5, 4, 0]
        assert [each.zookeeper_offset for each in found.partitions.values()] == [3, None, 4, _RECORDS]
        assert [each.kafka_offset for each in found.partitions.values()] == [None, 5, 6, None]
        assert [each.error for each in found.members] == [None] * 2
        assert [each.error for each in found.partitions.values()] == [None] * _PARTITIONS
        # The console consumer makes a filter of --topic too.
        assert {each.pattern for each in found.members} == {"white_list"}
        assert sorted(map(str, (each.subscription for each in found.members))) == [
            str({topic: 1}),
            str({f"{topic}|none/.*": 1}),
        ]
        assert all(
            each.host and each.consumer_id.startswith(f"{group}_{each.host}-") for each in found.members
        )
        wait_until(
            lambda: not admin.describe_zookeeper_group(group).members,
            30,
            "no member after its session has ended",
        )
        left = admin.describe_zookeeper_group(group)
        assert (left.state, list(left.partitions)) == ("Empty", partitions)
        assert [(each.owner, each.lag) for each in left.partitions.values()] == [
            (None, lag) for lag in (7, 5, 4, 0)
        ]
