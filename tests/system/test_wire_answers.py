"""Answers whose exact bytes other clients rely on. What is expected is what Kafka sends."""

from typing import NamedTuple

import pytest

from pyklient import Producer
from pyklient.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.broker.handlers.test_fetch import request
from tests.broker.wire_client import WireClient
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.pool import Server
from tests.servers.process import wait_until
from tests.servers.topics import leaders

UNKNOWN = b"x" * 16
"""A topic id that no topic has."""

NO_OFFSET, NO_REPLICA, NULL, EMPTY = "ff" * 8, "ff" * 4, "ff" * 4, "00" * 4


class Address(NamedTuple):
    """The address at which a broker listens on this machine."""

    port: int


def connect(broker: Server) -> WireClient:
    return WireClient(Address(int(broker.bootstrap_servers.rpartition(":")[2])))


def written(broker: Server, topic: str) -> str:
    """Return *topic* once its leader has stored one record in it, at offset 0."""
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"v").result(timeout=30)
    return topic


def topic_id(broker: Server, name: str) -> bytes:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    with connect(broker) as client:
        return client.ask(asked, MetadataResponse, 12).topics[0].topic_id


def answer(broker: Server, asked: FetchRequest, version: int) -> str:
    """The bytes of the answer to one fetch, in hexadecimal digits, without the correlation id."""
    asked.replica_id = -1
    with connect(broker) as client:
        client.send(asked, version)
        return client.frame()[4:].hex()


def failed(error_code: int, version: int, *, aborted: str = NULL) -> str:
    """Return the end of the answer if its only partition, number 0, has failed."""
    if version >= 12:
        short = {NULL: "00", EMPTY: "01"}[aborted]
        return f"00000000{error_code:04x}{NO_OFFSET * 3}{short}{NO_REPLICA}01000000"
    offsets = NO_OFFSET * (1 if version < 4 else 2 if version < 5 else 3)
    transactions = aborted if version >= 4 else ""
    replica = NO_REPLICA if version >= 11 else ""
    return f"00000000{error_code:04x}{offsets}{transactions}{replica}{EMPTY}"


@pytest.mark.brokers(needs=["old requests"])
@pytest.mark.parametrize("version", range(4))
def test_a_partition_that_failed_has_no_records_rather_than_null_in_old_versions(
    any_broker: Server, new_topic: NewTopic, new_name: NewName, version: int
) -> None:
    beyond = answer(any_broker, request(7, topic=written(any_broker, new_topic())), version)
    assert beyond.endswith(failed(1, version))
    assert answer(any_broker, request(topic=new_name()), version).endswith(failed(3, version))


@pytest.mark.brokers(min="4.3")
@pytest.mark.parametrize("version", [4, 5, 7, 11, 12, 13, 18])
@pytest.mark.parametrize("session_epoch", [-1, 0], ids=["no session", "session"])
def test_a_partition_that_failed_has_no_records_rather_than_null(
    any_broker: Server, new_topic: NewTopic, new_name: NewName, version: int, session_epoch: int
) -> None:
    topic = written(any_broker, new_topic())
    identity = topic_id(any_broker, topic) if version >= 13 else bytes(16)
    beyond = request(7, topic=topic, identity=identity)
    nowhere = request(topic=new_name(), identity=UNKNOWN)
    beyond.session_epoch = nowhere.session_epoch = session_epoch
    assert answer(any_broker, beyond, version).endswith(failed(1, version))
    unknown = 3 if version < 13 else 100
    assert answer(any_broker, nowhere, version).endswith(failed(unknown, version, aborted=EMPTY))


@pytest.mark.brokers(min="4.3")
def test_a_session_answers_a_partition_that_still_fails_without_null_records(
    any_broker: Server, new_topic: NewTopic
) -> None:
    topic = written(any_broker, new_topic())
    opening = request(7, topic=topic)
    opening.replica_id, opening.session_epoch = -1, 0
    with connect(any_broker) as client:
        first = client.ask(opening, FetchResponse, 11)
        again = FetchRequest(replica_id=-1, session_id=first.session_id, session_epoch=1)
        client.send(again, 11)
        assert client.frame().hex().endswith(failed(1, 11))


@pytest.mark.brokers(min="2.4")
@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, NULL), (1, EMPTY)])
def test_aborted_transactions_are_null_unless_committed_records_are_asked_for(
    any_broker: Server, new_topic: NewTopic, isolation_level: int, aborted: str
) -> None:
    asked = request(1, topic=written(any_broker, new_topic()))
    asked.isolation_level = isolation_level
    at_end = f"000000000000{1:016x}{1:016x}{0:016x}{aborted}{NO_REPLICA}{EMPTY}"
    assert answer(any_broker, asked, 11).endswith(at_end)


@pytest.mark.brokers(min="2.4")
@pytest.mark.parametrize("version", [2, 3, 4, 7])
def test_topics_with_the_brokers_own_counts_are_created_in_every_version(
    any_broker: Server, new_name: NewName, version: int
) -> None:
    counts = [(-1, -1), (-1, 1), (2, -1)]
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=new_name(), num_partitions=partitions, replication_factor=factor
        )
        for partitions, factor in counts
    ]
    with connect(any_broker) as client:
        made = client.ask(CreateTopicsRequest(topics=topics), CreateTopicsResponse, version)
    assert [topic.error_code for topic in made.topics] == [0, 0, 0]
    sizes = dict(zip((topic.name for topic in topics), (1, 1, 2), strict=True))
    wait_until(
        lambda: {name: len(leaders(any_broker.bootstrap_servers, name)) for name in sizes} == sizes,
        30,
        "the topics with their partitions",
    )


BOOLEAN, STRING, INT, SHORT, LONG, LIST = 1, 2, 3, 4, 5, 7
BROKER_SETTINGS = {
    "advertised.listeners": LIST,
    "auto.create.topics.enable": BOOLEAN,
    "broker.id": INT,
    "broker.rack": STRING,
    "compression.type": STRING,
    "connections.max.idle.ms": LONG,
    "default.replication.factor": INT,
    "delete.topic.enable": BOOLEAN,
    "fetch.max.bytes": INT,
    "group.initial.rebalance.delay.ms": INT,
    "group.max.session.timeout.ms": INT,
    "group.max.size": INT,
    "group.min.session.timeout.ms": INT,
    "inter.broker.listener.name": STRING,
    "listener.security.protocol.map": STRING,
    "listeners": LIST,
    "log.cleanup.policy": LIST,
    "log.dirs": LIST,
    "log.index.interval.bytes": INT,
    "log.index.size.max.bytes": INT,
    "log.message.timestamp.type": STRING,
    "log.retention.bytes": LONG,
    "log.retention.check.interval.ms": LONG,
    "log.retention.ms": LONG,
    "log.segment.bytes": INT,
    "max.connections": INT,
    "max.incremental.fetch.session.cache.slots": INT,
    "message.max.bytes": INT,
    "min.insync.replicas": INT,
    "node.id": INT,
    "num.partitions": INT,
    "offset.metadata.max.bytes": INT,
    "offsets.topic.replication.factor": SHORT,
    "security.inter.broker.protocol": STRING,
    "socket.request.max.bytes": INT,
    "unclean.leader.election.enable": BOOLEAN,
}
"""Settings of a broker that admin clients ask for, and the types that Kafka gives them."""


@pytest.mark.brokers(min="4.3")
@pytest.mark.parametrize("names", [None, [], list(BROKER_SETTINGS)], ids=["null", "empty", "by name"])
def test_a_broker_tells_its_settings_with_the_types_of_kafka(
    any_broker: Server, names: list[str] | None
) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=names
    )
    with connect(any_broker) as client:
        asked = DescribeConfigsRequest(resources=[resource])
        [told] = client.ask(asked, DescribeConfigsResponse, 4).results
    found = {config.name: config for config in told.configs}
    assert {name: found[name].config_type for name in BROKER_SETTINGS} == BROKER_SETTINGS
    values = {name: config.value for name, config in found.items()}
    address = f"PLAINTEXT://{any_broker.bootstrap_servers}"
    assert values["advertised.listeners"] == address
    inside = "PLAINTEXT://0.0.0.0:9092"  # a container is reached under another address than it listens on
    assert str(values["listeners"]).split(",")[0] == (inside if any_broker.name == "container" else address)
    assert (values["broker.id"], values["node.id"], values["broker.rack"]) == ("1", "1", None)
    for name in ("default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor"):
        assert values[name] == "1"
    assert values["inter.broker.listener.name"] == "PLAINTEXT"
    if names:
        assert set(found) == set(names)
