"""The committed offsets of a group that reads all the time are copied from ZooKeeper to Kafka, where the
group then goes on, and from Kafka to ZooKeeper."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from operator import le
from typing import Final, Literal

import pytest

from pyklient import Admin, BrokerError
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tests.system.moving_offsets import PARTITIONS, QUICK, Member, Options, loaded, seen, watched

_MEMBERS: Final = 2
_SECONDS_BETWEEN_COPIES: Final = 0.02


@contextmanager
def copied(admin: Admin, group: str, to: Literal["kafka", "zookeeper"]) -> Iterator[None]:
    """Copy the offsets of *group* again and again, as ``pyklient offsets copy --follow`` does."""
    over = threading.Event()
    failures: list[Exception] = []

    def copy() -> None:
        try:
            while not over.wait(_SECONDS_BETWEEN_COPIES):
                admin.copy_offsets(group, to, execute=True)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
    assert failures == []


@pytest.mark.java
def test_offsets_are_copied_while_a_group_runs_and_it_goes_on_at_the_copies(
    old_and_new_zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    server = old_and_new_zookeeper_kafka
    topic, group = server.create_topic(new_name(), PARTITIONS), new_name()
    brokers = {"bootstrap_servers": server.bootstrap_servers}
    in_zookeeper: Options = {"coordination": "zookeeper", "zookeeper": server.zookeeper_connect}
    groups_in_kafka = server.version >= (0, 9)
    in_kafka: Options = (
        {"coordination": "kafka", **brokers}
        if groups_in_kafka
        else {**in_zookeeper, "offsets_storage": "kafka", "dual_commit_enabled": False}
    )
    everyone: list[Member] = []

    def start(options: Options) -> list[Member]:
        members = [Member(topic, {**QUICK, "group_id": group, **options}) for _ in range(_MEMBERS)]
        everyone.extend(members)
        return members

    with (
        loaded(server, topic) as load,
        watched(server, group, topic) as watch,
        Admin(zookeeper=server.zookeeper_connect) as admin,
    ):
        members = start(in_zookeeper)
        try:
            load.go_on()
            wait_until(lambda: min(watch.offsets("zookeeper")) > 0, 60, "the first commits")
            with copied(admin, group, "kafka"):
                wait_until(lambda: min(watch.offsets("kafka")) > 0, 60, "the first copies")
                for _ in range(10):
                    in_kafka_now = watch.offsets("kafka")
                    assert all(map(le, in_kafka_now, watch.offsets("zookeeper"))), "a copy is never ahead"
                load.pause()
                for storage in ("zookeeper", "kafka"):
                    watch.wait_at(storage, load.ends)
                load.go_on()
            with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
                admin.reset_offsets(group, "earliest", execute=True)
            for member in members:
                member.leave()
            admin.copy_offsets(group, "kafka", execute=True)
            assert watch.offsets("kafka") == watch.offsets("zookeeper")

            before = seen(everyone)
            members = start(in_kafka)
            wait_until(lambda: seen(everyone) > before + 200, 60, "more messages")
            if groups_in_kafka:
                with pytest.raises(BrokerError, match="because a broker coordinates its members"):
                    admin.copy_offsets(group, "kafka", execute=True)
            with copied(admin, group, "zookeeper"):
                wanted = sum(watch.offsets("zookeeper")) + 1
                wait_until(lambda: sum(watch.offsets("zookeeper")) >= wanted, 60, "more copies")
                for _ in range(10):
                    in_zookeeper_now = watch.offsets("zookeeper")
                    assert all(map(le, in_zookeeper_now, watch.offsets("kafka"))), "a copy is never ahead"
                load.pause()
                for storage in ("kafka", "zookeeper"):
                    watch.wait_at(storage, load.ends)
        finally:
            load.pause()
            for member in members:
                member.leave()
    handed = Counter(where for member in everyone for where in member.seen)
    assert handed == Counter(
        (number, offset) for number, end in enumerate(load.ends) for offset in range(end)
    )
    assert watch.went_back == []
