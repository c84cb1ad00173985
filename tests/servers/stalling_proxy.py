"""A proxy between a client and a server of any protocol, which can stop passing bytes on, or vanish."""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.servers.ports import HOST

__all__ = ["StallingProxy"]

_TIMEOUT = 60.0
_PART = 65536


class StallingProxy:
    """A proxy in front of the server at *target* (``host:port``). Use it in a ``with`` block."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        self._swallowing = False
        self._ended = False

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._flowing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the call of accept, which close does not
        self._threads[0].join(_TIMEOUT)
        self._listener.close()
        self._cut()
        for thread in self._threads:
            thread.join(_TIMEOUT)
        for each in self._sockets:
            each.close()

    def stall(self) -> None:
        """Pass nothing on from now on, in both directions. Connections stay open."""
        self._flowing.clear()

    def refuse(self) -> None:
        """Close all connections, and each new one."""
        self._refusing = True
        self._cut()

    def swallow(self) -> None:
        """Close all connections. Accept the next one and never answer it, like a server that is starting."""
        self._swallowing = True
        self._cut()

    def resume(self) -> None:
        """Pass everything on again, also what arrived meanwhile."""
        self._refusing = False
        self._flowing.set()

    def _cut(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._ended:
                client, _ = self._listener.accept()
                if self._refusing:
                    client.close()
                    continue
                if self._swallowing:
                    self._swallowing = False
                    self._sockets.append(client)
                    continue
                try:
                    server = socket.create_connection(self._target, _TIMEOUT)
                except OSError:  # the server is away at the moment
                    client.close()
                    continue
                self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    self._start(self._pass_on, source, sink)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError), sink:
            while data := source.recv(_PART):
                self._flowing.wait(_TIMEOUT)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
