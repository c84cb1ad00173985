"""Members of ZooKeeper groups whose process forks, and members that ZooKeeper does not answer."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.errors import KafkaError
from tests.consumer.feed import wait_for
from tests.consumer.group.zookeeper.planted import PlantedCluster
from tests.servers.process import wait_until
from tests.servers.stalling_proxy import StallingProxy
from tests.system.members import Member

FORKS = """
import os, sys
from pyklient import ConsumerConnector
from pyklient.errors import ForkError

bootstrap, zookeeper, topic = sys.argv[1:]
connector = ConsumerConnector(
    bootstrap, zookeeper=zookeeper, coordination="zookeeper", group_id="g", consumer_id="c",
    auto_offset_reset="earliest", zookeeper_session_timeout_ms=1000, consumer_timeout_ms=20_000,
)
loop = iter(connector.stream(topic))
next(loop)
child = os.fork()
if child == 0:
    try:
        connector.commit_offsets()
    except ForkError:
        connector.close()
        sys.exit(7)
    sys.exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
sys.stdin.readline()
print(next(loop).value.decode(), flush=True)
connector.close()
"""


@pytest.fixture
def proxy(cluster: PlantedCluster) -> Iterator[StallingProxy]:
    with StallingProxy(cluster.address.partition("/")[0]) as proxy:
        yield proxy


def through(cluster: PlantedCluster, proxy: StallingProxy) -> str:
    return f"{proxy.address}/{cluster.address.partition('/')[2]}"


def test_the_session_stays_with_the_parent_of_a_fork(cluster: PlantedCluster) -> None:
    topic = cluster.topic(1, "a")
    command = [sys.executable, "-c", FORKS, cluster.feed.bootstrap_servers, cluster.address, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "7\n"
        _, stat = cluster.nodes.get(f"/consumers/g/owners/{topic}/0")
        time.sleep(1.5)  # longer than the session time-out
        assert cluster.nodes.get(f"/consumers/g/owners/{topic}/0")[1] == stat
        cluster.feed.send(topic, ["b"])
        out, _ = program.communicate("go on\n", timeout=60)
        assert out == "b\n"
        assert program.returncode == 0
    assert cluster.offsets("g", topic) == {0: 2}
    assert cluster.members("g") == []


def test_zookeeper_that_accepts_connections_and_says_nothing_is_an_error_in_time(
    cluster: PlantedCluster, proxy: StallingProxy
) -> None:
    proxy.stall()
    times = {"zookeeper_session_timeout_ms": 500, "zookeeper_connection_timeout_ms": 500}
    connector = cluster.connect("g", "c", zookeeper=through(cluster, proxy), **times)
    began = time.monotonic()
    with pytest.raises(KafkaError, match=f"ZooKeeper at {proxy.address} could not be reached within 0.5 s"):
        connector.stream("t")
    assert time.monotonic() - began < 20
    assert cluster.members("g") == []


@pytest.mark.parametrize("away", ["refuse", "stall"])
def test_a_process_needs_less_than_one_percent_of_a_core_while_zookeeper_is_away(
    cluster: PlantedCluster, proxy: StallingProxy, away: str
) -> None:
    topic = cluster.topic(1, "a")
    with Member(
        cluster.feed.bootstrap_servers,
        "g",
        [topic],
        zookeeper=through(cluster, proxy),
        coordination="zookeeper",
        consumer_id="c",
        zookeeper_session_timeout_ms=1000,
        fetch_max_wait_ms=2000,
    ) as member:
        member.wait_messages(1)
        getattr(proxy, away)()
        wait_for(lambda: "the connection is lost" in member.log, "the loss")
        # A busy machine may make some seconds expensive, but a loop without pauses makes all of them so.
        used = [spent_during(member.pid, 3)]
        while min(used) >= 0.03:
            assert len(used) < 6, used
            used.append(spent_during(member.pid, 3))
        proxy.resume()
        wait_until(lambda: "the outage is over" in member.log, 60, "a connection")
        cluster.feed.send(topic, ["b"])
        member.wait_messages(2)
        member.leave()
    assert cluster.offsets("g", topic) == {0: 2}


def spent_during(pid: int, seconds: float) -> float:
    """Return the processor time that the process *pid* uses in the next *seconds*."""
    before = spent(pid)
    time.sleep(seconds)
    return spent(pid) - before


def spent(pid: int) -> float:
    """Return the seconds of processor time that the process *pid* has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
