"""The classic producer on three brokers, of which one is killed while messages are sent to it."""

import threading
from collections.abc import Iterator

import pytest

import pyklient
from pyklient import ClassicProducerConfig, KeyedMessage
from pyklient.classic.default_event_handler import DefaultEventHandler
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.topics import create_topic, leaders

_BATCH = 20


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
    topic = create_topic(bootstrap, new_name(), 3)
    handler = DefaultEventHandler(
        ClassicProducerConfig(
            metadata_broker_list=bootstrap,
            request_required_acks=-1,
            request_timeout_ms=5_000,
            message_send_max_retries=100,
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
