"""A broker that accepts requests and delays its responses, so that requests stay in flight."""

import contextlib
import socket
import threading
from typing import Any, NamedTuple

from pyklient.protocol.framing import ReceivedRequest, ServerFraming
from pyklient.protocol.messages import ProduceRequest
from tests.producer.script import ProduceBroker

__all__ = ["HoldingBroker"]


class _Held(NamedTuple):
    sock: socket.socket
    received: ReceivedRequest
    answer: Any


class HoldingBroker(ProduceBroker):
    """From ``hold`` on, the answer to each Produce request waits for one call of ``answer_one``, or for
    ``let_go``. ``most_unanswered`` is the largest number of requests that ever waited at the same time."""

    def __init__(self, partitions: int = 1, **options: Any) -> None:
        self._held: list[_Held] = []
        self._holding = False
        self._table = threading.Lock()
        self.most_unanswered = 0
        super().__init__(partitions, **options)

    @property
    def unanswered(self) -> int:
        """The number of Produce requests that have arrived and wait for a response."""
        return len(self._held)

    def hold(self) -> None:
        """Delay responses from now on."""
        self._holding = True

    def answer_one(self) -> None:
        """Answer the oldest request."""
        with self._table:
            held = self._held.pop(0)
            self._send(held)

    def let_go(self) -> None:
        """Answer all requests, and every later request at once."""
        with self._table:
            self._holding = False
            while self._held:
                self._send(self._held.pop(0))

    def _converse(self, sock: socket.socket) -> None:
        wire = ServerFraming()
        with sock, sock.makefile("rb") as stream:
            while head := stream.read(4):
                received = self._receive(wire, stream.read(int.from_bytes(head, "big")))
                if received is None:
                    return
                held = _Held(sock, received, self._answer(received))
                with self._table:
                    if self._holding and isinstance(received.message, ProduceRequest):
                        self._held.append(held)
                        self.most_unanswered = max(self.most_unanswered, len(self._held))
                    else:
                        self._send(held)

    def _send(self, held: _Held) -> None:
        with contextlib.suppress(OSError):  # the client may have left meanwhile
            held.sock.sendall(b"".join(ServerFraming().send(held.received, held.answer)))
