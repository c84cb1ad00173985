"""The brokers of a chain: which of them a stage depends on, and how they are killed and stopped."""

import random
from typing import Final

from pyklient import Admin
from tests.servers.groups import coordinator
from tests.servers.kafka import KraftCluster
from tests.servers.process import ServerProcess, wait_until
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import leaders, replicas_in_sync
from tools.transactions.stage import Job

__all__ = ["ROLES", "Brokers"]

ROLES: Final = ("leader", "transaction coordinator", "group coordinator")
_ONLY_NODE: Final = 1
_PATIENCE: Final = 90.0


class Brokers:
    """The brokers of *server*: a cluster of real brokers, or the reference broker."""

    def __init__(self, server: KraftCluster | ReferenceBroker) -> None:
        self._server = server

    def find(self, role: str, job: Job, dice: random.Random) -> int:
        """Return the id of the broker that has *role* in the transactions of *job*: it leads a partition of
        the target, or is a coordinator."""
        bootstrap = self._server.bootstrap_servers
        if isinstance(self._server, ReferenceBroker):
            return _ONLY_NODE
        if role == "leader":
            return dice.choice(sorted(set(leaders(bootstrap, job.target).values())))
        if role == "group coordinator":
            return coordinator(bootstrap, job.group)
        with Admin(bootstrap) as admin:
            return admin.describe_transaction(job.transactional_id).coordinator

    def kill(self, node: int) -> None:
        """Send SIGKILL to broker *node*."""
        self._process(node).kill()

    def restart(self, node: int) -> None:
        """Start broker *node* again. Return when it serves."""
        if isinstance(self._server, KraftCluster):
            self._server.restart(node)
        else:
            self._server.restart()

    def stop(self, node: int) -> None:
        """Send SIGSTOP to broker *node*: its connections stay open, but it answers nothing."""
        self._process(node).pause()

    def wake(self, node: int) -> None:
        """Let broker *node* continue."""
        self._process(node).resume()

    def settle(self, topics: list[str], partitions: int) -> None:
        """Wait until each of *topics*, which have *partitions* partitions, has all its replicas in sync."""
        if not isinstance(self._server, KraftCluster):
            return
        bootstrap, wanted = self._server.bootstrap_servers, partitions * len(self._server.processes)
        wait_until(
            lambda: all(replicas_in_sync(bootstrap, topic) == wanted for topic in topics),
            _PATIENCE,
            "all replicas in sync",
        )

    def _process(self, node: int) -> ServerProcess:
        if isinstance(self._server, KraftCluster):
            return self._server.processes[node]
        return self._server.process
