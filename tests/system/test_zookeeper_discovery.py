"""Every client needs only the address of ZooKeeper to use real brokers that are registered there."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pyklient import Admin, ConsumerConnector, Producer, SimpleConsumer, read
from pyklient.broker import Broker
from tests.servers.fixtures import NewName
from tests.servers.zookeeper import new_chroot
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.java


def test_every_client_finds_real_brokers_in_zookeeper(
    old_and_new_zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    server = old_and_new_zookeeper_kafka
    topic, zookeeper = server.create_topic(new_name(), 2), server.zookeeper_connect
    with Producer(zookeeper=zookeeper) as producer:
        for number in range(10):
            producer.send(topic, str(number).encode(), partition=number % 2)
    expected = {str(number).encode() for number in range(10)}
    assert {message.value for message in read(topics=topic, zookeeper=zookeeper)} == expected
    options: Any = {"zookeeper": zookeeper, "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
    with ConsumerConnector(**options) as connector:
        assert {message.value for message in islice(connector.stream(topic), 10)} == expected
    with SimpleConsumer(zookeeper=zookeeper) as simple:
        assert simple.get_offsets_before(topic, 0, -2, 1) == [0]
    with Admin(zookeeper=zookeeper) as admin:
        cluster = admin.cluster()
        assert [f"{node.host}:{node.port}" for node in cluster.brokers] == [server.bootstrap_servers]
        assert cluster.controller_id == 0
        assert topic in admin.topics()


@pytest.mark.parametrize("coordination", ["kafka", "zookeeper"])
def test_a_broker_that_moves_to_another_port_is_found_by_a_running_group_and_producer(
    coordination: str, zookeeper_kafka: ZooKeeperKafka, new_name: NewName, tmp_path: Path
) -> None:
    topic, zookeeper = new_name(), new_chroot(zookeeper_kafka.zookeeper.hosts)
    where: Any = {"zookeeper": zookeeper, "data_dir": tmp_path}
    group: Any = {"coordination": coordination, "group_id": new_name(), "consumer_timeout_ms": 30_000}
    with Broker(**where) as broker:
        before = broker.bootstrap_servers
        producer = Producer(zookeeper=zookeeper)
        connector = ConsumerConnector(zookeeper=zookeeper, auto_offset_reset="earliest", **group)
        producer.send(topic, b"before").result(30)
        loop = iter(connector.stream(topic))
        assert next(loop).value == b"before"
    with Broker(**where) as broker, producer, connector:
        assert broker.bootstrap_servers != before
        assert producer.send(topic, b"after").result(30).offset == 1
        assert next(loop).value == b"after"
        connector.commit_offsets()
