"""The producer of Kafka 0.7 chooses among brokers and partitions, and sends one request to each broker."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pyklient import ClassicProducerConfig, ProducerData, QueueItem
from pyklient.classic.multi_send_event_handler import MultiSendEventHandler
from pyklient.classic.partition_candidates import BrokerPartition, PartitionCandidates
from pyklient.errors import (
    BrokerConnectionError,
    ConfigurationError,
    FailedToSendMessageError,
    InvalidPartitionError,
    KafkaError,
    NoBrokersForPartitionError,
)
from pyklient.properties.values import StaticBroker
from tests.classic.scripted_cluster import NOT_LEADER, Script, ScriptedCluster
from tests.net.chroot import Chroot
from tests.net.scripted import Addressed
from tests.servers.zookeeper_kafka import ZooKeeperKafka

SCRIPT = Script(name="two brokers", batches=[], leaders=[{"t": [2, 1, 2, 0, 1]}])


def static_config(cluster: ScriptedCluster, **options: Any) -> ClassicProducerConfig:
    brokers = tuple(StaticBroker(node.node_id, node.host, node.port) for node in cluster.nodes)
    return ClassicProducerConfig(profile="0.7", broker_list=brokers, message_send_max_retries=0, **options)


@pytest.fixture
def chroot(zookeeper_kafka: ZooKeeperKafka) -> Iterator[Chroot]:
    chroot = Chroot(zookeeper_kafka.zookeeper.hosts)
    yield chroot
    chroot.client.stop()
    chroot.client.close()


def zookeeper_config(chroot: Chroot, cluster: ScriptedCluster, **options: Any) -> ClassicProducerConfig:
    for node in cluster.nodes:
        chroot.add(node)
    return ClassicProducerConfig(
        profile="0.7", zk_connect=f"{chroot.hosts}{chroot.path}", retry_backoff_ms=1, **options
    )


class Fixed:
    """A partitioner that always returns the same thing."""

    def __init__(self, chosen: Any) -> None:
        self._chosen = chosen

    def partition(self, key: Any, partition_count: int, /) -> Any:
        if isinstance(self._chosen, Exception):
            raise self._chosen
        return self._chosen


def test_the_candidates_are_all_partitions_with_a_leader_by_broker_and_partition(chroot: Chroot) -> None:
    every = [BrokerPartition(1, 1), BrokerPartition(1, 4), BrokerPartition(2, 0), BrokerPartition(2, 2)]
    with ScriptedCluster(SCRIPT) as cluster:
        settings = zookeeper_config(chroot, cluster)
        for number, expected in enumerate(every):
            candidates = PartitionCandidates(replace(settings, partitioner=Fixed(number)))
            assert candidates.choose("t", "any key") == expected
            candidates.close()
        candidates = PartitionCandidates(settings)
        assert candidates.choose("t", "hello") == every[99162322 % 4]
        assert {candidates.choose("t", None) for _ in range(100)} == set(every)
        candidates.close()


def test_a_partitioner_that_fails_is_named_and_a_topic_without_a_partition_is_an_error(
    chroot: Chroot,
) -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        settings = zookeeper_config(chroot, cluster)
        for chosen in (4, -1, None, True, "0", RuntimeError("oh")):
            candidates = PartitionCandidates(replace(settings, partitioner=Fixed(chosen)))
            with pytest.raises(InvalidPartitionError, match="the partitioner Fixed"):
                candidates.choose("t", "key")
            candidates.close()
        candidates = PartitionCandidates(settings)
        with pytest.raises(
            NoBrokersForPartitionError, match=r"topic 'u' in 4 attempts: topic 'u' has no partit"
        ):
            candidates.choose("u", None)
        candidates.close()


def test_a_static_list_ignores_keys_and_the_broker_chooses_the_partition() -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        candidates = PartitionCandidates(static_config(cluster))
        chosen = Counter(candidates.choose("t", "key") for _ in range(200))
        assert set(chosen) == {BrokerPartition(1, -1), BrokerPartition(2, -1)}
        handler = MultiSendEventHandler(static_config(cluster), candidates)
        data = ProducerData("t", [b"a", b"b"], key="key")
        handler.handle([*candidates.queue_items(data), QueueItem(b"c", "t", broker_id=2)])
        sent = [each.records for _, _, topics in cluster.produced(1) for each in topics["t"]]
        handler.close()
    assert {(None, b"a"), (None, b"b")} <= {record for records in sent for record in records}


@pytest.mark.parametrize(("kind", "attempts"), [("sync", 1), ("async", 3)])
def test_only_an_asynchronous_producer_sends_a_request_again(kind: Any, attempts: int) -> None:
    script = replace(SCRIPT, answers=["hang up"])
    with ScriptedCluster(script) as cluster:
        settings = replace(
            static_config(cluster, producer_type=kind, request_required_acks=1), message_send_max_retries=2
        )
        handler = MultiSendEventHandler(settings, PartitionCandidates(settings))
        items = [QueueItem(b"a", "t", 1, broker_id=1), QueueItem(b"b", "t", 1, broker_id=1)]
        error: type[KafkaError] = BrokerConnectionError if kind == "sync" else FailedToSendMessageError
        with pytest.raises(error) as caught:
            handler.handle(items)
        assert len(cluster.produced(attempts)) == attempts
        if isinstance(caught.value, FailedToSendMessageError):
            assert caught.value.unsent == items
        handler.close()


def test_a_partition_that_was_stored_is_not_sent_again() -> None:
    script = replace(SCRIPT, answers=[{1: NOT_LEADER}, "ok"])
    with ScriptedCluster(script) as cluster:
        settings = replace(
            static_config(cluster, producer_type="async", request_required_acks=1), message_send_max_retries=1
        )
        handler = MultiSendEventHandler(settings, PartitionCandidates(settings))
        handler.handle([QueueItem(b"a", "t", 1, broker_id=1), QueueItem(b"b", "t", 4, broker_id=1)])
        partitions = [[each.partition for each in topics["t"]] for _, _, topics in cluster.produced(2)]
        handler.close()
    assert partitions == [[1, 4], [1]]


def test_a_broker_of_a_static_list_that_is_down_fails_its_sends_and_no_others() -> None:
    down = Addressed(3)
    with ScriptedCluster(SCRIPT) as cluster:
        settings = static_config(cluster)
        settings = replace(
            settings, broker_list=(*settings.broker_list, StaticBroker(3, down.host, down.port))
        )
        handler = MultiSendEventHandler(settings, PartitionCandidates(settings))
        with pytest.raises(BrokerConnectionError, match=f"{down.port}"):
            handler.handle([QueueItem(b"a", "t", broker_id=3), QueueItem(b"b", "t", broker_id=1)])
        assert len(cluster.produced(1)) == 1
        handler.close()


def test_an_encoder_that_fails_drops_one_message_of_an_asynchronous_producer() -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        items = [QueueItem("text", "t", 1, broker_id=1), QueueItem(b"b", "t", 1, broker_id=1)]
        settings = static_config(cluster, producer_type="async")
        candidates = PartitionCandidates(settings)
        handler = MultiSendEventHandler(settings, candidates)
        handler.handle(items)
        ((_, _, sent),) = cluster.produced(1)
        assert [each.records for each in sent["t"]] == [((None, b"b"),)]
        with pytest.raises(TypeError, match="DefaultEncoder takes bytes, not str"):
            MultiSendEventHandler(static_config(cluster), candidates).handle(items)
        handler.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither broker.list nor zk.connect"),
        ({"broker_list": (StaticBroker(1, "h", 1),), "zk_connect": "h"}, "are both set"),
        ({"broker_list": (StaticBroker(1, "h", 1),), "partitioner": Fixed(0)}, "but with broker.list"),
    ],
)
def test_row_33_contradictions_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ClassicProducerConfig(profile="0.7", **options)
