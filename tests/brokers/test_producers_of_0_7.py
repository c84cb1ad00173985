"""The classic producer in the profile 0.7, which finds real brokers in ZooKeeper or in its own list."""

import pytest

import pyklient
from pyklient import Producer, ProducerData
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.zookeeper_kafka import ZooKeeperKafka


def read(kafka: ZooKeeperKafka, topic: str, count: int) -> list[pyklient.Message]:
    """Return the messages of *topic* as soon as there are *count*: nobody has confirmed them."""
    bootstrap = kafka.bootstrap_servers
    wait_until(lambda: len(list(pyklient.read(bootstrap, topic))) >= count, 20, f"{count} messages")
    return list(pyklient.read(bootstrap, topic))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_producer_finds_brokers_and_partitions_through_zookeeper(
    old_and_new_zookeeper_kafka: ZooKeeperKafka, new_name: NewName, kind: str
) -> None:
    kafka = old_and_new_zookeeper_kafka
    topic = kafka.create_topic(new_name(), 3)
    properties = {
        "zk.connect": kafka.zookeeper_connect,
        "producer.type": kind,
        "serializer.class": "kafka.serializer.StringEncoder",
        "compression.codec": "2",
        "queue.time": "50",
    }
    with Producer.from_properties(properties, "0.7") as producer:
        for number in range(20):
            producer.send(ProducerData(topic, [f"a {number}", f"b {number}"], key="hello"))
            producer.send(ProducerData(topic, f"c {number}"))
    found = read(kafka, topic, 60)
    values = {(message.value or b"").decode() for message in found}
    assert values == {f"{letter} {number}" for letter in "abc" for number in range(20)}
    keyed = [message for message in found if not (message.value or b"").startswith(b"c")]
    assert {message.partition for message in keyed} == {99162322 % 3}
    assert [message.value for message in keyed] == [
        f"{letter} {number}".encode() for number in range(20) for letter in "ab"
    ]
    assert len({message.partition for message in found}) > 1
    assert {message.key for message in found} == {None}


def test_a_producer_with_a_list_of_brokers_ignores_keys(
    old_and_new_zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    kafka = old_and_new_zookeeper_kafka
    topic = kafka.create_topic(new_name(), 3)
    properties = {"broker.list": f"{kafka.broker_id}:{kafka.bootstrap_servers}"}
    with Producer.from_properties(properties, "0.7") as producer:
        for number in range(30):
            producer.send(ProducerData(topic, b"%d" % number, key=b"key"))
    found = read(kafka, topic, 30)
    assert sorted(int(message.value or b"") for message in found) == list(range(30))
    assert len({message.partition for message in found}) > 1
