"""Real Kafka 4.3.1 as child processes: clusters in KRaft mode."""

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.servers.java import QUICK_JVM, java_command
from tests.servers.maven import kafka_libs
from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerFailedError, ServerProcess
from tests.servers.reaper import Reaper
from tests.servers.topics import forget_admins, serves

__all__ = [
    "LOGGING",
    "NEWEST",
    "QUICK",
    "KraftCluster",
    "kraft_properties",
    "new_cluster_id",
    "properties_text",
]

NEWEST = "4.3.1"
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
"""The options of a broker's JVM that make its log short."""

QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    "num.io.threads": 2,
    "num.network.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "transaction.state.log.num.partitions": 4,
}
"""The settings with which a broker of the tests starts fast, uses little memory and removes dead members
soon."""


def new_cluster_id() -> str:
    """Return a cluster id in the form that Kafka's tools expect: 16 bytes in base64 that do not begin with a
    dash."""
    return base64.urlsafe_b64encode(b"\x00" + os.urandom(15)).decode().rstrip("=")


def properties_text(properties: Mapping[str, object]) -> str:
    """Return *properties* in the form that Java reads from a file."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def kraft_properties(
    node: int,
    voters: Mapping[int, str],
    listeners: Mapping[str, str],
    advertised: Mapping[str, str],
    data: str,
) -> dict[str, object]:
    """Return the properties of a broker that is also a controller.

    ``voters`` are the controllers of all nodes by id, ``listeners`` and ``advertised`` addresses by listener.
    """
    replicas = min(3, len(voters))
    in_sync = max(1, replicas - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{other}@{address}" for other, address in voters.items()),
        "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 3000,
        "controller.quorum.election.timeout.ms": 500,
        "controller.quorum.fetch.timeout.ms": 1000,
        **QUICK,
    }


class KraftCluster:
    """Brokers of Kafka 4.3.1, each of which is also a controller. Nodes are numbered from 1.

    ``settings`` apply to every broker. ``listeners`` adds listeners, name → protocol, each with a free port
    (see ``endpoint``). ``scram`` are users, name → password, created with both mechanisms. ``heap`` and
    ``jvm`` apply to each broker.
    """

    def __init__(
        self,
        directory: Path,
        reaper: Reaper,
        *,
        brokers: int = 1,
        settings: Mapping[str, object] | None = None,
        listeners: Mapping[str, str] | None = None,
        scram: Mapping[str, str] | None = None,
        heap: str = "384m",
        jvm: tuple[str, ...] = QUICK_JVM,
    ) -> None:
        self.name = f"kafka-{NEWEST}"
        self._libs = kafka_libs(NEWEST)
        self._listeners = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **(listeners or {})}
        self._scram = dict(scram or {})
        self._ports = {
            node: {name: free_port() for name in self._listeners} for node in range(1, brokers + 1)
        }
        self._cluster_id = new_cluster_id()
        self.processes: dict[int, ServerProcess] = {}
        for node in self._ports:
            home = directory / f"node-{node}"
            home.mkdir(parents=True)
            properties = home / "server.properties"
            properties.write_text(self._properties(node, home, settings or {}))
            command = java_command(
                self._libs, "kafka.Kafka", str(properties), heap=heap, jvm=jvm, options=LOGGING
            )
            self.processes[node] = ServerProcess(f"{self.name}-node-{node}", command, home, reaper)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{ports['PLAINTEXT']}" for ports in self._ports.values())

    def endpoint(self, listener: str, node: int = 1) -> int:
        """Return the port of *listener* on *node*."""
        return self._ports[node][listener]

    def start(self) -> None:
        """Format the storage, start all nodes at once, and return when each node knows all of them."""
        for node in self.processes:
            self._format(node)
        for process in self.processes.values():
            process.launch()
        for node in self.processes:
            self._wait_ready(node)

    def kill(self, node: int = 1) -> None:
        """Send SIGKILL to one broker."""
        self.processes[node].kill()

    def restart(self, node: int = 1) -> None:
        """Start a broker that was killed, on the same port and data. Return when it serves."""
        self.processes[node].launch()
        self._wait_ready(node)
        forget_admins()

    def stop(self) -> None:
        """End all nodes. Their data is deleted, so nobody waits for it to be written."""
        for process in self.processes.values():
            process.kill()

    def logs(self) -> dict[str, str]:
        return {process.name: process.tail() for process in self.processes.values()}

    def _properties(self, node: int, home: Path, settings: Mapping[str, object]) -> str:
        addresses = {name: f"{HOST}:{port}" for name, port in self._ports[node].items()}
        advertised = {name: address for name, address in addresses.items() if name != "CONTROLLER"}
        voters = {other: f"{HOST}:{ports['CONTROLLER']}" for other, ports in self._ports.items()}
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in self._listeners.items())
        properties = kraft_properties(node, voters, addresses, advertised, str(home / "data"))
        return properties_text({**properties, "listener.security.protocol.map": protocols, **settings})

    def _format(self, node: int) -> None:
        home = self.processes[node].directory
        users = [
            argument
            for name, password in self._scram.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]
        arguments = ["format", "-t", self._cluster_id, "-c", str(home / "server.properties"), *users]
        command = java_command(self._libs, "kafka.tools.StorageTool", *arguments, options=LOGGING)
        ran = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=60, check=False)
        if ran.returncode != 0:
            raise ServerFailedError(f"storage of {self.name} not formatted:\n{ran.stdout}{ran.stderr}")

    def _wait_ready(self, node: int) -> None:
        address = f"{HOST}:{self.endpoint('PLAINTEXT', node)}"
        running = sum(process.running for process in self.processes.values())
        self.processes[node].wait_ready(lambda: serves(address, running))
