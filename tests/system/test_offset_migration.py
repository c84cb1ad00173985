"""A group of three that reads all the time moves its offsets from ZooKeeper to Kafka and back, member by
member, and leaves ZooKeeper altogether."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from operator import ge
from typing import Any, Final

import pytest

from pyklient import Admin, ClosedError, ConsumerConnector, Producer, TopicPartition
from pyklient.consumer.offsets.offset_store import OffsetStore
from tests.consumer.offsets.stores import open_store
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_PARTITIONS: Final = 6
_MEMBERS: Final = 3
_PAUSE: Final = 0.002

Options = Mapping[str, Any]

_QUICK: Final[Options] = {
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 50,
    "heartbeat_interval_ms": 100,
    "session_timeout_ms": 6_000,
    "rebalance_backoff_ms": 200,
    "rebalance_max_retries": 50,
}

_BEFORE: Final[Options] = {"offsets_storage": "zookeeper", "dual_commit_enabled": False}
_STEPS: Final[list[tuple[Options, frozenset[str]]]] = [
    ({"offsets_storage": "kafka", "dual_commit_enabled": True}, frozenset({"kafka", "zookeeper"})),
    ({"offsets_storage": "kafka", "dual_commit_enabled": False}, frozenset({"kafka"})),
    ({"offsets_storage": "zookeeper", "dual_commit_enabled": True}, frozenset({"kafka", "zookeeper"})),
    ({"offsets_storage": "zookeeper", "dual_commit_enabled": False}, frozenset({"zookeeper"})),
]
"""The documented procedure, there and back: the options of each step, with which the members are restarted
one after the other, and the stores that the group writes after the step."""


class Member:
    """A member of the group, with a thread that reads."""

    def __init__(self, topic: str, options: Options) -> None:
        self.seen: list[tuple[int, int]] = []
        self._topic = topic
        self._connector = ConsumerConnector(**options)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def leave(self) -> None:
        self._connector.close()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        with suppress(ClosedError):  # the member leaves before it has got its stream
            for message in self._connector.stream(self._topic):
                self.seen.append((message.partition, message.offset))


class Load:
    """A thread that writes to each partition in turn, until it is paused."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.ends = [0] * _PARTITIONS
        self._producer, self._topic = producer, topic
        self._running = threading.Event()
        self._idle = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def go_on(self) -> None:
        self._idle.clear()
        self._running.set()

    def pause(self) -> None:
        """Stop writing. Return when all records are stored."""
        self._running.clear()
        assert self._idle.wait(20)
        self._producer.flush()

    def write_more(self, count: int) -> None:
        """Write *count* records or more."""
        wanted = sum(self.ends) + count
        self.go_on()
        wait_until(lambda: sum(self.ends) >= wanted, 20, "more load")
        self.pause()

    def end(self) -> None:
        self._over = True
        self._running.set()
        self._thread.join(20)

    def _write(self) -> None:
        partition = 0
        while not self._over:
            if not self._running.is_set():
                self._idle.set()
                self._running.wait(1)
                continue
            partition = (partition + 1) % _PARTITIONS
            self._producer.send(self._topic, b"x", partition=partition)
            self.ends[partition] += 1
            time.sleep(_PAUSE)


class Watch:
    """A thread that looks at both stores all the time, and notes where an offset goes back."""

    def __init__(self, stores: Mapping[str, OffsetStore], topic: str) -> None:
        self.went_back: list[object] = []
        self.looks = 0
        self._stores = stores
        self._partitions = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
        self._last = {name: [0] * _PARTITIONS for name in stores}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def offsets(self, name: str) -> list[int]:
        """Return the offset of each partition in the store *name*, 0 where it has none."""
        found = self._stores[name].fetch(self._partitions, 20.0)
        return [0 if (at := found[each]) is None else at.offset for each in self._partitions]

    def wait_at(self, name: str, ends: list[int]) -> None:
        """Return when the offsets in the store *name* are *ends*."""
        wait_until(lambda: self.offsets(name) == ends, 20, f"{ends} in {name}")

    def end(self) -> None:
        self._over.set()
        self._thread.join(20)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            for name in self._stores:
                found = self.offsets(name)
                back = [pair for pair in zip(self._last[name], found, strict=True) if pair[1] < pair[0]]
                self.went_back += [(name, *pair) for pair in back]
                self._last[name] = found
            self.looks += 1


@contextmanager
def watched(broker: ZooKeeperKafka, group: str, topic: str) -> Iterator[Watch]:
    with ExitStack() as stack:
        kinds = ("kafka", "zookeeper")
        watch = Watch({kind: stack.enter_context(open_store(broker, kind, group)) for kind in kinds}, topic)
        stack.callback(watch.end)
        yield watch


@contextmanager
def loaded(broker: ZooKeeperKafka, topic: str) -> Iterator[Load]:
    with Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        load = Load(producer, topic)
        try:
            yield load
        finally:
            load.end()


@pytest.mark.slow
@pytest.mark.parametrize("coordination", ["kafka", "zookeeper"])
def test_a_group_moves_its_offsets_to_kafka_and_back_without_one_of_them_going_back(
    coordination: str, zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    topic, group = zookeeper_kafka.create_topic(new_name(), _PARTITIONS), new_name()
    common = {
        "bootstrap_servers": zookeeper_kafka.bootstrap_servers,
        "zookeeper": zookeeper_kafka.zookeeper_connect,
        "group_id": group,
        "coordination": coordination,
        **_QUICK,
    }
    everyone: list[Member] = []

    def start(options: Options) -> Member:
        everyone.append(Member(topic, {**common, **options}))
        return everyone[-1]

    with loaded(zookeeper_kafka, topic) as load, watched(zookeeper_kafka, group, topic) as watch:
        members = [start(_BEFORE) for _ in range(_MEMBERS)]
        try:
            load.go_on()
            wait_until(lambda: min(watch.offsets("zookeeper")) > 0, 20, "the first commits")
            assert watch.offsets("kafka") == [0] * _PARTITIONS
            for options, written in _STEPS:
                for number, member in enumerate(members):
                    member.leave()
                    members[number] = start(options)
                load.pause()
                wait_until(lambda: seen(everyone) >= sum(load.ends), 20, "all records read")
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
    topic, group = zookeeper_kafka.create_topic(new_name(), _PARTITIONS), new_name()
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
        everyone.append(Member(topic, {**_QUICK, "group_id": group, **options}))
        return everyone[-1]

    with (
        loaded(zookeeper_kafka, topic) as load,
        watched(zookeeper_kafka, group, topic) as watch,
        Admin(zookeeper=zookeeper_kafka.zookeeper_connect) as admin,
    ):
        members = [start(old) for _ in range(_MEMBERS)]
        try:
            load.go_on()
            wait_until(lambda: min(watch.offsets("zookeeper")) > 0, 20, "the first commits")
            for options in steps:
                for number, member in enumerate(members):
                    member.leave()
                    members[number] = start(options)
                    wait_until(partial(have_seen, everyone, seen(everyone) + 200), 20, "more messages")
                wait_until(partial(are_all, admin, group, options["coordination"]), 20, "all members")
                wait_until(partial(have_passed, watch, list(load.ends)), 20, "more commits")
            assert count(admin, group, "zookeeper") == 0
        finally:
            load.pause()
            wait_until(lambda: seen(everyone) >= sum(load.ends), 20, "all records read")
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


def seen(members: list[Member]) -> int:
    """Return how many messages *members* have seen."""
    return sum(len(member.seen) for member in members)
