"""Classic producers on three brokers, of which one is killed while messages are sent to it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import pyklient
from pyklient import ClassicProducerConfig, KeyedMessage, Producer
from pyklient.classic.default_event_handler import DefaultEventHandler
from tests.classic.loads import Dropped
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.process import wait_until
from tests.servers.reaper import Reaper
from tests.servers.topics import create_replicated_topic, leaders
from tests.servers.zookeeper import ZooKeeper, connected
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_BATCH = 20
_SAFE = {"min.insync.replicas": 2, "unclean.leader.election.enable": "false"}


@pytest.fixture
def three_of_0_10(tmp_path: Path) -> Iterator[list[ZooKeeperKafka]]:
    """Three brokers of Kafka 0.10.2.2 on one ZooKeeper."""
    reaper = Reaper()
    with ExitStack() as stopping:
        stopping.callback(reaper.close)
        zookeeper = ZooKeeper(tmp_path / "zookeeper", reaper)
        stopping.callback(zookeeper.stop)
        zookeeper.start()
        brokers = [
            ZooKeeperKafka(tmp_path, reaper, "0.10.2.2", zookeeper=zookeeper, broker_id=each, settings=_SAFE)
            for each in range(3)
        ]
        for broker in brokers:
            stopping.callback(broker.stop)
            broker.start()
        yield brokers


@pytest.fixture
def three(kafka_cluster: KraftCluster) -> Iterator[KraftCluster]:
    """The cluster with all its brokers, and so it is left."""
    yield kafka_cluster
    for node, process in kafka_cluster.processes.items():
        if not process.running:
            kafka_cluster.restart(node)


@pytest.mark.restarts
def test_what_was_confirmed_is_there_after_a_leader_was_killed(
    three: KraftCluster, new_name: NewName
) -> None:
    bootstrap = three.bootstrap_servers
    topic = create_replicated_topic(bootstrap, new_name(), 3)
    handler = DefaultEventHandler(
        ClassicProducerConfig(
            metadata_broker_list=bootstrap,
            request_required_acks=-1,
            request_timeout_ms=5_000,
            message_send_max_retries=1_500,  # minutes: on a busy machine the controller may change as well
        )
    )
    killer = threading.Timer(0.3, three.kill, [leaders(bootstrap, topic)[0]])
    killer.start()
    sent = after_the_kill = 0
    while after_the_kill < 20:
        after_the_kill += not killer.is_alive()
        batch = [b"%d" % number for number in range(sent, sent + _BATCH)]
        handler.handle([KeyedMessage(topic, value, key=value) for value in batch])
        sent += _BATCH
    handler.close()
    killer.join()
    found = {message.value for message in pyklient.read(bootstrap, topic)}
    assert found == {b"%d" % number for number in range(sent)}


@pytest.mark.restarts
def test_an_asynchronous_producer_tells_what_it_dropped_while_a_leader_was_killed(
    three: KraftCluster, new_name: NewName
) -> None:
    """The last retry comes before the election of the next leader, so some messages are dropped."""
    bootstrap = three.bootstrap_servers
    send_while_a_leader_is_killed(bootstrap, create_replicated_topic(bootstrap, new_name()), three.kill)


@pytest.mark.long
@pytest.mark.java
def test_an_asynchronous_producer_tells_what_it_dropped_while_a_leader_of_0_10_was_killed(
    three_of_0_10: list[ZooKeeperKafka], new_name: NewName
) -> None:
    bootstrap = ",".join(broker.bootstrap_servers for broker in three_of_0_10)
    topic = new_name()
    with connected(three_of_0_10[0].zookeeper_connect) as client:
        content = {"version": 1, "partitions": {"0": [0, 1, 2]}}
        client.create(f"/brokers/topics/{topic}", json.dumps(content).encode(), makepath=True)
    wait_until(lambda: leaders(bootstrap, topic).get(0) == 0, 60, "a leader")
    send_while_a_leader_is_killed(bootstrap, topic, lambda broker_id: three_of_0_10[broker_id].kill())


def send_while_a_leader_is_killed(bootstrap: str, topic: str, kill: Callable[[int], object]) -> None:
    """Send to the only partition of *topic* until there is a new leader, and check what became of it."""
    dropped = Dropped()
    given = {
        "metadata.broker.list": bootstrap,
        "producer.type": "async",
        "request.required.acks": -1,
        "request.timeout.ms": 5_000,
        "queue.buffering.max.messages": 5 * _BATCH,
        "batch.num.messages": _BATCH,
    }
    producer = Producer.from_properties(given, "0.8", callback_handler=dropped)
    sent = 0

    def send(batches: int) -> None:
        nonlocal sent
        for number in range(sent, sent + batches * _BATCH):
            producer.send(KeyedMessage(topic, b"%d" % number))
        sent += batches * _BATCH

    send(20)
    killed = leaders(bootstrap, topic)[0]
    kill(killed)
    send(1)  # before the first look, which may take as long as the election
    while leaders(bootstrap, topic)[0] in (killed, -1):
        send(1)
    send(100)
    began = time.monotonic()
    producer.close(60)
    assert time.monotonic() - began < 30
    given_up = set(map(int, dropped.values))
    assert producer.dropped_count == len(dropped.values) == len(given_up) > 0
    assert sent - 1 not in given_up
    found = list(dict.fromkeys(int(each.value or b"") for each in pyklient.read(bootstrap, topic)))
    assert found == sorted(found)
    assert set(range(sent)) - given_up <= set(found) <= set(range(sent))
