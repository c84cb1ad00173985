"""The base class of clients without threads of their own. It closes a client's connections, and warns if a
client is never closed."""

import warnings
from typing import Generic, NoReturn, Self, TypeVar

from pyklient.net.broker_channel import BrokerChannel
from pyklient.net.network_client import NetworkClient

__all__ = ["ClosableClient"]

_Client = TypeVar("_Client", bound=NetworkClient | BrokerChannel)


class ClosableClient(Generic[_Client]):
    """A client that opens connections when a call needs them, and keeps them until it is closed.

    Its ``repr`` shows *cluster*, the servers to which the client connects.
    """

    def __init__(self, client: _Client, cluster: object) -> None:
        self._client: _Client = client
        self._cluster = cluster
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
        return f"<{type(self).__name__} of {self._cluster!r}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled, because it holds connections: create it in the "
            "process that uses it, from the same options"
        )
