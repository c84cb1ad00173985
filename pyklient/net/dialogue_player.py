"""Runs dialogues for a client, and ends them early if the client is closing and no broker can be reached."""

from typing import TypeVar

from pyklient.errors import KafkaError
from pyklient.net.dialogue import Dialogue, while_worthwhile
from pyklient.net.network_client import NetworkClient

__all__ = ["DialoguePlayer"]

_T = TypeVar("_T")


class DialoguePlayer:
    """Runs dialogues, which are generators of requests, with the brokers of *client*.

    While the client closes, a dialogue ends with an error as soon as no broker can be reached.
    """

    def __init__(self, client: NetworkClient) -> None:
        self._client = client
        self.closing = False
        """True from the moment at which the client begins to close."""

    def play(self, dialogue: Dialogue[_T], timeout: float) -> _T:
        """Run *dialogue*, and return its result, as ``NetworkClient.play`` does."""
        return self._client.play(while_worthwhile(dialogue, self.in_vain), timeout)

    def in_vain(self) -> KafkaError | None:
        """Return an error if no request can succeed any more, because the client closes and no broker can be
        reached. Otherwise return None."""
        return self._client.unreachable() if self.closing else None

    def check_open(self) -> None:
        """Raise ClosedError if the client is closed."""
        self._client.pause(0)
