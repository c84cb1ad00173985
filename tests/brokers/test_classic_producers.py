"""The classic producer on brokers of three releases, each with its own record format."""

from typing import Any

import pytest

import pyklient
from pyklient import ClassicProducerConfig, KeyedMessage, Producer, ProducerData, SyncProducer
from pyklient.classic.default_event_handler import DefaultEventHandler
from tests.brokers.release import Release
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.pool import ServerPool
from tests.servers.process import wait_until
from tests.servers.zookeeper_kafka import ZooKeeperKafka


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(version, marks=pytest.mark.uses(f"kafka-{version}"))
        for version in ("0.8.2.2", "0.10.2.2", "4.3.1")
    ],
)
def release(request: pytest.FixtureRequest, servers: ServerPool) -> Release:
    """The brokers of record formats 0, 1 and 2, in turn."""
    server = servers.get(f"kafka-{request.param}")
    assert isinstance(server, ZooKeeperKafka | KraftCluster)
    return Release(request.param, server)


def handler_of(bootstrap: str, **options: Any) -> DefaultEventHandler:
    return DefaultEventHandler(ClassicProducerConfig(metadata_broker_list=bootstrap, **options))


def test_each_codec_arrives_with_each_number_of_acks(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name(), partitions=2)
    sent = []
    for codec in release.codecs:
        for acks in (0, 1, -1):
            handler = handler_of(
                release.bootstrap, compression_codec=codec, request_required_acks=acks, retry_backoff_ms=500
            )
            values = [f"{codec} {acks} {number}".encode() for number in range(20)]
            handler.handle([KeyedMessage(topic, value, key=b"key") for value in values[:10]])
            handler.handle([KeyedMessage(topic, value) for value in values[10:]])
            handler.close()
            sent += values
    wait_until(lambda: len(list(pyklient.read(release.bootstrap, topic))) >= len(sent), 20, "all messages")
    found = list(pyklient.read(release.bootstrap, topic))
    assert sorted(message.value or b"" for message in found) == sorted(sent)
    assert {message.key for message in found} == {None, b"key"}
    assert len({message.partition for message in found if message.key}) == 1


def test_the_messages_are_what_other_clients_read(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    handler = handler_of(release.bootstrap, compression_codec="snappy", request_required_acks=-1)
    handler.handle([KeyedMessage(topic, b"value %d" % number, key=b"k") for number in range(10)])
    handler.handle([KeyedMessage(topic, None, key=b"deleted")])
    handler.close()
    records = release.read(topic, 11)
    assert [record.value for record in records] == [*(b"value %d" % number for number in range(10)), None]
    assert [record.key for record in records] == [b"k"] * 10 + [b"deleted"]


def test_a_sync_producer_sends_to_its_broker(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    host, _, port = release.bootstrap.rpartition(":")
    config = ClassicProducerConfig(metadata_broker_list=release.bootstrap, request_required_acks=1)
    with SyncProducer(host, int(port), config) as producer:
        assert [producer.send(topic, [b"a", b"b"], 0), producer.send(topic, [b"c"])] == [(None, 0), (None, 2)]
        status = producer.send(topic, [b"d"], 7)
    assert status is not None
    assert status.error is not None
    assert status.error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert [message.value for message in pyklient.read(release.bootstrap, topic)] == [b"a", b"b", b"c"]


def test_an_asynchronous_producer_delivers_each_codec_with_each_number_of_acks(
    release: Release, new_name: NewName
) -> None:
    topic = release.new_topic(new_name())
    sent = []
    for codec in release.codecs[:4]:  # the profile knows no zstd
        for acks in (0, 1, -1):
            given = {
                "metadata.broker.list": release.bootstrap,
                "producer.type": "async",
                "compression.codec": codec,
                "request.required.acks": acks,
                "batch.num.messages": 50,
                "retry.backoff.ms": 500,
            }
            with Producer.from_properties(given, "0.10") as producer:
                values = [f"{codec} {acks} {number:03}".encode() for number in range(220)]
                producer.send(*(KeyedMessage(topic, value) for value in values))
            assert producer.dropped_count == 0
            sent.append(values)
    count = sum(map(len, sent))
    wait_until(lambda: len(list(pyklient.read(release.bootstrap, topic))) >= count, 20, "all messages")
    found = [message.value for message in pyklient.read(release.bootstrap, topic)]
    assert len(found) == count
    for values in sent:
        assert [value for value in found if value in set(values)] == values


def test_a_producer_of_0_7_sends_to_a_static_list_and_by_zookeeper(
    release: Release, new_name: NewName
) -> None:
    topic = release.new_topic(new_name(), partitions=2)
    broker_id = release.server.broker_id if isinstance(release.server, ZooKeeperKafka) else 1
    ways: list[dict[str, object]] = [{"broker.list": f"{broker_id}:{release.bootstrap}"}]
    if isinstance(release.server, ZooKeeperKafka):
        ways.append({"zk.connect": release.server.zookeeper_connect})
    for number, way in enumerate(ways):
        for kind in ("sync", "async"):
            with Producer.from_properties(way | {"producer.type": kind}, "0.7") as producer:
                producer.send(ProducerData(topic, [f"{number} {kind} {each}".encode() for each in range(20)]))
            assert producer.dropped_count == 0
    count = 40 * len(ways)
    wait_until(lambda: len(list(pyklient.read(release.bootstrap, topic))) >= count, 20, "all messages")
