"""Every example with ZooKeeper is a program that succeeds on a real broker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.pool import ServerPool
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tools.repository import ROOT

_EXAMPLES = sorted((ROOT / "examples" / "zookeeper").glob("*.py"))


_NEEDED = {
    "consumer_of_0_10": 2,
    "consumer_of_0_7": 2,
    "consumer_of_0_8": 2,
    "find_brokers": 1,
    "offsets_to_kafka": 4,
    "zookeeper_group": 6,
}
"""The number of partitions of the topic that each example needs, as its docstring says."""


@pytest.mark.java
@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_with_zookeeper_runs_and_says_so(
    example: Path, zookeeper_kafka: ZooKeeperKafka, tmp_path: Path
) -> None:
    assert succeeds(example, tmp_path, zookeeper_kafka.zookeeper_connect) == []


@pytest.mark.uses("kafka-0.8.2.2")
@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_on_a_broker_that_cannot_create_topics(
    example: Path, servers: ServerPool, tmp_path: Path
) -> None:
    server = servers.get("kafka-0.8.2.2")
    assert isinstance(server, ZooKeeperKafka)
    topic = server.create_topic(f"example-{example.stem}", _NEEDED[example.stem])
    warnings = succeeds(example, tmp_path, server.zookeeper_connect, topic)
    assert [each.split(",")[0].split(" and ")[0] for each in warnings] == [
        "broker 0 is older than Kafka 0.10",
        "idempotence is off",
    ]


def succeeds(example: Path, directory: Path, *arguments: str) -> list[str]:
    """Run *example*, which must print a last line that begins with "ok:". Return its warnings."""
    done = subprocess.run(
        [sys.executable, str(example), *arguments],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("ok:")
    return done.stderr.splitlines()
