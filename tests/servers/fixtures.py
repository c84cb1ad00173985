"""Brokers as fixtures, shared by all tests of a run, with topics and groups that no other test uses."""

import itertools
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from tests.servers.kafka import KraftCluster
from tests.servers.pool import OWN_SERVERS, SERVERS, ExternalKafka, Server, ServerPool
from tests.servers.reference import ReferenceBroker
from tests.servers.secure import SecureBroker
from tests.servers.topics import create_topic

__all__ = ["NewName", "NewTopic", "StartReference"]

_serial = itertools.count(1)


class NewTopic(Protocol):
    """Creates a topic that only this test uses; returns its name."""

    def __call__(self, partitions: int = 1, **config: object) -> str: ...


NewName = Callable[[], str]


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPool]:
    """All servers of this run. Those that the collected tests will need start right away."""
    pool = ServerPool(tmp_path_factory.mktemp("servers"))
    request.config.stash[SERVERS] = pool
    pool.prepare(_needed(request.session.items))
    yield pool
    pool.close()


def _needed(items: list[pytest.Item]) -> dict[str, None]:
    """Names of the servers that *items* use, in the order of first use."""
    needed: dict[str, None] = {}
    for item in items:
        if isinstance(item, pytest.Function):
            callspec = getattr(item, "callspec", None)
            broker = callspec.params.get("any_broker") if callspec else None
            names = [broker, *(name for fixture, name in OWN_SERVERS.items() if fixture in item.fixturenames)]
            needed.update({name: None for name in names if name and name != "external"})
    return needed


@pytest.fixture(scope="session")
def any_broker(request: pytest.FixtureRequest) -> Server:
    """Each broker that the suite runs on, in turn."""
    if request.param == "external":
        return ExternalKafka(request.config.getoption("--bootstrap-servers"))
    servers: ServerPool = request.getfixturevalue("servers")
    return servers.get(request.param)


@pytest.fixture(scope="session")
def kafka_cluster(servers: ServerPool) -> KraftCluster:
    """Three brokers of Kafka 4.3.1; replication factor 3, two in-sync replicas at least."""
    server = servers.get("cluster")
    assert isinstance(server, KraftCluster)
    return server


@pytest.fixture(scope="session")
def secure_kafka(servers: ServerPool) -> SecureBroker:
    """A broker of Kafka 4.3.1 with TLS and SASL."""
    server = servers.get("secure")
    assert isinstance(server, SecureBroker)
    return server


@pytest.fixture(scope="session")
def reference_broker(servers: ServerPool) -> ReferenceBroker:
    """pyklient's own broker in a process of its own."""
    server = servers.get("reference")
    assert isinstance(server, ReferenceBroker)
    return server


@pytest.fixture
def bootstrap(any_broker: Server) -> str:
    """``host:port`` of the broker that the suite runs on."""
    return any_broker.bootstrap_servers


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> NewName:
    """Names for topics and groups that no other test, of this run or another, uses."""
    words = re.sub(r"\W+", "-", request.node.name)[:60].strip("-")
    return lambda: f"{words}-{next(_serial)}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def new_topic(bootstrap: str, new_name: NewName) -> NewTopic:
    """Creates topics on the broker that the suite runs on."""

    def new_topic(partitions: int = 1, **config: object) -> str:
        return create_topic(bootstrap, new_name(), partitions, config)

    return new_topic


class StartReference(Protocol):
    """Starts a reference broker with settings of its own."""

    def __call__(self, **settings: object) -> ReferenceBroker: ...


@pytest.fixture
def start_reference(servers: ServerPool) -> Iterator[StartReference]:
    """Starts reference brokers that only this test uses, and stops them after it."""
    started: list[ReferenceBroker] = []

    def start_reference(**settings: object) -> ReferenceBroker:
        started.append(servers.start_reference(settings))
        return started[-1]

    yield start_reference
    for broker in started:
        broker.stop()
