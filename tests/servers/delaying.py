"""A proxy that delays all bytes between a client and a server, as a network of some length does."""

import contextlib
import socket
import threading
import time
from queue import SimpleQueue

from tests.servers.stalling_proxy import StallingProxy

__all__ = ["DelayingProxy"]

_PART = 65536
_TIMEOUT = 60.0


class DelayingProxy(StallingProxy):
    """A proxy in front of the server at *target* (``host:port``). A request and its answer together take
    *round_trip* seconds longer through it, and many of them may be on their way at the same time."""

    def __init__(self, target: str, round_trip: float) -> None:
        super().__init__(target)
        self._delay = round_trip / 2

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        under_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        threading.Thread(target=self._deliver, args=(under_way, sink), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := source.recv(_PART):
                self._flowing.wait(_TIMEOUT)
                under_way.put((time.monotonic() + self._delay, data))
        under_way.put((0.0, b""))

    def _deliver(self, under_way: "SimpleQueue[tuple[float, bytes]]", sink: socket.socket) -> None:
        with contextlib.suppress(OSError), sink:
            while True:
                at, data = under_way.get()
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                time.sleep(max(0.0, at - time.monotonic()))
                sink.sendall(data)
