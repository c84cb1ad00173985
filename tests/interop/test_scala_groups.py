"""Groups in ZooKeeper with members of pyklient and of Scala's high-level consumer."""

import random

import pytest

from pyklient import Admin
from tests.interop.mixed_group import EVENTS, MixedGroup
from tests.run.seed import dice
from tests.servers.fixtures import NewName, StartReference
from tests.servers.zookeeper import new_chroot
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.slow

_PARTITIONS = 8


_REMOVALS = pytest.mark.parametrize(
    "removals",
    [pytest.param(3, id="six events"), pytest.param(15, id="thirty events", marks=pytest.mark.long)],
)


def go_through(group: MixedGroup, removals: int, chance: random.Random) -> None:
    """Let two members of each kind join, then remove and replace so many of them."""
    for kind in ("pyklient", "scala", "pyklient", "scala"):
        group.start(kind)
    group.check()
    order = chance.sample(EVENTS, len(EVENTS)) * removals
    for event in order[:removals]:
        group.remove(event)
        group.join(event.split()[1])
    group.finish()


@_REMOVALS
@pytest.mark.parametrize("assignor", ["range", pytest.param("roundrobin", marks=pytest.mark.long)])
def test_a_group_of_pyklient_and_scala_skips_and_repeats_nothing(
    oldest_kafka: ZooKeeperKafka, new_name: NewName, assignor: str, removals: int
) -> None:
    topic = oldest_kafka.create_topic(new_name(), _PARTITIONS)
    where = oldest_kafka.bootstrap_servers, oldest_kafka.zookeeper_connect, new_name(), topic, _PARTITIONS
    chance = dice("mixed group", assignor, removals)
    with MixedGroup(*where, chance, assignor) as group:
        go_through(group, removals, chance)


@_REMOVALS
def test_a_group_of_pyklient_and_scala_on_the_reference_broker_skips_and_repeats_nothing(
    oldest_kafka: ZooKeeperKafka, start_reference: StartReference, new_name: NewName, removals: int
) -> None:
    address = new_chroot(oldest_kafka.zookeeper.hosts)
    broker = start_reference(zookeeper=address)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic := new_name(), _PARTITIONS)
    chance = dice("mixed group on the reference broker", removals)
    with MixedGroup(broker.bootstrap_servers, address, new_name(), topic, _PARTITIONS, chance) as group:
        go_through(group, removals, chance)
