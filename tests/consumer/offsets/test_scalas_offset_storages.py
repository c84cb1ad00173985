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


@pytest.mark.slow
@pytest.mark.parametrize("committed", [None, 500], ids=["row 17", "row 18"])
def test_rows_15_17_and_18_a_group_begins_and_commits_where_scalas_consumer_does(
    committed: int | None, oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    """No committed offset, or one beyond the log: ``smallest`` reads everything, and what is committed is the
    last offset plus one. ``largest`` reads only what is new."""
    topic = oldest_kafka.create_topic(new_name(), 1)
    with Producer(oldest_kafka.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send_many(topic, [b"x"] * _RECORDS)
    found = {}
    for read, reset in ((scala, "smallest"), (ours, "earliest")):
        group = new_name()
        if committed is not None:
            put_in_zookeeper(oldest_kafka, group, topic, 0, str(committed))
        began = read(oldest_kafka, group, topic, {"auto_offset_reset": reset})
        found[read.__name__] = (began, stored_in_zookeeper(oldest_kafka, group, topic))
    assert found == dict.fromkeys(("scala", "ours"), (0, {0: str(_RECORDS)}))


@pytest.mark.slow
@pytest.mark.parametrize("committed", [None, 500], ids=["row 17", "row 18"])
def test_rows_17_and_18_largest_begins_at_what_is_new_as_in_scalas_consumer(
    committed: int | None, oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    """No committed offset, or one beyond the log: ``largest`` reads only what comes later."""
    topic, groups = oldest_kafka.create_topic(new_name(), 1), [new_name(), new_name()]
    address = oldest_kafka.zookeeper_connect
    if committed is not None:
        for group in groups:
            put_in_zookeeper(oldest_kafka, group, topic, 0, str(committed))
    with Producer(oldest_kafka.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send_many(topic, [b"old"] * 3)
        producer.flush()
        options: dict[str, Any] = {"auto_offset_reset": "latest", "consumer_timeout_ms": 300}
        with (
            ScalaConsumer(address, groups[0], topic, auto_offset_reset="largest") as theirs,
            ConsumerConnector(
                zookeeper=address, group_id=groups[1], coordination="zookeeper", **options
            ) as mine,
        ):
            theirs.wait_ready()
            stream = mine.stream(topic)
            seen: list[int] = []

            def read_new() -> bool:
                producer.send(topic, b"new").result(30)
                seen.extend(each.offset for batch in islice(stream.batches(timeout=0.1), 1) for each in batch)
                return bool(seen and theirs.messages)

            wait_until(read_new, 60, "new messages")
    assert min(seen) >= 3
    assert theirs.messages[0][1] >= 3


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
        **{"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000, **options},
    ) as connector:
        stream = connector.stream(topic)
        first = next(iter(stream)).offset
        *_, last = islice(stream, _RECORDS - first - 1)
        assert last.offset == _RECORDS - 1
    return first
