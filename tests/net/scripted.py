"""Peers for the network's tests: real sockets, answers as the test says.

A ScriptedBroker speaks Kafka's protocol through ServerFraming. A RawServer does whatever a function does with
an accepted socket, for peers that are no brokers.
"""

import contextlib
import socket
import ssl
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from pyklient.config import AdminConfig
from pyklient.errors import KafkaError
from pyklient.protocol.framing import ReceivedRequest, ServerFraming
from pyklient.protocol.messages import (
    REQUESTS,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
)
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.schema import ApiMessage

__all__ = ["HANG_UP", "SILENCE", "Addressed", "RawServer", "ScriptedBroker", "config_for", "metadata_of"]

HOST: Final = "127.0.0.1"


class Addressed:
    """An address at which nothing listens, and the id of a node that is said to be there."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.host = HOST
        # Bound and not listening: connections are refused, and nobody else is given the port meanwhile. A
        # server of ours may still take it, since both allow that.
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        self.port: int = held.getsockname()[1]
        weakref.finalize(self, held.close)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class _Token:
    pass


SILENCE: Final = _Token()
"""A handler returns this to send no response and keep the connection."""

HANG_UP: Final = _Token()
"""A handler returns this to close the connection."""

Handler = Callable[[Any], ApiMessage | _Token | bytes]
"""A function from a request to its response; bytes are sent unchanged."""


def config_for(*brokers: "ScriptedBroker | RawServer", **options: Any) -> AdminConfig:
    """Return options of a client that connects through *brokers*, with short pauses."""
    chosen = {
        "bootstrap_servers": ",".join(broker.address for broker in brokers),
        "reconnect_backoff_ms": 10,
        "reconnect_backoff_max_ms": 50,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 50,
        **options,
    }
    if not chosen["bootstrap_servers"]:
        del chosen["bootstrap_servers"]
    return AdminConfig.from_options(chosen)


def metadata_of(
    nodes: "Sequence[RawServer | Addressed]",
    topics: Sequence[MetadataResponse.MetadataResponseTopic] = (),
    controller_id: int = -1,
) -> MetadataResponse:
    """Return the metadata of a cluster of *nodes*."""
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
        for node in nodes
    ]
    return MetadataResponse(brokers=brokers, topics=list(topics), controller_id=controller_id)


class RawServer:
    """A server that accepts connections on a free port of the loopback interface; each connection gets a
    thread that runs *serve*."""

    def __init__(self, serve: Callable[[socket.socket], None], *, node_id: int = 1, port: int = 0) -> None:
        self.node_id = node_id
        self.host = HOST
        self._serve = serve
        self._listener = socket.create_server((HOST, port))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closing = False
        self.accepted = 0
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def drop_connections(self) -> None:
        """Close every connection, as a broker does when it shuts down."""
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in self._threads)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._sockets.append(sock)
            self._start(self._serve_one, sock)

    def _serve_one(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            self._serve(sock)


class ScriptedBroker(RawServer):
    """A broker of one node. ``requests`` are the messages that it received, except those about versions.

    On a busy machine, the thread of a broker may answer ApiVersions only after a second. Then a client sends
    ListGroups too, to find out if this is Kafka 0.9. So ListGroups counts as a request about versions.

    *versions* limits the versions that it says it supports: API key → (first, last). With *tls* it uses TLS.
    """

    def __init__(
        self,
        *,
        node_id: int = 1,
        versions: Mapping[int, tuple[int, int]] | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        known = {key: request.versions for key, request in REQUESTS.items()}
        self._versions = known if versions is None else dict(versions)
        self._tls = tls
        self._handlers: dict[type[ApiMessage], Handler] = {
            ApiVersionsRequest: self._api_versions,
            MetadataRequest: lambda request: metadata_of([self]),
            ListGroupsRequest: lambda request: ListGroupsResponse(),
        }
        self.requests: list[ApiMessage] = []
        self.received: list[ReceivedRequest] = []
        super().__init__(self._converse, node_id=node_id, port=port)

    def on(self, request: type[ApiMessage], handler: Handler) -> None:
        """Answer *request* with the result of *handler*."""
        self._handlers[request] = handler

    def count(self, request: type[ApiMessage]) -> int:
        """Return the number of requests of that kind that have arrived."""
        return sum(isinstance(message, request) for message in self.requests)

    def _converse(self, sock: socket.socket) -> None:
        if self._tls is not None:
            sock = self._tls.wrap_socket(sock, server_side=True)
        wire = ServerFraming()
        with sock, sock.makefile("rb") as stream:
            while head := stream.read(4):
                received = self._receive(wire, stream.read(int.from_bytes(head, "big")))
                if received is None:
                    return
                answer = self._answer(received)
                if answer is HANG_UP:
                    return
                if isinstance(answer, ApiMessage):
                    sock.sendall(_joined(wire.send(received, answer)))
                elif isinstance(answer, bytes):
                    sock.sendall(answer)

    def _receive(self, wire: ServerFraming, frame: bytes) -> ReceivedRequest | None:
        with contextlib.suppress(KafkaError):
            received = wire.receive(frame)
            first, last = self._versions.get(received.api_key, (0, -1))
            if received.api_key == ApiVersionsRequest.api_key and not first <= received.version <= last:
                return ReceivedRequest(
                    received.api_key, received.version, received.correlation_id, None, None
                )
            return received
        return None

    def _answer(self, received: ReceivedRequest) -> ApiMessage | _Token | bytes:
        self.received.append(received)
        if received.message is None:
            return self._api_versions(None, error_code=35)
        if not isinstance(received.message, ApiVersionsRequest | ListGroupsRequest):
            self.requests.append(received.message)
        return self._handlers[type(received.message)](received.message)

    def _api_versions(self, request: object, error_code: int = 0) -> ApiMessage:
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in self._versions.items()
        ]
        return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def _joined(parts: Sequence[Buffer]) -> bytes:
    return b"".join(parts)
