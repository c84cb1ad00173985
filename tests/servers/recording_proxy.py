"""A proxy that forwards requests to one broker and records those that a test asks for.

Clients connect to the address that a broker advertises, so the proxy replaces it by its own address.
"""

import contextlib
import socket
import threading
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from pyklient.protocol.framing import ClientFraming, ReceivedRequest, ServerFraming
from pyklient.protocol.messages import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from pyklient.protocol.schema import ApiMessage

__all__ = ["Exchange", "RecordingProxy"]

_M = TypeVar("_M", bound=ApiMessage)
_PATIENCE = 60.0


class Exchange(NamedTuple):
    """A request that was forwarded, with its version, the size of its frame, and the response."""

    request: ApiMessage
    version: int
    size: int
    response: ApiMessage


class RecordingProxy:
    """A proxy in front of the only broker at *bootstrap*. It records the requests *kinds* with their
    responses."""

    def __init__(self, bootstrap: str, *kinds: type[ApiMessage]) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._broker = (host, int(port))
        self._kinds = kinds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._lock = threading.Lock()
        self.exchanges: list[Exchange] = []
        self.port: int = self._listener.getsockname()[1]

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.settimeout(_PATIENCE)
                try:
                    broker = socket.create_connection(self._broker, _PATIENCE)
                except OSError:  # the broker is away at the moment
                    client.close()
                    continue
                with self._lock:
                    self._sockets += [client, broker]
                threading.Thread(target=self._serve, args=(client, broker), daemon=True).start()

    def _serve(self, client: socket.socket, broker: socket.socket) -> None:
        """Serve one connection, one request after the other."""
        theirs, ours = ServerFraming(), ClientFraming("proxy")
        with contextlib.suppress(OSError), client, broker:
            while (frame := _frame(client)) is not None:
                received = theirs.receive(frame)
                assert received.message is not None
                broker.sendall(b"".join(ours.send(received.message, received.version)))
                answer = _frame(broker)
                if answer is None:
                    return
                _, response = ours.receive(answer)
                self._keep(received, len(frame), response)
                if isinstance(response, ApiVersionsResponse) and response.error_code:
                    received = replace(received, message=None)  # a version that the broker does not know
                client.sendall(b"".join(theirs.send(received, self._moved(response))))

    def _keep(self, received: ReceivedRequest, size: int, response: ApiMessage) -> None:
        if isinstance(received.message, self._kinds):
            with self._lock:
                self.exchanges.append(Exchange(received.message, received.version, size, response))

    def _moved(self, response: ApiMessage) -> ApiMessage:
        """Return *response* with this proxy's address in place of the broker's address."""
        if isinstance(response, MetadataResponse):
            for broker in response.brokers:
                broker.host, broker.port = "127.0.0.1", self.port
        elif isinstance(response, FindCoordinatorResponse):
            if not response.coordinators:  # before version 4 there is one, without a list
                response.host, response.port = "127.0.0.1", self.port
            for found in response.coordinators:
                found.host, found.port = "127.0.0.1", self.port
        return response


def _frame(sock: socket.socket) -> bytes | None:
    """Return the next frame without its length, None at the end."""
    head = _exactly(sock, 4)
    return None if head is None else _exactly(sock, int.from_bytes(head, "big"))


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            return None
        data += part
    return bytes(data)
