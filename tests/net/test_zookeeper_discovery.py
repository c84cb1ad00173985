"""A client finds brokers in ZooKeeper, notices when they come and go, and continues while ZooKeeper is
away."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any

import pytest

from pyklient.errors import KafkaTimeoutError, RegistryError
from pyklient.net.dialogue import ANY, Ask
from pyklient.net.network_client import NetworkClient, NobodyThereError
from pyklient.net.zookeeper_discovery import RegisteredCluster, read_cluster
from pyklient.protocol.messages import HeartbeatRequest, HeartbeatResponse, MetadataRequest, MetadataResponse
from pyklient.registry.broker_nodes import BrokerEndpoint, BrokerNode, broker_content
from pyklient.registry.cluster_nodes import cluster_id_content, controller_content
from pyklient.registry.requests import Children, Node, Read, Together
from tests.net.chroot import Chroot
from tests.net.scripted import ScriptedBroker, config_for, metadata_of
from tests.servers.ports import HOST, free_port
from tests.servers.process import wait_until
from tests.servers.stalling_proxy import StallingProxy
from tests.servers.zookeeper_kafka import ZooKeeperKafka


@pytest.fixture
def chroot(zookeeper_kafka: ZooKeeperKafka) -> Iterator[Chroot]:
    chroot = Chroot(zookeeper_kafka.zookeeper.hosts)
    yield chroot
    chroot.client.stop()
    chroot.client.close()


def played(nodes: dict[str, bytes], protocol: str = "PLAINTEXT") -> RegisteredCluster:
    """Return what the dialogue makes of *nodes*. Each request must ask for a watch, but for the id."""

    def answer_to(request: object) -> Any:
        assert isinstance(request, Read | Children)
        assert request.watch or request.path == "/cluster/id"
        if isinstance(request, Read):
            return Node(nodes[request.path]) if request.path in nodes else None
        beginning = f"{request.path}/"
        return [path.removeprefix(beginning) for path in nodes if path.startswith(beginning)]

    dialogue = read_cluster(protocol)
    answer: Any = None
    try:
        while True:
            step = dialogue.send(answer)
            if isinstance(step, Together):
                answer = [answer_to(each) for each in step.requests]
            else:
                answer = answer_to(step)
    except StopIteration as end:
        found: RegisteredCluster = end.value
        return found


def test_what_zookeeper_knows_of_a_cluster_is_read_and_the_rest_is_left_out_with_a_reason() -> None:
    secure = BrokerNode(2, (BrokerEndpoint("CLIENT", "SSL", "two", 9093),))
    nodes = {
        "/brokers/ids/1": b"one-1400:one:9092",
        "/brokers/ids/2": broker_content(secure),
        "/brokers/ids/3": b"garbage",
        "/controller": controller_content(2, 1400),
        "/cluster/id": cluster_id_content("AAAAAAAAAAAAAAAAAAAAAQ"),
    }
    found = played(nodes)
    assert [broker.broker_id for broker in found.brokers] == [1]
    assert (found.controller_id, found.cluster_id) == (2, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert found.unusable[0] == "broker 2 has no address for PLAINTEXT, but for SSL"
    assert found.unusable[1].startswith("ZooKeeper's node /brokers/ids/3 cannot be understood")
    assert played(nodes, "SSL").brokers == (secure,)
    assert played({}) == RegisteredCluster((), -1, None)


@pytest.mark.java
def test_a_broker_that_comes_or_goes_is_noticed_and_the_rest_of_the_cluster_is_known(chroot: Chroot) -> None:
    with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        for broker in (first, second):
            broker.on(MetadataRequest, lambda _: metadata_of([]))  # as Kafka 0.8 says without topics
            broker.on(HeartbeatRequest, lambda _: HeartbeatResponse())
        chroot.add(first, version=1)
        chroot.write("/controller", controller_content(1, 1400))
        chroot.write("/cluster/id", cluster_id_content("id-of-the-cluster"))
        client = NetworkClient(chroot.config())
        changes: SimpleQueue[None] = SimpleQueue()
        client.on_cluster_change(lambda: changes.put(None))
        metadata = client.refresh_metadata((), 10)
        assert set(metadata.nodes) == {1}
        assert (metadata.controller_id, metadata.cluster_id) == (1, "id-of-the-cluster")
        chroot.add(second)
        changes.get(timeout=30)
        assert set(client.refresh_metadata((), 10).nodes) == {1, 2}
        chroot.remove(first)
        changes.get(timeout=30)
        first.close()
        assert set(client.refresh_metadata((), 10).nodes) == {2}
        client.ask(Ask(ANY, HeartbeatRequest()), 10)
        assert second.count(HeartbeatRequest) == 1
        chroot.write("/brokers/topics/new", b"{}")
        changes.get(timeout=30)
        client.close()


@pytest.mark.java
def test_no_broker_or_only_unusable_ones_is_an_error_that_says_so(chroot: Chroot) -> None:
    with closing(NetworkClient(chroot.config())) as client:
        check_that_unusable_brokers_are_told(chroot, client)
    with (
        closing(NetworkClient(config_for(zookeeper=f"{chroot.hosts}{chroot.path}/x"))) as missing,
        pytest.raises(RegistryError, match="which the address names as the chroot"),
    ):
        missing.refresh_metadata((), 10)


def check_that_unusable_brokers_are_told(chroot: Chroot, client: NetworkClient) -> None:
    expected = rf"no broker is registered in ZooKeeper at \S+ below {chroot.path}/brokers/ids; check that the"
    with pytest.raises(KafkaTimeoutError, match=expected):
        client.refresh_metadata((), 2)
    chroot.write("/brokers/ids/1", b"garbage")
    with pytest.raises(KafkaTimeoutError, match=r"can be used: ZooKeeper's node /brokers/ids/1 cannot be"):
        client.refresh_metadata((), 2)
    with ScriptedBroker(node_id=7) as broker:
        broker.on(MetadataRequest, lambda _: metadata_of([]))
        chroot.add(broker)
        assert set(client.refresh_metadata((), 10).nodes) == {7}


@pytest.mark.java
def test_a_broker_that_names_no_broker_is_completed_although_another_one_comes(chroot: Chroot) -> None:
    changes: SimpleQueue[None] = SimpleQueue()
    with (
        ScriptedBroker(node_id=7) as first,
        ScriptedBroker(node_id=8) as second,
        closing(NetworkClient(chroot.config())) as client,
    ):
        client.on_cluster_change(lambda: changes.put(None))

        def register_the_second(_request: MetadataRequest) -> MetadataResponse:
            chroot.add(second)
            changes.get(timeout=30)
            return metadata_of([])

        first.on(MetadataRequest, register_the_second)
        chroot.add(first)
        assert set(client.refresh_metadata((), 10).nodes) == {7}


@pytest.mark.java
def test_a_client_continues_while_zookeeper_is_away(chroot: Chroot) -> None:
    with StallingProxy(chroot.hosts) as proxy, ScriptedBroker(node_id=1) as first:
        first.on(MetadataRequest, lambda _: metadata_of([first]))
        chroot.add(first)
        client = NetworkClient(chroot.config(proxy.address, zookeeper_session_timeout_ms=2000))
        client.refresh_metadata((), 10)
        changes: SimpleQueue[None] = SimpleQueue()
        client.on_cluster_change(lambda: changes.put(None))
        proxy.refuse()
        changes.get(timeout=30)  # changes may go unnoticed from now on
        assert client.registry is not None
        wait_until(lambda: client.registry is None or client.registry.session_id is None, 60, "no session")
        began = time.monotonic()
        assert set(client.refresh_metadata((), 10).nodes) == {1}
        first.drop_connections()
        assert set(client.refresh_metadata((), 10).nodes) == {1}
        assert time.monotonic() - began < 6
        with ScriptedBroker(node_id=2) as second:
            second.on(MetadataRequest, lambda _: metadata_of([second]))
            chroot.add(second)
            while not changes.empty():
                changes.get()
            proxy.resume()
            changes.get(timeout=30)
            assert set(client.refresh_metadata((), 10).nodes) == {1, 2}
        client.close()


def test_zookeeper_that_is_down_at_the_start_is_an_error_unless_there_are_bootstrap_servers() -> None:
    zookeeper = f"{HOST}:{free_port()}/kafka"
    options = {"zookeeper": zookeeper, "zookeeper_connection_timeout_ms": 200}
    alone = NetworkClient(config_for(**options))
    said = rf"the last failed: ZooKeeper at {re.escape(zookeeper[:-6])} could not"
    with pytest.raises(KafkaTimeoutError, match=said):
        alone.refresh_metadata((), 1)
    alone.close()
    limited = NetworkClient(config_for(**options, bootstrap_refused_timeout_ms=100))
    with pytest.raises(
        NobodyThereError, match=r"refused.*bootstrap_refused_timeout_ms sets the time to wait"
    ):
        limited.refresh_metadata((), 10)
    limited.close()
    nowhere = config_for(zookeeper="nohost.invalid:2181", bootstrap_refused_timeout_ms=1000)
    unresolved = NetworkClient(nowhere)
    with pytest.raises(NobodyThereError, match="no address for the name of its host"):
        unresolved.refresh_metadata((), 30)
    unresolved.close()
    with ScriptedBroker() as broker:
        broker.on(MetadataRequest, lambda _: metadata_of([broker]))
        both = NetworkClient(config_for(broker, **options))
        assert set(both.refresh_metadata((), 10).nodes) == {broker.node_id}
        times = []
        for _ in range(5):  # the machine may be slow once, but a wait for ZooKeeper would come each time
            began = time.monotonic()
            both.refresh_metadata((), 10)
            times.append(time.monotonic() - began)
        assert min(times) < 0.15
        both.close()
