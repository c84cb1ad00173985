"""ZooKeeper 3.8.4, from the jars of Kafka 3.9.1, and sessions of kazoo with it."""

import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.servers.java import java_command
from tests.servers.maven import kafka_libs
from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess, wait_until
from tests.servers.reaper import Reaper
from tests.servers.tls import Certificates

__all__ = ["ZooKeeper", "connected", "new_chroot", "numbered_children"]

_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dzookeeper.forceSync=no",  # otherwise each change waits for the disk
)


class ZooKeeper:
    """One ZooKeeper server on a free port. ``tick_ms`` bounds session time-outs: two to twenty ticks.
    With *certificates*, it has a second port with TLS: ``secure_hosts``."""

    def __init__(
        self,
        directory: Path,
        reaper: Reaper,
        tick_ms: int = 500,
        certificates: Certificates | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self.port = free_port()
        self.hosts = f"{HOST}:{self.port}"
        settings = directory / "zoo.cfg"
        settings.write_text(
            f"tickTime={tick_ms}\n"
            f"dataDir={directory / 'data'}\n"
            f"clientPort={self.port}\n"
            f"clientPortAddress={HOST}\n"
            "admin.enableServer=false\n"
            "maxClientCnxns=0\n"
            "4lw.commands.whitelist=ruok,dump\n"
            f"{'' if certificates is None else self._secure(certificates)}"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = java_command(kafka_libs("3.9.1"), main, str(settings), heap="128m", options=_OPTIONS)
        self.process = ServerProcess("zookeeper", command, directory, reaper)

    def _secure(self, certificates: Certificates) -> str:
        """Return the settings of a second port, with TLS, for clients that the authority has signed."""
        self.secure_port = free_port()
        self.secure_hosts = f"{HOST}:{self.secure_port}"
        return (
            f"secureClientPort={self.secure_port}\n"
            f"secureClientPortAddress={HOST}\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"ssl.keyStore.location={certificates.server}\n"
            "ssl.keyStore.type=PEM\n"
            f"ssl.trustStore.location={certificates.authority}\n"
            "ssl.trustStore.type=PEM\n"
            "ssl.clientAuth=need\n"
        )

    def start(self) -> None:
        """Start. Return when it answers."""
        self.process.launch()
        self.process.wait_ready(lambda: self._command("ruok") == "imok")

    def stop(self) -> None:
        """End the server and delete its data."""
        self.process.kill()

    def wait_gone(self, path: str, timeout: float = 30) -> None:
        """Return when no session holds the ephemeral node *path*, such as the node of a killed broker."""
        wait_until(lambda: self._is_gone(path), timeout, f"{path} gone from ZooKeeper")

    def has(self, path: str) -> bool:
        """Return True if a session holds the ephemeral node *path*."""
        return path in self._command("dump").split()

    def _is_gone(self, path: str) -> bool:
        sessions = self._command("dump")
        return bool(sessions) and path not in sessions.split()

    def _command(self, word: str) -> str:
        """Return the answer to one of ZooKeeper's four-letter commands; empty if there is none."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except OSError:
            return ""


@contextmanager
def connected(address: str) -> Iterator[KazooClient]:
    """Yield a session of kazoo with the ZooKeeper at *address*, below the chroot that *address* names."""
    client = KazooClient(address)
    client.start(timeout=10)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def new_chroot(hosts: str) -> str:
    """Create an empty node in the ZooKeeper at *hosts*. Return the address with this node as the chroot."""
    path = f"/{uuid.uuid4().hex}"
    with connected(hosts) as client:
        client.create(path)
    return f"{hosts}{path}"


def numbered_children(client: KazooClient, path: str) -> dict[int, bytes]:
    """Return the content of the children of *path*, whose names are numbers, by number.

    The result is empty if there is no node at *path*. A child that goes away meanwhile is left out.
    """
    found: dict[int, bytes] = {}
    with suppress(NoNodeError):
        for number in sorted(map(int, client.get_children(path))):
            with suppress(NoNodeError):
                found[number] = client.get(f"{path}/{number}")[0]
    return found
