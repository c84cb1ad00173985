"""A group whose offsets are in ZooKeeper, in Kafka or in both goes on where Scala's high-level consumer goes
on, and leaves behind what Scala's consumer leaves behind."""

from itertools import islice
from typing import Any, Final, NamedTuple

import pytest

from pyklient import ConsumerConnector, OffsetAndMetadata, Producer, TopicPartition
from pyklient.consumer.owned_partitions import NOBODY
from tests.consumer.offsets.stores import open_store, put_in_zookeeper, stored_in_zookeeper
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.scala_consumer import ScalaConsumer
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_RECORDS: Final = 130
_IN_ZOOKEEPER: Final = 120
_IN_KAFKA: Final = 100


class Outcome(NamedTuple):
    """The offset at which a consumer began, and the offsets that it left in the two stores."""

    began: int
    zookeeper: str
    kafka: int | None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"offsets_storage": "kafka"}, Outcome(_IN_ZOOKEEPER, "130", 130)),
        ({"offsets_storage": "kafka", "dual_commit_enabled": False}, Outcome(_IN_KAFKA, "120", 130)),
        ({"offsets_storage": "zookeeper"}, Outcome(_IN_ZOOKEEPER, "130", 100)),
    ],
    ids=["kafka", "kafka alone", "zookeeper"],
)
def test_rows_22_to_24_a_group_goes_on_as_scalas_consumer_does(
    options: dict[str, Any], expected: Outcome, oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    """Dual commit, which is on by default with Kafka storage and off with zookeeper storage, resumes at the
    larger offset and writes both stores."""
    topic = oldest_kafka.create_topic(new_name(), 1)
    with Producer(oldest_kafka.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send_many(topic, [b"x"] * _RECORDS)
    for read in (scala, ours):
        group = new_name()
        put_in_zookeeper(oldest_kafka, group, topic, 0, str(_IN_ZOOKEEPER))
        with open_store(oldest_kafka, "kafka", group) as store:
            at = {TopicPartition(topic, 0): OffsetAndMetadata(_IN_KAFKA)}
            assert store.commit(at, NOBODY, 20.0) == {}
        began = read(oldest_kafka, group, topic, options)
        with open_store(oldest_kafka, "kafka", group) as store:
            (in_kafka,) = store.fetch([TopicPartition(topic, 0)], 20.0).values()
        in_zookeeper = stored_in_zookeeper(oldest_kafka, group, topic)[0]
        found = Outcome(began, in_zookeeper, None if in_kafka is None else in_kafka.offset)
        assert found == expected, read.__name__


def scala(broker: ZooKeeperKafka, group: str, topic: str, options: dict[str, Any]) -> int:
    """Read *topic* to its end with Scala's consumer. Return the first offset."""
    properties: dict[str, Any] = {name: str(value).lower() for name, value in options.items()}
    with ScalaConsumer(broker.zookeeper_connect, group, topic, **properties) as consumer:
        wait_until(lambda: consumer.messages[-1:] == [(0, _RECORDS - 1)], 60, "the last message")
        consumer.leave()
    return consumer.messages[0][1]


def ours(broker: ZooKeeperKafka, group: str, topic: str, options: dict[str, Any]) -> int:
    """Read *topic* to its end with pyklient. Return the first offset."""
    with ConsumerConnector(
        zookeeper=broker.zookeeper_connect,
        group_id=group,
        coordination="zookeeper",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
        **options,
    ) as connector:
        stream = connector.stream(topic)
        first = next(iter(stream)).offset
        *_, last = islice(stream, _RECORDS - first - 1)
        assert last.offset == _RECORDS - 1
    return first
