"""A planted cluster in a real ZooKeeper."""

from collections.abc import Iterator

import pytest

from tests.consumer.feed import Feed
from tests.consumer.group.zookeeper.planted import PlantedCluster
from tests.servers.zookeeper import new_chroot
from tests.servers.zookeeper_kafka import ZooKeeperKafka


@pytest.fixture
def cluster(zookeeper_kafka: ZooKeeperKafka, feed: Feed) -> Iterator[PlantedCluster]:
    """A cluster of one broker below a chroot that only this test uses."""
    with PlantedCluster(new_chroot(zookeeper_kafka.zookeeper.hosts), feed) as cluster:
        cluster.add_broker()
        yield cluster
