"""Every offset storage on real brokers with ZooKeeper: what is committed comes back, and is found where it
belongs."""

from collections.abc import Callable

import pytest

from pyklient import ConsumerConnector
from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.group.membership_and_offset_storage import choose_coordination
from pyklient.consumer.owned_partitions import NOBODY
from pyklient.errors import KafkaError, NodeContentError, UnsupportedVersionError
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.offsets.stores import KINDS, open_store, put_in_zookeeper, stored_in_zookeeper
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.server import Server
from tests.servers.topics import create_topic
from tests.servers.zookeeper_kafka import ZooKeeperKafka

WITHOUT_METADATA = {"zookeeper", "zookeeper through a broker"}
"""The stores that keep offsets alone, because ZooKeeper has nothing else."""


@pytest.fixture
def broker(any_broker: Server) -> ZooKeeperKafka:
    assert isinstance(any_broker, ZooKeeperKafka)
    return any_broker


def behaves_like_a_store(store: OffsetStorage, topic: str, note: str) -> None:
    """Check what every store does. *note* is the metadata that it keeps."""
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert store.fetch([first, second], 20.0) == {first: None, second: None}
    assert store.commit({first: OffsetAndMetadata(0, note)}, NOBODY, 20.0) == {}
    assert store.fetch([first, second], 20.0) == {first: OffsetAndMetadata(0, note), second: None}
    sent = store.commit_async({second: OffsetAndMetadata(7)}, NOBODY)
    assert sent is not None
    assert sent.result(30) == {}
    assert store.fetch([second], 20.0) == {second: OffsetAndMetadata(7)}
    assert store.commit({second: OffsetAndMetadata(3)}, NOBODY, 20.0) == {}, "an offset may be set back"
    assert store.fetch([second], 20.0) == {second: OffsetAndMetadata(3)}
    assert store.fetch([], 20.0) == {}
    assert store.commit({}, NOBODY, 20.0) == {}
    assert store.unreachable() is None


@pytest.mark.slow
@pytest.mark.brokers(zookeeper=True, real=True, min="0.9")
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_gives_back_what_was_committed_and_nothing_else(
    kind: str, broker: ZooKeeperKafka, new_name: NewName
) -> None:
    topic, group = broker.create_topic(new_name(), 2), new_name()
    with open_store(broker, kind, group) as store:
        behaves_like_a_store(store, topic, "" if kind in WITHOUT_METADATA else "note")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_on_kafka_0_8_2_gives_back_what_was_committed(
    kind: str, oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    topic, group = oldest_kafka.create_topic(new_name(), 2), new_name()
    coordination = {"coordination": "zookeeper"} if KINDS[kind][0] else {}
    with open_store(oldest_kafka, kind, group, **coordination) as store:
        behaves_like_a_store(store, topic, "" if kind in WITHOUT_METADATA else "note")


@pytest.mark.slow
@pytest.mark.brokers(zookeeper=True, real=True, min="0.9")
@pytest.mark.parametrize("kind", KINDS)
def test_row_23_each_store_writes_where_it_is_to_be_found(
    kind: str, broker: ZooKeeperKafka, new_name: NewName
) -> None:
    """Kafka storage with dual commit writes both stores, zookeeper storage writes only ZooKeeper. The
    departure: zookeeper storage with dual commit writes both stores too."""
    topic, group = broker.create_topic(new_name(), 2), new_name()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with open_store(broker, kind, group) as store:
        assert store.commit({zero: OffsetAndMetadata(42)}, NOBODY, 20.0) == {}
    with open_store(broker, "kafka", group) as kafka:
        in_kafka = kafka.fetch([zero, one], 20.0)
    in_zookeeper = stored_in_zookeeper(broker, group, topic)
    assert in_kafka == {zero: OffsetAndMetadata(42) if "kafka" in kind else None, one: None}
    assert in_zookeeper == ({0: "42"} if "zookeeper" in kind else {})


@pytest.mark.slow
@pytest.mark.brokers(zookeeper=True, real=True, min="0.9")
@pytest.mark.parametrize("kind", KINDS)
def test_row_22_dual_commit_resumes_at_the_larger_offset_and_one_store_alone_at_its_own(
    kind: str, broker: ZooKeeperKafka, new_name: NewName
) -> None:
    """Dual commit with ZooKeeper at 120 and Kafka at 100 resumes at 120; without dual commit at 100."""
    topic, group = broker.create_topic(new_name(), 4), new_name()
    higher, lower, only_kafka, only_zookeeper = (TopicPartition(topic, number) for number in range(4))
    with open_store(broker, "kafka", group) as kafka:
        at = {
            higher: OffsetAndMetadata(100, "k"),
            lower: OffsetAndMetadata(200),
            only_kafka: OffsetAndMetadata(5),
        }
        assert kafka.commit(at, NOBODY, 20.0) == {}
    for partition, offset in ((higher, 120), (lower, 90), (only_zookeeper, 6)):
        put_in_zookeeper(broker, group, topic, partition.partition, str(offset))
    with open_store(broker, kind, group) as store:
        found = store.fetch([higher, lower, only_kafka, only_zookeeper], 20.0)
    offsets = [None if each is None else each.offset for each in found.values()]
    if "and" in kind:
        assert offsets == [120, 200, 5, 6]
        assert found[higher] == OffsetAndMetadata(120, "k"), "the metadata is Kafka's"
    else:
        assert offsets == ([100, 200, 5, None] if kind == "kafka" else [120, 90, None, 6])


@pytest.mark.slow
@pytest.mark.brokers(zookeeper=True, real=True, min="0.9")
def test_through_a_broker_no_offset_and_a_topic_that_is_not_there_are_error_3(
    broker: ZooKeeperKafka, new_name: NewName
) -> None:
    missing = TopicPartition(new_name(), 0)
    with open_store(broker, "zookeeper through a broker", new_name()) as store:
        assert store.fetch([missing], 20.0) == {missing: None}
        (rejected,) = store.commit({missing: OffsetAndMetadata(1)}, NOBODY, 20.0).values()
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(rejected.error)
        assert not rejected.outdated


@pytest.mark.slow
@pytest.mark.brokers(zookeeper=True, real=True, min="0.9")
def test_garbage_in_a_node_is_an_error_that_names_the_node(broker: ZooKeeperKafka, new_name: NewName) -> None:
    topic, group = new_name(), new_name()
    put_in_zookeeper(broker, group, topic, 0, "no number")
    for kind in ("zookeeper", "kafka and zookeeper"):
        with (
            open_store(broker, kind, group) as store,
            pytest.raises(NodeContentError, match=f"/consumers/{group}/offsets/{topic}/0"),
        ):
            store.fetch([TopicPartition(topic, 0)], 20.0)


@pytest.mark.slow
def test_brokers_without_zookeeper_cannot_keep_offsets_there_and_the_error_says_what_to_do(
    newest_kafka: KraftCluster, new_name: NewName
) -> None:
    given = {
        "bootstrap_servers": newest_kafka.bootstrap_servers,
        "group_id": new_name(),
        "offsets_storage": "zookeeper",
    }
    config = ConsumerConfig.from_options(given)
    client = NetworkClient(config)
    partition = TopicPartition(new_name(), 0)
    calls: list[Callable[[OffsetStorage], object]] = [
        lambda store: store.fetch([partition], 20.0),
        lambda store: store.commit({partition: OffsetAndMetadata(1)}, NOBODY, 20.0),
    ]
    try:
        store = choose_coordination(client, config).store
        for call in calls:
            with pytest.raises(
                UnsupportedVersionError,
                match="use offsets_storage='kafka', or a ConsumerConnector with the address",
            ):
                call(store)
        sent = store.commit_async({partition: OffsetAndMetadata(1)}, NOBODY)
        assert sent is not None
        assert isinstance(sent.exception(30), KafkaError)
    finally:
        client.close()


@pytest.mark.slow
def test_a_connector_says_before_it_reads_that_its_brokers_cannot_keep_offsets_in_zookeeper(
    newest_kafka: KraftCluster, new_name: NewName
) -> None:
    topic = create_topic(newest_kafka.bootstrap_servers, new_name())
    with (
        ConsumerConnector(
            newest_kafka.bootstrap_servers, group_id=new_name(), offsets_storage="zookeeper"
        ) as connector,
        pytest.raises(UnsupportedVersionError, match="use offsets_storage='kafka'"),
    ):
        connector.stream(topic)
