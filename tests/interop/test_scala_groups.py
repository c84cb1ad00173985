"""Groups in ZooKeeper with members of pyklient and of Scala's high-level consumer."""

import pytest

from tests.interop.mixed_group import EVENTS, MixedGroup
from tests.run.seed import dice
from tests.servers.fixtures import NewName
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.slow

_PARTITIONS = 8


def mixed_group(kafka: ZooKeeperKafka, name: NewName, seed: str, assignor: str = "range") -> MixedGroup:
    topic = kafka.create_topic(name(), _PARTITIONS)
    return MixedGroup(
        kafka.bootstrap_servers,
        kafka.zookeeper_connect,
        name(),
        topic,
        _PARTITIONS,
        dice(seed),
        assignor,
    )


def go_through(group: MixedGroup, removals: int, seed: str) -> None:
    """Let two members of each kind join, then remove and replace so many of them."""
    chance = dice(seed)
    for kind in ("pyklient", "scala", "pyklient", "scala"):
        group.start(kind)
    group.check()
    order = chance.sample(EVENTS, len(EVENTS)) * removals
    for event in order[:removals]:
        group.remove(event)
        group.join(event.split()[1])
    group.finish()


def test_six_events_in_a_group_of_pyklient_and_scala_skip_and_repeat_nothing(
    oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    with mixed_group(oldest_kafka, new_name, "six events") as group:
        go_through(group, 3, "six events")


@pytest.mark.long
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_thirty_events_in_a_group_of_pyklient_and_scala_skip_and_repeat_nothing(
    oldest_kafka: ZooKeeperKafka, new_name: NewName, assignor: str
) -> None:
    with mixed_group(oldest_kafka, new_name, f"thirty events, {assignor}", assignor) as group:
        go_through(group, 15, f"thirty events, {assignor}")
