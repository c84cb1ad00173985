"""Brokers as fixtures, shared by all tests of a run, with topics and groups that no other test uses."""

import itertools
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.run import groups
from tests.servers.fetch import fetch, things
from tests.servers.kafka import KraftCluster
from tests.servers.kinds import KINDS
from tests.servers.maven import FetchError
from tests.servers.memory_folder import memory_folder
from tests.servers.pool import SERVERS, ExternalKafka, Server, ServerPool
from tests.servers.postgres import Postgres
from tests.servers.programs import MissingProgramError
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.secure import SecureBroker
from tests.servers.topics import create_topic
from tests.servers.zookeeper_kafka import ZooKeeperKafka

__all__ = ["NewName", "NewTopic", "StartReference"]

_serial = itertools.count(1)
_NEEDED = 4 * 2**30
"""The bytes of memory that must be free for the files of servers. They take less than half of it."""


class NewTopic(Protocol):
    """Creates a topic that only this test uses, and returns its name."""

    def __call__(self, partitions: int = 1, **config: object) -> str: ...


NewName = Callable[[], str]


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[ServerPool]:
    """The servers of this process. Each starts shortly before its first test, and stops after its last."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    uses = groups.uses(request.session.items, worker, count)
    directory = tempfile.mkdtemp(prefix="pyklient-servers-", dir=memory_folder(_NEEDED))
    pool = ServerPool(Path(directory), uses)
    request.config.stash[SERVERS] = pool
    yield pool
    pool.close()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch what the servers of the collected tests need, before the first test begins."""
    needed = {name for use in groups.uses(session.items, None, 1) for name in use.servers if name in KINDS}
    jars = sorted({version for name in needed for version in KINDS[name].jars})
    if not jars or session.config.option.collectonly:
        return
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    try:
        fetch(things(jars, spark=False), terminal.write_line if terminal else lambda _: None)
    except (MissingProgramError, FetchError) as error:
        if terminal:
            raise pytest.UsageError(f"{error}\nWithout Java: -m 'not java'") from None
        # A worker of xdist cannot say it here. Each test that needs a server will.


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if (pool := item.config.stash.get(SERVERS, None)) is not None:
        pool.before(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    yield
    if (pool := item.config.stash.get(SERVERS, None)) is not None:
        pool.after(item.nodeid)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of this process."""
    reaper = Reaper()
    server = Postgres(reaper)
    yield server
    server.close()
    reaper.close()


@pytest.fixture(scope="session")
def any_broker(request: pytest.FixtureRequest) -> Server:
    """Each broker that the suite runs on, in turn."""
    if request.param == "external":
        return ExternalKafka(request.config.getoption("--bootstrap-servers"))
    servers: ServerPool = request.getfixturevalue("servers")
    return servers.get(request.param)


@pytest.fixture(scope="session")
def kafka_cluster(servers: ServerPool) -> KraftCluster:
    """Three brokers of Kafka 4.3.1, with replication factor 3 and at least two in-sync replicas."""
    return servers.get_as(KraftCluster, "cluster")


@pytest.fixture(scope="session")
def newest_kafka(servers: ServerPool) -> KraftCluster:
    """One broker of Kafka 4.3.1, the same broker that ``any_broker`` uses."""
    return servers.get_as(KraftCluster, "kafka-4.3.1")


@pytest.fixture(scope="session")
def secure_kafka(servers: ServerPool) -> SecureBroker:
    """A broker of Kafka 4.3.1 with TLS and SASL."""
    return servers.get_as(SecureBroker, "secure")


@pytest.fixture(scope="session")
def zookeeper_kafka(servers: ServerPool) -> ZooKeeperKafka:
    """A broker of Kafka 2.8.2 and its ZooKeeper, the same that ``any_broker`` uses."""
    return servers.get_as(ZooKeeperKafka, "kafka-2.8.2")


@pytest.fixture(scope="session")
def oldest_kafka(servers: ServerPool) -> ZooKeeperKafka:
    """A broker of Kafka 0.8.2.2 and its ZooKeeper."""
    return servers.get_as(ZooKeeperKafka, "kafka-0.8.2.2")


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=pytest.mark.uses(name)) for name in ("kafka-2.8.2", "kafka-0.8.2.2")],
)
def old_and_new_zookeeper_kafka(request: pytest.FixtureRequest, servers: ServerPool) -> ZooKeeperKafka:
    """A broker of Kafka 2.8.2 and one of 0.8.2.2, in turn, each with its ZooKeeper."""
    return servers.get_as(ZooKeeperKafka, request.param)


@pytest.fixture(scope="session")
def reference_broker(servers: ServerPool) -> ReferenceBroker:
    """The reference broker in a separate process."""
    return servers.get_as(ReferenceBroker, "reference")


@pytest.fixture
def bootstrap(any_broker: Server) -> str:
    """The ``host:port`` of the broker on which the suite runs."""
    return any_broker.bootstrap_servers


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> NewName:
    """Returns names for topics and groups that no other test uses, in this run or another."""
    words = re.sub(r"\W+", "-", request.node.name)[:60].strip("-")
    return lambda: f"{words}-{next(_serial)}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def new_topic(bootstrap: str, new_name: NewName) -> NewTopic:
    """Creates topics on the broker on which the suite runs."""

    def new_topic(partitions: int = 1, **config: object) -> str:
        return create_topic(bootstrap, new_name(), partitions, config)

    return new_topic


class StartReference(Protocol):
    """Starts a reference broker with its own settings."""

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
