"""A ZooKeeper group under load on Kafka 0.8.2.2, while faults happen that a seed chooses.

``make faults-zookeeper SEED=7`` runs the long variant.
"""

from pathlib import Path

import pytest

from tests.run.seed import dice
from tests.servers.fixtures import NewName
from tests.servers.reaper import Reaper
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tests.system.zookeeper_soak import FAULTS, RESTART, Soak

pytestmark = pytest.mark.slow

_FAULTS = 60


def test_nothing_is_skipped_and_no_offset_goes_back_through_each_fault(
    oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    chance = dice("faults of ZooKeeper")
    with Soak(oldest_kafka, new_name(), new_name()) as soak:
        soak.wait_until_all_read()
        for fault in chance.sample(FAULTS, len(FAULTS)):
            soak.inflict(fault, chance.choice("abc"))
        soak.finish()
    assert list(soak.problems()) == []


@pytest.mark.long
def test_nothing_is_skipped_and_no_offset_goes_back_through_many_faults(
    new_name: NewName, tmp_path: Path
) -> None:
    chance = dice("many faults of ZooKeeper")
    reaper = Reaper()
    kafka = ZooKeeperKafka(tmp_path, reaper, "0.8.2.2")
    try:
        kafka.start()
        with Soak(kafka, new_name(), new_name()) as soak:
            soak.wait_until_all_read()
            for number in range(_FAULTS):
                fault, name = chance.choice((*FAULTS, RESTART)), chance.choice("abc")
                print(f"{number + 1}/{_FAULTS}: {fault.__name__} on member {name}", flush=True)
                soak.inflict(fault, name)
            soak.finish()
        assert list(soak.problems()) == []
    finally:
        kafka.stop()
        reaper.close()
