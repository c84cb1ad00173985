"""Behaviours of Kafka's classic clients, by their numbers, on brokers that have them."""

import re
from typing import Final

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer

from pyklient import OffsetOutOfRangeError, Producer, SimpleConsumer, TopicPartition, kernel
from pyklient.config import ClientConfig
from pyklient.net.dialogue import Ask, Dialogue, Refresh
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import FetchRequest
from pyklient.registry.cluster_nodes import cluster_id_content
from tests.servers.fixtures import NewName
from tests.servers.zookeeper import connected
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.slow

_MAGIC: Final = 16
"""Where the number of the format is in a message of formats 0 and 1, and in a batch of format 2."""


def test_rows_43_to_46_offsets_before_a_time_are_starts_of_segments(
    oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    """Twenty messages of 28 bytes in segments of 100 bytes. The earliest offset is one, the latest ones begin
    at the high watermark. A fetch at the end is empty, and behind it an error."""
    topic = oldest_kafka.create_topic(new_name(), 1, segment_bytes=100)
    with SimpleConsumer(oldest_kafka.bootstrap_servers) as simple:
        assert simple.get_offsets_before(topic, 0, simple.LATEST, 10) == [0], "row 45"
        assert simple.get_offsets_before(topic, 0, simple.EARLIEST, 10) == [0], "row 45"
        with Producer(oldest_kafka.bootstrap_servers, enable_idempotence=False, linger_ms=0) as producer:
            for _ in range(20):
                producer.send(topic, b"42").result(30)
        assert simple.get_offsets_before(topic, 0, simple.LATEST, 10) == [20, 18, 15, 12, 9, 6, 3, 0], (
            "row 44"
        )
        assert simple.get_offsets_before(topic, 0, simple.LATEST, 3) == [20, 18, 15], "row 43"
        assert simple.get_offsets_before(topic, 0, simple.EARLIEST, 10) == [0], "row 43"
        at_the_end = simple.fetch(topic, 0, 20)
        assert list(at_the_end) == [], "row 46"
        with pytest.raises(OffsetOutOfRangeError, match="OFFSET_OUT_OF_RANGE, 1"):
            simple.fetch(topic, 0, 21)


def test_rows_56_and_57_old_fetches_get_format_0_without_headers_and_control_records(
    zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    """The offsets are those of the records, and new fetches do not hand out control records either."""
    topic, name = zookeeper_kafka.create_topic(new_name(), 1), new_name()
    given = {"bootstrap.servers": zookeeper_kafka.bootstrap_servers, "transactional.id": name}
    producer = LibrdkafkaProducer(given)
    producer.init_transactions(30)
    for value in (b"first", b"second"):
        producer.begin_transaction()
        producer.produce(topic, value, key=b"k", headers=[("h", b"v")])
        producer.commit_transaction(30)
    config = ClientConfig.from_options({"bootstrap_servers": zookeeper_kafka.bootstrap_servers})
    client = NetworkClient(config)
    try:
        old = client.play(_fetched(topic, 1), 30)
        new = client.play(_fetched(topic, 11), 30)
    finally:
        client.close()
    assert (old[_MAGIC], new[_MAGIC]) == (0, 2)
    for data, headers in ((old, ()), (new, (("h", b"v"),))):
        found = [
            (each.offset, each.value, tuple(each.headers or ())) for each in kernel.decode(data, topic, 0, 0)
        ]
        assert found == [(0, b"first", headers), (2, b"second", headers)]


def test_row_63_the_cluster_id_has_22_characters_and_its_node_a_version_in_text(
    zookeeper_kafka: ZooKeeperKafka,
) -> None:
    with connected(zookeeper_kafka.zookeeper_connect) as client:
        content = client.get("/cluster/id")[0]
    found = re.fullmatch(rb'\{"version":"1","id":"([A-Za-z0-9_-]{22})"\}', content)
    assert found is not None
    assert cluster_id_content(found[1].decode()) == content


def _fetched(topic: str, version: int) -> Dialogue[bytes]:
    partition = FetchRequest.FetchTopic.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    metadata = yield Refresh([topic])
    leader = metadata.leader(TopicPartition(topic, 0))
    assert leader is not None
    response = yield Ask(leader.id, request, max_version=version)
    return bytes(response.responses[0].partitions[0].records)
