"""A member with many partitions, whose requests to ZooKeeper and the answers are under way for some time."""

import time

from tests.consumer.feed import wait_for
from tests.consumer.group.test_groups import Reader
from tests.consumer.group.zookeeper.planted import PlantedCluster
from tests.servers.delaying import DelayingProxy

PARTITIONS = 200
ROUND_TRIP = 0.1
ONE_BY_ONE = PARTITIONS * ROUND_TRIP
"""The seconds for one request for each partition, if each request waited for the answer to the one before."""


def test_a_member_joins_commits_and_leaves_in_few_round_trips(cluster: PlantedCluster) -> None:
    topic = cluster.topic(PARTITIONS, "a")
    hosts, _, chroot = cluster.address.partition("/")
    with DelayingProxy(hosts, ROUND_TRIP) as proxy:
        connector = cluster.connect(
            "g", "a", zookeeper=f"{proxy.address}/{chroot}", auto_commit_interval_ms=100
        )
        began = time.monotonic()
        reader = Reader(connector.stream(topic))
        assert time.monotonic() - began < ONE_BY_ONE
        assert len(cluster.owners("g", topic)) == PARTITIONS
        began = time.monotonic()
        wait_for(
            lambda: len(cluster.offsets("g", topic)) == PARTITIONS, "an automatic commit of all partitions"
        )
        assert time.monotonic() - began < ONE_BY_ONE
        began = time.monotonic()
        connector.close()
        assert time.monotonic() - began < ONE_BY_ONE
        reader.join()
    assert cluster.offsets("g", topic) == {0: 1, **dict.fromkeys(range(1, PARTITIONS), 0)}
    assert cluster.owners("g", topic) == {}
