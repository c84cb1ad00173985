"""The producer of Kafka 0.7 chooses among brokers and partitions, and sends one request to each broker."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pyklient import ClassicProducerConfig, ProducerData, QueueItem
from pyklient.classic.batch_limits import BatchLimits
from pyklient.classic.classic_producer import ClassicProducer
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.encoded_messages import EncodedMessages
from pyklient.classic.multi_send_event_handler import MultiSendEventHandler
from pyklient.classic.partition_candidates import BrokerPartition, PartitionCandidates
from pyklient.classic.queue_item import ANY_PARTITION
from pyklient.classic.sending_in_parts import send_in_parts
from pyklient.classic.sync_producer import SyncProducer
from pyklient.errors import (
    BrokerConnectionError,
    ConfigurationError,
    FailedToSendMessageError,
    ForkError,
    InvalidPartitionError,
    KafkaError,
    NoBrokersForPartitionError,
)
from pyklient.properties.values import StaticBroker
from pyklient.protocol.messages import MetadataRequest
from pyklient.topic_partition import TopicPartition
from tests.classic.forked_child import in_child, open_sockets
from tests.classic.scripted_cluster import NOT_LEADER, Script, ScriptedCluster
from tests.net.chroot import Chroot
from tests.net.scripted import Addressed
from tests.servers.zookeeper_kafka import ZooKeeperKafka

SCRIPT = Script(name="two brokers", batches=[], leaders=[{"t": [2, 1, 2, 0, 1]}])


def test_the_log_names_no_partition_if_the_broker_chooses_it(caplog: pytest.LogCaptureFixture) -> None:
    groups = {
        TopicPartition("t", partition): EncodedMessages([b"a"], [b"a"], None)
        for partition in (ANY_PARTITION, 2)
    }
    send_in_parts(groups, BatchLimits(), lambda parts: dict.fromkeys(parts, KafkaError("no space")))
    assert caplog.messages == [
        "messages for t (any partition) were not stored: no space",
        "messages for t-2 were not stored: no space",
    ]


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


def test_candidates_that_were_asked_for_before_the_cluster_changed_are_used_once(chroot: Chroot) -> None:
    script = replace(SCRIPT, leaders=[{"t": [2]}, {"t": [1]}])
    with ScriptedCluster(script) as cluster:
        candidates = PartitionCandidates(zookeeper_config(chroot, cluster))
        changed = threading.Event()

        def with_a_change(request: MetadataRequest) -> Any:
            answer = cluster._metadata(request)
            candidates._bootstrap.on_cluster_change(changed.set)
            if not changed.is_set():
                chroot.write("/brokers/topics/t", b"{}")
                assert changed.wait(30)
            return answer

        for node in cluster.nodes:
            node.on(MetadataRequest, with_a_change)
        assert [candidates.choose("t", None) for _ in range(3)] == [(2, 0), (1, 0), (1, 0)]
        candidates.close()


def test_a_child_process_closes_its_copy_of_the_session_with_zookeeper(chroot: Chroot) -> None:
    with ScriptedCluster(replace(SCRIPT, leaders=[{"t": [1], "u": [2]}])) as cluster:
        ports = {int(chroot.hosts.rpartition(":")[2]), *(node.port for node in cluster.nodes)}
        before = set(open_sockets(ports))
        producer = ClassicProducer(zookeeper_config(chroot, cluster))
        producer.send(ProducerData("t", b"1"))
        assert len(set(open_sockets(ports)) - before) == 2, "to ZooKeeper, and to broker 1"

        def check() -> None:
            assert set(open_sockets(ports)) <= before
            for topic in ("t", "u"):
                with pytest.raises(ForkError):
                    producer.send(ProducerData(topic, b"2"))
            producer.close()

        in_child(check)
        producer.send(ProducerData("u", b"3"))
        producer.close()
        assert [node for node, _, _ in cluster.produced(2)] == [1, 2]


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


def test_an_error_names_the_failure_before_the_producer_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedCluster(replace(SCRIPT, answers=[{1: NOT_LEADER}])) as cluster:
        settings = replace(
            static_config(cluster, producer_type="async", request_required_acks=1), message_send_max_retries=1
        )
        candidates = PartitionCandidates(settings)
        handler = MultiSendEventHandler(settings, candidates)
        monkeypatch.setattr(candidates, "forget", lambda _: handler.interrupt())  # before the second attempt
        with pytest.raises(FailedToSendMessageError, match="does not lead the partition"):
            handler.handle([QueueItem(b"a", "t", 1, broker_id=1)])
        handler.close()


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


def test_an_encoder_that_ends_its_thread_drops_one_message_of_an_asynchronous_producer() -> None:
    def encode(value: bytes) -> bytes:
        return value or sys.exit("an encoder must not do this")

    with ScriptedCluster(SCRIPT) as cluster:
        settings = static_config(cluster, producer_type="async", encoder=encode)
        dropped = DroppedItems(None)
        handler = MultiSendEventHandler(settings, PartitionCandidates(settings), None, dropped)
        handler.handle([QueueItem(value, "t", 1, broker_id=1) for value in (b"", b"b")])
        ((_, _, sent),) = cluster.produced(1)
        handler.close()
    assert [each.records for each in sent["t"]] == [((None, b"b"),)]
    assert dropped.count == 1


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


@pytest.mark.parametrize("partition", [1, -1])
def test_messages_that_are_too_large_for_one_batch_are_sent_in_parts_in_order(partition: int) -> None:
    script = replace(SCRIPT, leaders=[{"t": [2, 1]}])
    values = [b"%03d" % number + bytes(10_000) for number in range(250)]
    with ScriptedCluster(script) as cluster:
        settings = static_config(cluster, producer_type="async", request_required_acks=1)
        handler = MultiSendEventHandler(settings, PartitionCandidates(settings))
        handler.handle([QueueItem(value, "t", partition, broker_id=1) for value in values])
        parts = [each.records for _, _, topics in cluster.produced(3) for each in topics["t"]]
        handler.close()
    assert [value for part in parts for _, value in part] == values
    assert [len(part) for part in parts] == [99, 99, 52]


def test_what_has_no_broker_is_dropped_alone_and_what_fails_unexpectedly_is_reported_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        settings = static_config(cluster, producer_type="async", request_required_acks=1)
        candidates, dropped = PartitionCandidates(settings), DroppedItems(None)
        choose, producer = candidates.choose_again, candidates.producer

        def choose_again(item: QueueItem) -> BrokerPartition:
            if item.data == b"nowhere":
                raise InvalidPartitionError("no such partition")
            return choose(item)

        def producer_of(broker_id: int) -> SyncProducer:
            if broker_id == 2:
                raise RuntimeError("oh")
            return producer(broker_id)

        monkeypatch.setattr(candidates, "choose_again", choose_again)
        monkeypatch.setattr(candidates, "producer", producer_of)
        handler = MultiSendEventHandler(settings, candidates, None, dropped)
        nowhere, stored = QueueItem(b"nowhere", "t", 9), QueueItem(b"a", "t", 1, broker_id=1)
        failing = QueueItem(b"b", "t", 2, broker_id=2)
        with pytest.raises(FailedToSendMessageError, match="RuntimeError: oh") as caught:
            handler.handle([nowhere, stored, failing])
        handler.close()
        ((_, _, sent),) = cluster.produced(1)
    assert [each.records for each in sent["t"]] == [((None, b"a"),)]
    assert caught.value.unsent == [failing]
    assert dropped.count == 1


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
