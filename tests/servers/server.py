"""The interface of all brokers in the tests, and a broker that the tests did not start."""

from typing import Protocol

__all__ = ["ExternalKafka", "Server"]


class Server(Protocol):
    """A broker of a test run, or several that form a cluster."""

    name: str

    @property
    def bootstrap_servers(self) -> str: ...

    def start(self) -> None:
        """Start. Return when it serves."""

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end of the process."""

    def restart(self) -> None:
        """Start again after :meth:`kill`, on the same port and data. Return when it serves."""

    def stop(self) -> None:
        """End the broker finally."""

    def logs(self) -> dict[str, str]:
        """Return the end of each log, with a name for it."""


class ExternalKafka:
    """A running cluster that the tests neither start nor stop."""

    name = "external"

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def start(self) -> None:
        """Do nothing, because the cluster runs already."""

    stop = start

    def kill(self) -> None:
        raise PermissionError(f"{self.bootstrap_servers} was given to this run and is not its own to stop")

    restart = kill

    def logs(self) -> dict[str, str]:
        return {}
