"""The base class of the clients without threads of their own: each call runs a dialogue in the calling
thread."""

import warnings
from collections.abc import Mapping, Sequence
from typing import NoReturn, Self, TypeVar

from pyklient import argument_checks
from pyklient.config import AdminConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.net.dialogue import Dialogue
from pyklient.net.network_client import NetworkClient

__all__ = ["ThreadlessClient"]

_Result = TypeVar("_Result")


class ThreadlessClient:
    """A client that opens connections when a call needs them, and keeps them until it is closed. Safe to use
    from several threads."""

    def __init__(self, bootstrap_servers: str | Sequence[str], options: Mapping[str, object]) -> None:
        self._config = AdminConfig.from_options(by_option_name(AdminConfig, bootstrap_servers, options))
        self._client = NetworkClient(self._config)
        self._closed = False

    def close(self) -> None:
        """Close the connections. After that, other methods raise ClosedError. May be called again."""
        self._closed = True
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._client.close()
            message = f"{self!r} was never closed; use it in a with block"
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<{type(self).__name__} of {self._config.cluster!r}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled, because it holds connections: create it in the "
            "process that uses it, from the same options"
        )

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self._config.default_api_timeout_ms / 1000
        return argument_checks.seconds(timeout, "timeout")

    def _play(self, dialogue: Dialogue[_Result], timeout: float | None = None) -> _Result:
        return self._client.play(dialogue, self._seconds(timeout))
