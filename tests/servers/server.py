"""What the tests ask of any broker, and the one that they did not start."""

from typing import Protocol

__all__ = ["ExternalKafka", "Server"]


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
