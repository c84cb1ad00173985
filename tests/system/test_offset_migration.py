"""A group of three that reads all the time moves its offsets from ZooKeeper to Kafka and back, member by
member, and leaves ZooKeeper altogether."""

from collections import Counter
from functools import partial
from operator import ge
from typing import Final

import pytest

from pyklient import Admin
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tests.system.moving_offsets import PARTITIONS, QUICK, Member, Options, Watch, loaded, seen, watched

_MEMBERS: Final = 3

_BEFORE: Final[Options] = {"offsets_storage": "zookeeper", "dual_commit_enabled": False}
_STEPS: Final[list[tuple[Options, frozenset[str]]]] = [
    ({"offsets_storage": "kafka", "dual_commit_enabled": True}, frozenset({"kafka", "zookeeper"})),
    ({"offsets_storage": "kafka", "dual_commit_enabled": False}, frozenset({"kafka"})),
    ({"offsets_storage": "zookeeper", "dual_commit_enabled": True}, frozenset({"kafka", "zookeeper"})),
    ({"offsets_storage": "zookeeper", "dual_commit_enabled": False}, frozenset({"zookeeper"})),
]
"""The documented procedure, there and back: the options of each step, with which the members are restarted
one after the other, and the stores that the group writes after the step."""


@pytest.mark.slow
@pytest.mark.parametrize("coordination", ["kafka", "zookeeper"])
def test_a_group_moves_its_offsets_to_kafka_and_back_without_one_of_them_going_back(
    coordination: str, zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    topic, group = zookeeper_kafka.create_topic(new_name(), PARTITIONS), new_name()
    common = {
        "bootstrap_servers": zookeeper_kafka.bootstrap_servers,
        "zookeeper": zookeeper_kafka.zookeeper_connect,
        "group_id": group,
        "coordination": coordination,
        **QUICK,
    }
    everyone: list[Member] = []

    def start(options: Options) -> Member:
        everyone.append(Member(topic, {**common, **options}))
        return everyone[-1]

    with loaded(zookeeper_kafka, topic) as load, watched(zookeeper_kafka, group, topic) as watch:
        members = [start(_BEFORE) for _ in range(_MEMBERS)]
        try:
            load.go_on()
            wait_until(lambda: min(watch.offsets("zookeeper")) > 0, 60, "the first commits")
            assert watch.offsets("kafka") == [0] * PARTITIONS
            for options, written in _STEPS:
                for number, member in enumerate(members):
                    member.leave()
                    members[number] = start(options)
                load.pause()
                wait_until(lambda: seen(everyone) >= sum(load.ends), 60, "all records read")
                left_alone = {
                    name: watch.offsets(name) for name in ("kafka", "zookeeper") if name not in written
                }
                load.write_more(50)
                for name in written:
                    watch.wait_at(name, load.ends)
                for name, offsets in left_alone.items():
                    assert watch.offsets(name) == offsets, f"{name} is not written any more"
                load.go_on()
        finally:
            load.pause()
            for member in members:
                member.leave()
    handed = Counter(where for member in everyone for where in member.seen)
    assert handed == Counter(
        (number, offset) for number, end in enumerate(load.ends) for offset in range(end)
    )
    assert watch.went_back == []
    assert watch.looks > 20


@pytest.mark.slow
def test_a_group_leaves_zookeeper_as_documented_and_reads_each_record_once(
    zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    topic, group = zookeeper_kafka.create_topic(new_name(), PARTITIONS), new_name()
    brokers = {"bootstrap_servers": zookeeper_kafka.bootstrap_servers}
    zookeeper = {"zookeeper": zookeeper_kafka.zookeeper_connect}
    old = {"coordination": "zookeeper", **zookeeper}
    steps: list[Options] = [
        {**old, "offsets_storage": "kafka"},
        {**old, "offsets_storage": "kafka", "dual_commit_enabled": False},
        {**brokers, "coordination": "kafka", **zookeeper},
        {**brokers, "coordination": "kafka"},
    ]
    everyone: list[Member] = []

    def start(options: Options) -> Member:
        everyone.append(Member(topic, {**QUICK, "group_id": group, **options}))
        return everyone[-1]

    with (
        loaded(zookeeper_kafka, topic) as load,
        watched(zookeeper_kafka, group, topic) as watch,
        Admin(zookeeper=zookeeper_kafka.zookeeper_connect) as admin,
    ):
        members = [start(old) for _ in range(_MEMBERS)]
        try:
            load.go_on()
            wait_until(lambda: min(watch.offsets("zookeeper")) > 0, 60, "the first commits")
            for options in steps:
                for number, member in enumerate(members):
                    member.leave()
                    members[number] = start(options)
                    wait_until(partial(have_seen, everyone, seen(everyone) + 200), 60, "more messages")
                wait_until(partial(are_all, admin, group, options["coordination"]), 60, "all members")
                wait_until(partial(have_passed, watch, list(load.ends)), 60, "more commits")
            assert count(admin, group, "zookeeper") == 0
        finally:
            load.pause()
            wait_until(lambda: seen(everyone) >= sum(load.ends), 60, "all records read")
            for member in members:
                member.leave()
        assert watch.offsets("kafka") == load.ends
    handed = Counter(where for member in everyone for where in member.seen)
    assert handed == Counter(
        (number, offset) for number, end in enumerate(load.ends) for offset in range(end)
    )
    assert watch.went_back == []


def have_seen(members: list[Member], wanted: int) -> bool:
    return seen(members) >= wanted


def are_all(admin: Admin, group: str, coordination: str) -> bool:
    return count(admin, group, coordination) == _MEMBERS


def have_passed(watch: Watch, ends: list[int]) -> bool:
    return all(map(ge, watch.offsets("kafka"), ends))


def count(admin: Admin, group: str, coordination: str) -> int:
    """Return the number of members of *group* that are coordinated so."""
    if coordination == "kafka":
        return len(admin.describe_group(group).members)
    found = [each.group_id for each in admin.groups(coordination="zookeeper")]
    return len(admin.describe_zookeeper_group(group).members) if group in found else 0
