"""The base class of clients that have no threads of their own and use a whole cluster. Each call runs a
dialogue in the calling thread."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from pyklient import argument_checks
from pyklient.config import AdminConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.net.closable_client import ClosableClient
from pyklient.net.dialogue import Dialogue
from pyklient.net.network_client import NetworkClient

__all__ = ["ThreadlessClient"]

_Result = TypeVar("_Result")


class ThreadlessClient(ClosableClient[NetworkClient]):
    """A client of the cluster whose servers are in *bootstrap_servers*, or in *options*. Safe to use from
    several threads."""

    def __init__(self, bootstrap_servers: str | Sequence[str], options: Mapping[str, object]) -> None:
        self._config = AdminConfig.from_options(by_option_name(AdminConfig, bootstrap_servers, options))
        super().__init__(NetworkClient(self._config), self._config.cluster)

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self._config.default_api_timeout_ms / 1000
        return argument_checks.seconds(timeout, "timeout")

    def _play(self, dialogue: Dialogue[_Result], timeout: float | None = None) -> _Result:
        return self._client.play(dialogue, self._seconds(timeout))
