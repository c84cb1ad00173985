"""Three real brokers: leaders and coordinators that are killed while records flow through them."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pyklient import (
    Admin,
    ConsumerConnector,
    Delivery,
    KafkaError,
    Message,
    Producer,
)
from tests.servers.fixtures import NewName
from tests.servers.groups import coordinator
from tests.servers.kafka import KraftCluster
from tests.servers.process import wait_until
from tests.servers.topics import create_replicated_topic, create_topic, leaders
from tests.system.reading import connector, wait_assigned

_PARTITIONS = 6


@pytest.fixture
def three(kafka_cluster: KraftCluster) -> Iterator[KraftCluster]:
    """The cluster with all its brokers, and so it is left."""
    yield kafka_cluster
    for node, process in kafka_cluster.processes.items():
        if not process.running:
            kafka_cluster.restart(node)


class Flow:
    """Numbered records per key, produced without pause until told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.deliveries: dict[bytes, list[Delivery]] = {b"key-%d" % number: [] for number in range(20)}
        self._topic = topic
        self._stop = threading.Event()
        self._producer = Producer(bootstrap, batch_size=4_000, reconnect_backoff_max_ms=200)
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(len(deliveries) for deliveries in self.deliveries.values())

    def more(self, records: int) -> None:
        """Return once *records* more have been sent and confirmed."""
        target = [deliveries[-1] for deliveries in self.deliveries.values() if deliveries]
        goal = self.count + records
        wait_until(
            lambda: self.count >= goal and all(item.done() for item in target), 60, f"{records} more records"
        )

    def stop(self) -> None:
        """Send no more; all is confirmed when this returns."""
        self._stop.set()
        self._thread.join(60)
        self._producer.flush(timeout=60)
        self._producer.close()

    def _produce(self) -> None:
        for number in itertools.count():
            for key, deliveries in self.deliveries.items():
                deliveries.append(self._producer.send(self._topic, b"%d" % number, key=key))
            if self._stop.is_set():
                return
            time.sleep(0.001)


class Reading:
    """Members of one group, each in a thread, that note what they are handed."""

    def __init__(self, bootstrap: str, group: str, topic: str, members: int) -> None:
        self.messages: list[Message] = []
        self.errors: list[BaseException] = []
        self._connectors = [
            connector(bootstrap, group, client_id=f"member-{number}", auto_commit_interval_ms=200)
            for number in range(members)
        ]
        self._threads = [
            threading.Thread(target=self._read, args=(member, topic), daemon=True)
            for member in self._connectors
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, member: ConsumerConnector, topic: str) -> None:
        try:
            for message in member.stream(topic):
                self.messages.append(message)
        except KafkaError as error:
            self.errors.append(error)

    def distinct(self) -> dict[tuple[int, int], Message]:
        """The messages that were handed out, by partition and offset."""
        return {(message.partition, message.offset): message for message in list(self.messages)}

    def stop(self) -> None:
        for member in self._connectors:
            member.close()
        for thread in self._threads:
            thread.join(30)


def check(flow: Flow, reading: Reading) -> None:
    """All records were confirmed, stored once and in order, and handed out."""
    wait_until(
        lambda: len(reading.distinct()) >= flow.count or bool(reading.errors), 60, "all records handed out"
    )
    reading.stop()
    assert not reading.errors
    distinct = reading.distinct()
    assert len(distinct) == flow.count
    for key, deliveries in flow.deliveries.items():
        stored = [delivery.result(timeout=0) for delivery in deliveries]
        where = [(record.partition, record.offset) for record in stored]
        assert where == sorted(where)
        assert [distinct[place].value for place in where] == [b"%d" % number for number in range(len(where))]
        assert {distinct[place].key for place in where} == {key}


def through_a_kill(three: KraftCluster, names: NewName, victim: Callable[[str, str], int]) -> None:
    """Produce and consume without a pause while the broker that *victim* picks is killed and comes back."""
    topic, group = create_replicated_topic(three.bootstrap_servers, names(), _PARTITIONS), names()
    reading = Reading(three.bootstrap_servers, group, topic, members=2)
    flow = Flow(three.bootstrap_servers, topic)
    wait_assigned(three.bootstrap_servers, group, members=2, partitions=_PARTITIONS)
    flow.more(5_000)
    wait_until(lambda: len(reading.messages) > 1_000, 60, "messages flow")
    node = victim(topic, group)
    three.kill(node)
    flow.more(5_000)
    seen = len(reading.distinct())
    wait_until(lambda: len(reading.distinct()) > seen + 1_000, 60, "messages flow without the broker")
    three.restart(node)
    flow.more(2_000)
    flow.stop()
    check(flow, reading)


def test_records_flow_through_the_kill_of_a_leader(three: KraftCluster, new_name: NewName) -> None:
    def leader(topic: str, group: str) -> int:
        """The leader of partition 0, rather one that does not coordinate the group."""
        apart = coordinator(three.bootstrap_servers, group)
        led = list(leaders(three.bootstrap_servers, topic).values())
        return next((node for node in led if node != apart), led[0])

    through_a_kill(three, new_name, leader)


def test_records_flow_through_the_kill_of_the_groups_coordinator(
    three: KraftCluster, new_name: NewName
) -> None:
    through_a_kill(three, new_name, lambda _topic, group: coordinator(three.bootstrap_servers, group))


def test_a_record_waits_for_a_partition_without_a_leader(three: KraftCluster, new_name: NewName) -> None:
    topic = new_name()
    create_topic(three.bootstrap_servers, topic, replicas=1)
    (home,) = leaders(three.bootstrap_servers, topic).values()
    three.kill(home)
    wait_until(lambda: leaders(three.bootstrap_servers, topic) == {0: -1}, 60, "no leader")
    impatient = Producer(
        three.bootstrap_servers, max_block_ms=5_000, request_timeout_ms=2_000, delivery_timeout_ms=6_000
    )
    with impatient:
        with pytest.raises(KafkaError) as caught:
            impatient.send(topic, b"impatient").result(timeout=20)
        assert topic in str(caught.value)
        assert "leader" in str(caught.value)
    with Producer(three.bootstrap_servers) as producer:
        sending: list[Delivery] = []
        thread = threading.Thread(
            target=lambda: sending.append(producer.send(topic, b"patient", partition=0)), daemon=True
        )
        thread.start()
        three.restart(home)
        thread.join(60)
        assert sending[0].result(timeout=60).partition == 0
    with connector(three.bootstrap_servers, new_name()) as reader:
        assert next(iter(reader.stream(topic))).value == b"patient"


def test_an_unknown_topic_is_an_error_that_names_it(three: KraftCluster, new_name: NewName) -> None:
    topic = new_name()
    with (
        Producer(three.bootstrap_servers, max_block_ms=5_000) as producer,
        pytest.raises(KafkaError, match=topic) as caught,
    ):
        producer.send(topic, b"x").result(timeout=20)
    assert "exist" in str(caught.value)


def test_a_description_names_leaders_and_replicas(three: KraftCluster, new_name: NewName) -> None:
    topic = create_replicated_topic(three.bootstrap_servers, new_name(), _PARTITIONS)
    with Admin(three.bootstrap_servers) as administrator:
        assert sorted(node.id for node in administrator.cluster().brokers) == [1, 2, 3]
        # That one broker knows it does not mean that the next one does.
        wait_until(lambda: topic in administrator.topics(), 60, "the topic to be known")
        described = administrator.describe_topic(topic)
    assert {item.partition: item.leader for item in described.partitions} == leaders(
        three.bootstrap_servers, topic
    )
    assert all(sorted(item.replicas) == sorted(item.isr) == [1, 2, 3] for item in described.partitions)
