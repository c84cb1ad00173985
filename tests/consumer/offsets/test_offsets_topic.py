"""The topic in which Kafka keeps the offsets of a group."""

import pytest

from pyklient import Admin, ConsumerConnector, Producer, read
from pyklient.kernel import string_hash
from tests.servers.fixtures import NewName
from tests.servers.topics import create_topic
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_OFFSETS = "__consumer_offsets"


def partition_of(group: str, count: int) -> int:
    """Return the partition of the offsets topic, of *count*, that has the offsets of *group*."""
    return abs(string_hash(group)) % count


@pytest.mark.parametrize(("group", "partition"), [("foobar", 13), ("test-consumer-group", 31), ("g1", 42)])
def test_row_62_the_partition_of_a_group_follows_javas_hash_of_its_name(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition


def test_row_62_kafka_writes_the_offsets_of_a_group_there(
    zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    servers = zookeeper_kafka.bootstrap_servers
    topic, group = create_topic(servers, new_name(), 1, {}), new_name()
    with Producer(servers) as producer:
        producer.send(topic, b"a")
    with ConsumerConnector(servers, group_id=group, auto_offset_reset="earliest") as connector:
        next(iter(connector.stream(topic)))
        connector.commit_offsets()
    with Admin(servers) as admin:
        count = len(admin.describe_topic(_OFFSETS).partitions)
    written = {
        message.partition
        for message in read(servers, topics=_OFFSETS)
        if message.key is not None and group.encode() in message.key
    }
    assert written == {partition_of(group, count)}
