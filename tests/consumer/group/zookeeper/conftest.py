"""A planted cluster in a real ZooKeeper."""

import uuid
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.consumer.feed import Feed
from tests.consumer.group.zookeeper.planted import PlantedCluster
from tests.servers.zookeeper_kafka import ZooKeeperKafka


@pytest.fixture
def cluster(zookeeper_kafka: ZooKeeperKafka, feed: Feed) -> Iterator[PlantedCluster]:
    """A cluster of one broker below a chroot that only this test uses."""
    chroot = f"/{uuid.uuid4().hex}"
    root = KazooClient(zookeeper_kafka.zookeeper.hosts)
    root.start()
    root.create(chroot)
    root.stop()
    root.close()
    with PlantedCluster(f"{zookeeper_kafka.zookeeper.hosts}{chroot}", feed) as cluster:
        cluster.add_broker()
        yield cluster
