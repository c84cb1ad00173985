"""SyncProducer sends one produce request to one broker, as Scala's does."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pyklient import ClassicProducerConfig, ProducerRequest, SyncProducer, TopicPartition
from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ConfigurationError,
    MessageTooLargeError,
    NoBrokersForPartitionError,
    ProtocolError,
)
from pyklient.properties.values import StaticBroker
from pyklient.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.classic.scripted_cluster import NOT_LEADER, Script, ScriptedCluster
from tests.net.scripted import SILENCE, Addressed, ScriptedBroker
from tests.oracles.process import Oracle
from tests.servers.process import wait_until

SCRIPT = Script(name="a broker", batches=[])


def config(cluster: ScriptedCluster, **options: Any) -> ClassicProducerConfig:
    return ClassicProducerConfig(metadata_broker_list=cluster.address, **options)


def producer_of(cluster: ScriptedCluster, broker_id: int = 1, **options: Any) -> SyncProducer:
    host, _, port = cluster.address.rpartition(":")
    return SyncProducer(host, int(port), config(cluster, **options), broker_id=broker_id)


@pytest.mark.java
def test_row_42_the_answers_are_those_of_scala_and_acks_of_0_get_none() -> None:
    cases: list[tuple[int, Mapping[int, int]]] = [(0, {}), (1, {}), (-1, {}), (1, {0: NOT_LEADER})]
    theirs, ours = [], []
    with Oracle("0.8.2.2", "EventHandlerOracle.java") as oracle:
        for acks, answer in cases:
            script = replace(SCRIPT, answers=[answer])
            with ScriptedCluster(script) as cluster:
                port = cluster.address.rpartition(":")[2]
                said = oracle.ask(["\t".join(["sync", port, str(acks), "t", "0", "a,b"])])
                theirs.append((said[0], [(acks, sent) for _, acks, sent in cluster.produced(1)]))
            with ScriptedCluster(script) as cluster, producer_of(cluster, request_required_acks=acks) as sync:
                status = sync.send("t", [b"a", b"b"], 0)
                code = status and (status.error.code if status.error else 0)
                shown = "null" if status is None else f"{code} {status.offset}"
                ours.append((shown, [(acks, sent) for _, acks, sent in cluster.produced(1)]))
    assert ours == theirs
    assert [said for said, _ in ours] == ["null", "0 7", "0 7", "6 7"]


def test_several_requests_become_one_and_a_partition_may_come_twice() -> None:
    with ScriptedCluster(SCRIPT) as cluster, producer_of(cluster, request_required_acks=1) as sync:
        statuses = sync.multi_send(
            [
                ProducerRequest("t", 0, [b"a"]),
                ProducerRequest("t", 1, [b"b"], [b"key"]),
                ProducerRequest("t", 0, [b"c", None], [b"k", b"l"]),
            ]
        )
        ((_, _, sent),) = cluster.produced(1)
    assert statuses is not None
    assert set(statuses) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert [each.records for each in sent["t"]] == [
        ((None, b"a"), (b"k", b"c"), (b"l", None)),
        ((b"key", b"b"),),
    ]


def test_without_a_partition_the_broker_s_own_partitions_are_chosen() -> None:
    script = replace(SCRIPT, leaders=[{"t": [2, 1, 2, 1], "u": [2]}])
    with ScriptedCluster(script) as cluster, producer_of(cluster) as sync:
        for _ in range(30):
            sync.send("t", [b"a"])
        with pytest.raises(NoBrokersForPartitionError, match=r"leads no partition of topic 'u'"):
            sync.send("u", [b"a"])
        partitions = {each.partition for _, _, sent in cluster.produced(30) for each in sent["t"]}
    assert partitions == {1, 3}


def test_a_failure_ends_the_connection_and_the_next_call_opens_another() -> None:
    script = replace(SCRIPT, answers=["hang up", "incomplete", "ok"])
    with ScriptedCluster(script) as cluster, producer_of(cluster, request_required_acks=1) as sync:
        with pytest.raises(BrokerConnectionError):
            sync.send("t", [b"a"], 0)
        with pytest.raises(
            ProtocolError, match=r"answered for 0 partitions, but 1 partition was in the request"
        ):
            sync.send("t", [b"a"], 0)
        assert sync.send("t", [b"a"], 0) == (None, 7)


def test_a_message_that_is_too_large_is_refused_before_anything_is_sent() -> None:
    with ScriptedCluster(SCRIPT) as cluster, producer_of(cluster, max_message_size=10) as sync:
        with pytest.raises(
            MessageTooLargeError, match=r"for t has 11 bytes, but max\.message\.size allows 10"
        ):
            sync.multi_send([ProducerRequest("t", 0, [b"a"]), ProducerRequest("t", 1, [b"x" * 11])])
        sync.send("t", [b"x" * 10], 0)
        assert len(cluster.produced(1)) == 1


def test_a_config_of_another_type_is_an_error_at_once() -> None:
    wrong: Any = {}
    with pytest.raises(TypeError, match=r"config must be a ClassicProducerConfig, not \{\}"):
        SyncProducer("localhost", 9092, wrong)


def test_no_message_at_all_is_an_error() -> None:
    with ScriptedCluster(SCRIPT) as cluster, producer_of(cluster) as sync:
        with pytest.raises(ConfigurationError, match="no messages to send to topic 't'"):
            sync.send("t", [], 0)
        assert not cluster.events


def test_a_broker_that_is_down_and_a_closed_producer_are_errors() -> None:
    down = Addressed(1)
    sync = SyncProducer(down.host, down.port)
    with pytest.raises(BrokerConnectionError, match=f"{down.port}"):
        sync.send("t", [b"a"], 0)
    sync.close()
    sync.close()
    with pytest.raises(ClosedError, match="has been closed"):
        sync.send("t", [b"a"], 0)


@pytest.mark.parametrize(("host", "port", "error"), [("h", 0, ConfigurationError), (1, 9, TypeError)])
def test_a_wrong_address_is_an_error_at_once(host: Any, port: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        SyncProducer(host, port)


@pytest.mark.parametrize(("requests", "time_ms"), [(3, -1), (100, 0)], ids=["requests", "time"])
def test_a_producer_of_0_7_opens_its_connection_anew_from_time_to_time(requests: int, time_ms: int) -> None:
    with ScriptedBroker() as broker:
        broker.on(ProduceRequest, lambda request: b"")
        broker.on(ListOffsetsRequest, lambda _request: ListOffsetsResponse())
        settings = ClassicProducerConfig(
            profile="0.7",
            broker_list=(StaticBroker(1, broker.host, broker.port),),
            reconnect_interval=requests,
            reconnect_time_interval_ms=time_ms,
        )
        with SyncProducer(broker.host, broker.port, settings, broker_id=1) as sync:
            for _ in range(6):
                sync.send("t", [b"a"], 0)
            assert broker.accepted > 1
        assert broker.count(ListOffsetsRequest) == broker.accepted, "one before each connection is closed"


def test_a_request_without_a_response_after_which_the_broker_hangs_up_makes_the_next_call_fail() -> None:
    script = replace(SCRIPT, leaders=[{"t": [1, 2]}, {"t": [2, 1]}], answers=["hang up", "ok"])
    with ScriptedCluster(script) as cluster, producer_of(cluster) as sync:

        def fails() -> bool:
            try:
                sync.send("t", [b"a"])
            except BrokerConnectionError:
                return True
            return False

        wait_until(fails, 60, "a send that fails")
        sync.send("t", [b"c"])
        produced = [each for _, _, topics in cluster.produced(2) for each in topics["t"]]
    assert [(each.partition, each.records[0][1]) for each in produced] == [(0, b"a"), (1, b"c")]


@pytest.mark.parametrize("acks", [0, 1])
def test_one_send_uses_one_connection_even_if_the_connection_is_old_at_once(acks: int) -> None:
    with ScriptedBroker() as broker:
        settings = ClassicProducerConfig(
            profile="0.7",
            broker_list=(StaticBroker(1, broker.host, broker.port),),
            request_required_acks=acks,
            reconnect_time_interval_ms=0,
        )
        broker.on(ProduceRequest, _confirm)
        broker.on(ListOffsetsRequest, lambda _request: ListOffsetsResponse())
        with SyncProducer(broker.host, broker.port, settings, broker_id=1) as sync:
            for _ in range(3):
                sync.send("t", [b"a"], 0)
        assert broker.accepted == 3


def _confirm(request: ProduceRequest) -> Any:
    if not request.acks:
        return SILENCE
    partition = ProduceResponse.PartitionProduceResponse(index=0)
    topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[partition])
    return ProduceResponse(responses=[topic])


@pytest.mark.parametrize(("acks", "then"), [(0, [ListOffsetsRequest]), (1, [])])
def test_a_producer_without_acknowledgements_is_closed_when_the_broker_has_handled_its_messages(
    acks: int, then: list[type]
) -> None:
    with ScriptedBroker() as broker:
        broker.on(ProduceRequest, _confirm)
        broker.on(ListOffsetsRequest, lambda _request: ListOffsetsResponse())
        settings = ClassicProducerConfig(metadata_broker_list=broker.address, request_required_acks=acks)
        with SyncProducer(broker.host, broker.port, settings) as sync:
            for _ in range(2):
                sync.send("t", [b"a"], 0)
        assert [type(each) for each in broker.requests] == [ProduceRequest, ProduceRequest, *then]


def test_a_broker_that_handles_nothing_delays_close_a_little_and_there_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ScriptedBroker() as broker:
        broker.on(ProduceRequest, _confirm)
        broker.on(ListOffsetsRequest, lambda _request: SILENCE)
        settings = ClassicProducerConfig(metadata_broker_list=broker.address)
        sync = SyncProducer(broker.host, broker.port, settings)
        sync.send("t", [b"a"], 0)
        sync.close(0.1)
        sync = SyncProducer(broker.host, broker.port, settings)
        sync.send("t", [b"a"], 0)
        sync.close(0)
    texts = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    warnings = [each for each in texts if broker.address in each]
    assert len(warnings) == 1, texts
    assert "has not answered for 0.1 s after messages were sent with acks=0" in warnings[0]
