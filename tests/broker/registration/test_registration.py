"""The reference broker registers in a real ZooKeeper, where clients find it, and Scala's too."""

import json
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyklient import Admin, ConsumerConnector, Producer, read
from pyklient.broker import Broker
from pyklient.error_codes import ErrorCode
from pyklient.errors import ClosedError, ConfigurationError, RegistryConnectionError, RegistryError
from pyklient.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pyklient.registry.broker_nodes import BrokerEndpoint, BrokerNode, broker_content, parse_broker
from pyklient.registry.topic_nodes import parse_topic
from tests.broker.wire_client import WireClient
from tests.servers.fixtures import NewName
from tests.servers.java import java_command
from tests.servers.ports import HOST, free_port
from tests.servers.process import wait_until
from tests.servers.stalling_proxy import StallingProxy
from tests.servers.zookeeper import connected, new_chroot
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.java


@pytest.fixture
def address(zookeeper_kafka: ZooKeeperKafka) -> str:
    return new_chroot(zookeeper_kafka.zookeeper.hosts)


@pytest.fixture
def zookeeper(address: str) -> Iterator[KazooClient]:
    with connected(address) as client:
        yield client


def tree(client: KazooClient, path: str = "") -> dict[str, Any]:
    """Return all nodes below *path*, with what the JSON or text in them says."""
    found: dict[str, Any] = {}
    for name in client.get_children(path or "/"):
        found[f"{path}/{name}"] = content(client, f"{path}/{name}")
        found |= tree(client, f"{path}/{name}")
    return found


def content(client: KazooClient, path: str) -> Any:
    """Return what the JSON or text in the node at *path* says."""
    text = (client.get(path)[0] or b"").decode()
    return json.loads(text) if text.startswith("{") else text


def appears(client: KazooClient, path: str) -> None:
    wait_until(lambda: client.exists(path) is not None, 20, path)


def vanishes(client: KazooClient, path: str) -> None:
    wait_until(lambda: client.exists(path) is None, 60, f"the deletion of {path}")


def test_a_zookeeper_that_is_not_there_is_an_error_when_the_time_of_a_session_has_passed() -> None:
    began = time.monotonic()
    with pytest.raises(RegistryConnectionError, match=r"could not be reached within 0\.3 s"):
        Broker(zookeeper=f"{HOST}:{free_port()}", zookeeper_session_timeout_ms=300).start()
    assert time.monotonic() - began < 20


def test_the_nodes_are_those_of_a_real_broker(
    zookeeper_kafka: ZooKeeperKafka, address: str, zookeeper: KazooClient, new_name: NewName
) -> None:
    topic = new_name()
    config = {"retention.ms": "60000"}
    with Broker(node_id=0, zookeeper=address) as broker:
        broker.create_topic(topic, 2, config)
        appears(zookeeper, f"/brokers/topics/{topic}/partitions/1/state")
        appears(zookeeper, f"/config/topics/{topic}")
        ours = tree(zookeeper)
        port = broker.port
    zookeeper_kafka.create_topic(topic, 2, **{"retention.ms": "60000"})
    with connected(zookeeper_kafka.zookeeper_connect) as client:
        theirs = {path: content(client, path) for path in ours}
    for path, written in ours.items():
        assert type(written) is type(theirs[path]), path
        if isinstance(written, dict) and isinstance(theirs[path], dict):
            # The tests' helper writes version 1 of a topic, as the tools of old brokers do.
            expected = theirs[path].keys() | (
                {"topic_id", "adding_replicas", "removing_replicas"} & written.keys()
            )
            assert written.keys() == expected, path
    state = f"/brokers/topics/{topic}/partitions/1/state"
    assert ours[f"/config/topics/{topic}"] == theirs[f"/config/topics/{topic}"]
    assert theirs[state] == {**ours[state], "controller_epoch": int(theirs["/controller_epoch"])}
    assert parse_topic(topic, json.dumps(ours[f"/brokers/topics/{topic}"]).encode()).replicas == {
        0: (0,),
        1: (0,),
    }
    node = parse_broker(0, json.dumps(ours["/brokers/ids/0"]).encode())
    assert node.endpoints == (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),)
    assert (ours["/controller_epoch"], ours["/controller"]["brokerid"]) == ("1", 0)
    assert "/brokers/ids/0" not in tree(zookeeper)


def test_topics_that_come_grow_and_go_are_mirrored(address: str, zookeeper: KazooClient) -> None:
    with Broker(zookeeper=address) as broker, Admin(zookeeper=address) as admin:
        broker.create_topic("stays", 1)
        admin.create_topic("goes", 1)
        appears(zookeeper, "/config/topics/goes")
        admin.create_partitions("stays", 3)
        admin.delete_topic("goes")
        appears(zookeeper, "/brokers/topics/stays/partitions/2/state")
        vanishes(zookeeper, "/brokers/topics/goes")
        vanishes(zookeeper, "/config/topics/goes")
        assert zookeeper.get_children("/brokers/topics") == ["stays"]


def test_a_broker_serves_the_topics_that_zookeeper_has_under_its_cluster_id(
    address: str, zookeeper: KazooClient, tmp_path: Path
) -> None:
    with Broker(zookeeper=address) as first:
        first.create_topic("clicks", 3, {"retention.ms": "60000"})
        appears(zookeeper, "/brokers/topics/clicks/partitions/2/state")
    before = json.loads(zookeeper.get("/cluster/id")[0])
    zookeeper.create("/brokers/topics/garbage", b"garbage")
    with Broker(zookeeper=address, data_dir=tmp_path / "kept") as second, WireClient(second) as client:
        found = client.offset_at("clicks", 2, -1)
        assert found[0] == 0
        assert json.loads(zookeeper.get("/cluster/id")[0]) == before
        assert zookeeper.get("/controller_epoch")[0] == b"2"
    other = new_chroot(address.partition("/")[0])
    Broker(zookeeper=other).start().close()
    with pytest.raises(
        ConfigurationError, match=r"belongs to the cluster \S+, but the chroot in ZooKeeper belongs to"
    ):
        Broker(zookeeper=other, data_dir=tmp_path / "kept").start()


def test_an_id_that_is_taken_and_other_brokers_are_errors(address: str, zookeeper: KazooClient) -> None:
    with Broker(zookeeper=address):
        taken = r"the node /brokers/ids/1 in ZooKeeper belongs to another broker, .*; choose another node_id"
        with pytest.raises(ConfigurationError, match=taken):
            Broker(zookeeper=address).start()
        with pytest.raises(
            ConfigurationError, match=r"other brokers are registered .*\(1\), but the reference"
        ):
            Broker(zookeeper=address, node_id=2).start()
    with pytest.raises(RegistryError, match="which the address names as the chroot"):
        Broker(zookeeper=f"{address}/typo").start()
    with pytest.raises(ConfigurationError, match=r"'' is not host:port"):
        Broker(zookeeper="")


def test_a_node_that_the_broker_left_behind_is_waited_for(address: str, zookeeper: KazooClient) -> None:
    with Broker() as broker:
        port = broker.port
    node = BrokerNode(1, (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),))
    crashed = KazooClient(address)
    crashed.start()
    crashed.create("/brokers/ids/1", broker_content(node), ephemeral=True, makepath=True)
    crashing = threading.Event()

    def crash() -> None:
        crashing.set()
        crashed.stop()

    timer = threading.Timer(0.5, crash)
    timer.start()
    with Broker(port, zookeeper=address):
        assert crashing.is_set()
        assert parse_broker(1, zookeeper.get("/brokers/ids/1")[0]).endpoints == node.endpoints
    timer.join(30)
    crashed.close()


def test_a_broker_is_registered_again_after_its_session_has_expired(
    zookeeper_kafka: ZooKeeperKafka, address: str, zookeeper: KazooClient
) -> None:
    hosts, slash, chroot = address.partition("/")
    with (
        StallingProxy(hosts) as proxy,
        Broker(zookeeper=f"{proxy.address}{slash}{chroot}", zookeeper_session_timeout_ms=2000) as broker,
    ):
        broker.create_topic("before")
        appears(zookeeper, "/config/topics/before")
        session = zookeeper.get("/brokers/ids/1")[1].owner_session_id
        proxy.stall()
        zookeeper_kafka.zookeeper.wait_gone(f"/{chroot}/brokers/ids/1")
        broker.create_topic("meanwhile")
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("meanwhile", b"served").result(30)
        proxy.resume()
        appears(zookeeper, "/brokers/ids/1")
        assert zookeeper.get("/brokers/ids/1")[1].owner_session_id != session
        appears(zookeeper, "/brokers/topics/meanwhile/partitions/0/state")
        wait_until(lambda: zookeeper.get("/controller_epoch")[0] == b"2", 60, "a second controller epoch")


def test_a_broker_stops_if_another_one_has_its_id_when_its_session_has_expired(
    zookeeper_kafka: ZooKeeperKafka,
    address: str,
    zookeeper: KazooClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hosts, slash, chroot = address.partition("/")
    other = BrokerNode(1, (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9092),))
    with (
        StallingProxy(hosts) as proxy,
        Broker(zookeeper=f"{proxy.address}{slash}{chroot}", zookeeper_session_timeout_ms=2000) as broker,
    ):
        port = broker.port
        proxy.stall()
        zookeeper_kafka.zookeeper.wait_gone(f"/{chroot}/brokers/ids/1")
        zookeeper.create("/brokers/ids/1", broker_content(other), ephemeral=True)
        proxy.resume()
        taken = "the node /brokers/ids/1 in ZooKeeper belongs to another broker, which is running"
        with pytest.raises(ConfigurationError, match=taken):
            broker.wait(20)
        with pytest.raises(ClosedError, match=f"has stopped because of an error: .*{taken}"):
            broker.create_topic("t")
    assert f"<Broker 127.0.0.1:{port}> stops because of an error: {taken}" in caplog.text
    assert parse_broker(1, zookeeper.get("/brokers/ids/1")[0]) == other


def test_a_broker_serves_its_clients_while_zookeeper_does_not_answer_the_end_of_the_session(
    address: str,
) -> None:
    def ends_session() -> bool:
        return any(each.name == "pyklient-zookeeper-stop" for each in threading.enumerate())

    hosts, slash, chroot = address.partition("/")
    with (
        StallingProxy(hosts) as proxy,
        Broker(zookeeper=f"{proxy.address}{slash}{chroot}", zookeeper_session_timeout_ms=6000) as broker,
        WireClient(broker) as client,
    ):
        broker.create_topic("t")
        proxy.stall()
        closing = threading.Thread(target=broker.close)
        closing.start()
        wait_until(ends_session, 60, "the end of the session")
        assert client.offset_at("t", 0, -1)[0] == 0
        assert ends_session()
        proxy.resume()
        closing.join(30)
        assert not closing.is_alive()


def test_clients_follow_a_broker_that_moves_to_another_address(address: str, tmp_path: Path) -> None:
    options: Any = {"zookeeper": address, "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
    with Producer(zookeeper=address) as producer, ConsumerConnector(**options) as connector:
        with Broker(zookeeper=address, data_dir=tmp_path / "data") as broker:
            before = broker.port
            producer.send("clicks", b"before").result(30)
            messages = iter(connector.stream("clicks"))
            assert next(messages).value == b"before"
        with Broker(zookeeper=address, data_dir=tmp_path / "data") as broker:
            assert broker.port != before
            producer.send("clicks", b"after").result(30)
            assert next(messages).value == b"after"


def test_offsets_of_version_0_are_in_zookeeper(address: str, zookeeper: KazooClient) -> None:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    fetched = OffsetFetchRequest.OffsetFetchRequestTopic

    def commit(client: WireClient, topic: str, offset: int, group: str = "g", version: int = 0) -> int:
        one = kind.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(group_id=group, topics=[kind(name=topic, partitions=[one])])
        return client.ask(request, OffsetCommitResponse, version).topics[0].partitions[0].error_code

    def fetch(client: WireClient, version: int = 0) -> list[tuple[int, int]]:
        request = OffsetFetchRequest(group_id="g", topics=[fetched(name="t", partition_indexes=[0, 1])])
        answer = client.ask(request, OffsetFetchResponse, version).topics[0].partitions
        return [(one.committed_offset, one.error_code) for one in answer]

    with Broker(zookeeper=address, num_partitions=2) as broker, WireClient(broker) as client:
        broker.create_topic("t", 2)
        assert fetch(client) == [(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 2
        for offset in (7, 5):
            assert commit(client, "t", offset) == 0
            assert zookeeper.get("/consumers/g/offsets/t/0")[0] == str(offset).encode()
        assert fetch(client) == [(5, 0), (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert fetch(client, 1) == [(-1, 0), (-1, 0)]
        assert commit(client, "missing", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert commit(client, "t", 1, "../x") == ErrorCode.INVALID_GROUP_ID
        zookeeper.set("/consumers/g/offsets/t/0", b"garbage")
        assert fetch(client)[0] == (-1, ErrorCode.UNKNOWN_SERVER_ERROR)
    with Broker() as broker, WireClient(broker) as client:
        broker.create_topic("t", 2)
        assert commit(client, "t", 1) == ErrorCode.UNSUPPORTED_VERSION
        assert fetch(client) == [(-1, ErrorCode.UNSUPPORTED_VERSION)] * 2


def test_scalas_producer_and_consumer_use_the_broker(oldest_kafka: ZooKeeperKafka, tmp_path: Path) -> None:
    address = new_chroot(oldest_kafka.zookeeper.hosts)
    topic = uuid.uuid4().hex
    with Broker(zookeeper=address) as broker:
        broker.create_topic(topic, 2)
        with Producer(zookeeper=address) as producer:
            for number in range(20):
                producer.send(topic, f"ours {number}".encode(), partition=number % 2)
        command = java_command(
            oldest_kafka.libs,
            "kafka.tools.ConsoleProducer",
            *("--broker-list", broker.bootstrap_servers, "--topic", topic),
            heap="64m",
        )
        subprocess.run(command, input=b"theirs 1\ntheirs 2\n", cwd=tmp_path, check=True, timeout=60)
        expected = {f"ours {number}" for number in range(20)} | {"theirs 1", "theirs 2"}
        assert {(each.value or b"").decode() for each in read(topics=topic, zookeeper=address)} == expected
        command = java_command(
            oldest_kafka.libs,
            "kafka.tools.ConsoleConsumer",
            *("--zookeeper", address, "--topic", topic, "--from-beginning", "--max-messages", "22"),
            heap="64m",
        )
        ran = subprocess.run(command, cwd=tmp_path, check=True, timeout=60, capture_output=True, text=True)
        assert set(ran.stdout.splitlines()) == expected
