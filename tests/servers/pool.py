"""The servers of one test run: each started when it is first needed, two at a time, stopped at the end."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest

from tests.servers.kafka import KraftCluster, ZooKeeperKafka
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.secure import SecureBroker

__all__ = ["OWN_SERVERS", "SERVERS", "ExternalKafka", "Server", "ServerPool"]


class Server(Protocol):
    """A broker of a test run, or several that form a cluster."""

    name: str

    @property
    def bootstrap_servers(self) -> str: ...

    def start(self) -> None:
        """Start, and return when it serves."""

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""

    def restart(self) -> None:
        """Start again after :meth:`kill`, on the same port and data; return when it serves."""

    def stop(self) -> None:
        """End it for good."""

    def logs(self) -> dict[str, str]:
        """The end of each log, by what to call it."""


class ExternalKafka:
    """A running cluster that is not ours to start or stop."""

    name = "external"

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def start(self) -> None:
        """It runs."""

    stop = start

    def kill(self) -> None:
        raise PermissionError(f"{self.bootstrap_servers} was given to this run and is not its own to stop")

    restart = kill

    def logs(self) -> dict[str, str]:
        return {}


SERVERS = pytest.StashKey["ServerPool"]()
"""The pool of the run, once a test has used it."""

OWN_SERVERS = {"kafka_cluster": "cluster", "reference_broker": "reference", "secure_kafka": "secure"}
"""Fixtures that stand for one server each, by the server's name in the pool."""


class ServerPool:
    """All servers by name. ``prepare`` starts some in the background; ``get`` returns one that serves."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reaper = Reaper()
        self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="start-server")
        self._starting: dict[str, Future[Server]] = {}
        self._made: list[Server] = []
        self._serial = itertools.count(1)

    def prepare(self, names: Iterable[str]) -> None:
        """Start the servers *names* in the background, in this order, unless they run."""
        for name in names:
            if name not in self._starting:
                self._starting[name] = self._executor.submit(self._start, name)

    def get(self, name: str) -> Server:
        """Server *name*, started if need be. What kept it from starting is raised, each time."""
        self.prepare([name])
        return self._starting[name].result(timeout=300)

    def start_reference(self, settings: Mapping[str, object]) -> ReferenceBroker:
        """Another reference broker, with settings of its own, for the caller to stop."""
        number = next(self._serial)
        broker = ReferenceBroker(self._directory / f"reference-{number}", self._reaper, settings)
        self._made.append(broker)
        broker.start()
        return broker

    def logs(self) -> Iterator[tuple[str, str]]:
        """The end of the logs of all servers made so far."""
        for server in self._made:
            yield from server.logs().items()

    def close(self) -> None:
        """Stop everything."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        for server in self._made:
            server.stop()
        self._reaper.close()

    def _start(self, name: str) -> Server:
        make = _MAKERS[name]
        server = make(self._directory / name, self._reaper)
        self._made.append(server)
        server.start()
        return server


def _container(directory: Path, reaper: Reaper) -> Server:
    from tests.containers.kafka import ContainerKafka

    return ContainerKafka(directory)


_MAKERS: dict[str, Callable[[Path, Reaper], Server]] = {
    "cluster": lambda directory, reaper: KraftCluster(
        directory, reaper, brokers=3, settings={"auto.create.topics.enable": "false"}
    ),
    "container": _container,
    "kafka-2.8.2": ZooKeeperKafka,
    "kafka-4.3.1": KraftCluster,
    "reference": ReferenceBroker,
    "secure": SecureBroker,
}
