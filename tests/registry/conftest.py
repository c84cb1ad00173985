"""Sessions with a real ZooKeeper."""

from collections.abc import Callable, Iterator

import pytest

from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.zookeeper import ZooKeeper
from tests.servers.zookeeper import new_chroot
from tests.servers.zookeeper_kafka import ZooKeeperKafka

NewSession = Callable[[], ZooKeeper]


@pytest.fixture
def address(zookeeper_kafka: ZooKeeperKafka) -> str:
    """An address of ZooKeeper with a chroot that only this test uses."""
    return new_chroot(zookeeper_kafka.zookeeper.hosts)


@pytest.fixture
def new_session(address: str) -> Iterator[NewSession]:
    """Makes sessions below the chroot of this test, and closes them after it."""
    made: list[ZooKeeper] = []

    def new_session() -> ZooKeeper:
        made.append(ZooKeeper(ZooKeeperSettings(address=address)))
        return made[-1]

    yield new_session
    for session in made:
        session.close()
