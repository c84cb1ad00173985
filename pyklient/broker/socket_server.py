"""The sockets of a node: accepts connections, receives requests and sends responses, all on one event loop.

As in Kafka, a connection has one request in progress at a time, so that the broker holds at most one request
and one response for each connection. The records of a fetch are sent from the segment files with
``sendfile``, and are not held in memory. A connection that sends invalid bytes is closed; other connections
are not affected.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import isawaitable
from typing import Final

from pyklient.broker.api_errors import CloseConnection
from pyklient.broker.handlers.apis import HANDLERS, api_versions
from pyklient.broker.handlers.request_context import RequestContext, ResponseWithFiles
from pyklient.broker.log.segment import FileSlice
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, ProtocolError
from pyklient.protocol.framing import ReceivedRequest, ServerFraming, frame_length
from pyklient.protocol.messages import ProduceRequest
from pyklient.protocol.primitives import Buffer

__all__ = ["SocketServer"]

_logger = logging.getLogger("pyklient.broker")

_FIRST_READ: Final = 64 << 10
_ACCEPT_PAUSE: Final = 0.1
_MAX_BUFFERS: Final = 512  # in one sendmsg; the system's limit is 1024


class SocketServer:
    """Accepts connections of clients on a listening socket, and serves them until ``close``."""

    def __init__(self, node: NodeState, listener: socket.socket) -> None:
        self.node = node
        self.request_memory = 0
        self._listener = listener
        self._connections: dict[asyncio.Task[None], socket.socket] = {}

    def start(self) -> None:
        self._listener.setblocking(False)
        self._listen()

    async def close(self) -> None:
        """Close the listener and all connections, and wait for their tasks to end."""
        self.node.loop.remove_reader(self._listener)
        self._listener.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close_sockets(self) -> None:
        """Close the sockets in a child process, which has inherited them by a fork. The connections of the
        parent process stay open."""
        self._listener.close()
        for accepted in self._connections.values():
            accepted.close()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self.node.loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        loop = self.node.loop
        try:
            accepted, address = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Most likely there are too many open files. Wait until some connections have ended.
            _logger.error("the broker cannot accept connections: %s; it tries again soon", error)
            loop.remove_reader(self._listener)
            loop.call_later(_ACCEPT_PAUSE, self._listen)
            return
        if len(self._connections) >= self.node.config.max_connections:
            _logger.warning(
                "the connection from %s was closed: more than max_connections=%d would be open",
                address[0],
                len(self._connections),
            )
            accepted.close()
            return
        task = loop.create_task(_Connection(self, self.node, accepted, address).serve())
        self._connections[task] = accepted
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        # This cannot be the last step of the task, because a task may be cancelled before it begins.
        self._connections.pop(task).close()

    @contextmanager
    def reserve_memory(self) -> Iterator["_RequestMemory"]:
        """Yield an object that counts the memory of one request, and release this memory at the end of the
        ``with`` block."""
        memory = _RequestMemory(self, self.node.config.request_memory_bytes)
        try:
            yield memory
        finally:
            self.request_memory -= memory.nbytes


class _RequestMemory:
    """The memory that one request has reserved. The option ``request_memory_bytes`` limits the sum over all
    requests."""

    __slots__ = ("_limit", "_server", "nbytes")

    def __init__(self, server: SocketServer, limit: int) -> None:
        self._server = server
        self._limit = limit
        self.nbytes = 0

    def grow(self, nbytes: int) -> None:
        """Reserve *nbytes* more for this request. Raises CloseConnection if the requests of all connections
        together would then exceed the limit."""
        if self._server.request_memory + nbytes > self._limit:
            raise CloseConnection(
                "the requests that are being handled would need more memory than "
                f"request_memory_bytes={self._limit} allows; raise this option of the broker"
            )
        self._server.request_memory += nbytes
        self.nbytes += nbytes


class _Connection:
    """A connection of one client. It handles one request after the other: receives it, calls its handler and
    sends the response."""

    def __init__(
        self, server: SocketServer, node: NodeState, sock: socket.socket, address: tuple[str, int]
    ) -> None:
        self._server = server
        self._node = node
        self._socket = sock
        self._peer = f"{address[0]}:{address[1]}"
        self._host = address[0]
        self._wire = ServerFraming()
        self._idle_seconds = node.config.connections_max_idle_ms / 1000

    async def serve(self) -> None:
        """Serve requests until the client disconnects, sends invalid bytes, or is idle for too long."""
        try:
            self._socket.setblocking(False)
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while await self._serve_one():
                pass
        except TimeoutError:
            _logger.info(
                "the connection from %s was closed: it was idle for %g s", self._peer, self._idle_seconds
            )
        except (KafkaError, CloseConnection) as error:
            _logger.warning("the connection from %s was closed: %s", self._peer, error)
        except OSError as error:
            _logger.debug("the connection from %s failed: %s", self._peer, error)
        except Exception:
            _logger.exception(
                "the connection from %s was closed, because a request raised an unexpected exception",
                self._peer,
            )

    async def _serve_one(self) -> bool:
        with self._server.reserve_memory() as memory:
            async with asyncio.timeout(self._idle_seconds):
                frame = await self._read_frame(memory)
            if frame is None:
                return False
            received = self._wire.receive(frame)
            response = await self._handle(received)
            if not received.expects_reply:
                return True
            parts = self._wire.send(received, response.message)
        async with asyncio.timeout(self._idle_seconds):
            await self._send(parts, response.files)
        return True

    async def _handle(self, received: ReceivedRequest) -> ResponseWithFiles:
        message = received.message
        if message is None:
            level = self._node.config.transaction_version
            return ResponseWithFiles(api_versions(level, 0, ErrorCode.UNSUPPORTED_VERSION), {})
        handler = HANDLERS.get(type(message))
        if handler is None:
            raise ProtocolError(f"this broker does not support {type(message).__name__}")
        try:
            response = handler(
                self._node, message, RequestContext(received.version, received.client_id or "", self._host)
            )
            if isawaitable(response):
                response = await response
            self._node.cluster.save()
        except OSError as error:
            raise CloseConnection(f"{type(message).__name__} could not be served: {error}") from error
        return response if isinstance(response, ResponseWithFiles) else ResponseWithFiles(response, {})

    async def _read_frame(self, memory: _RequestMemory) -> bytearray | None:
        """Return the next request without the four bytes of its length. Return None if the client has
        disconnected."""
        head = bytearray(4)
        if not await self._fill(head, 0):
            return None
        config = self._node.config
        length = frame_length(head, config.socket_request_max_bytes)
        # Memory is allocated for the bytes that arrive, not for the length that the frame claims.
        frame = bytearray(min(length, _FIRST_READ))
        filled = 0
        while True:
            if not await self._fill(frame, filled):
                raise ProtocolError(f"the client disconnected in the middle of a request of {length} bytes")
            filled = len(frame)
            if filled == length:
                return frame
            if filled == _FIRST_READ and length > config.control_request_max_bytes:
                _check_large(frame, length, config.control_request_max_bytes)
            more = min(length - filled, max(filled, 1 << 20))
            memory.grow(more)
            frame.extend(bytes(more))

    async def _fill(self, buffer: bytearray, start: int) -> bool:
        """Receive bytes into *buffer* from index *start* on, until it is full. Return False if the client
        disconnects before that."""
        loop = self._node.loop
        with memoryview(buffer) as view:
            while start < len(view):
                received = await loop.sock_recv_into(self._socket, view[start:])
                if not received:
                    return False
                start += received
        return True

    async def _send(self, parts: Sequence[Buffer], files: Mapping[int, FileSlice]) -> None:
        """Send *parts* in order. *files* maps the ``id()`` of a part to the slice of a file that is sent
        instead of it."""
        descriptors = {key: part.open() for key, part in files.items()}
        try:
            run: list[Buffer] = []
            for part in parts:
                file = files.get(id(part))
                if file is None:
                    run.append(part)
                    continue
                await self._send_buffers(run)
                run = []
                await self._send_file(descriptors[id(part)], file)
            await self._send_buffers(run)
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)

    async def _send_buffers(self, buffers: Sequence[Buffer]) -> None:
        pending = [memoryview(buffer) for buffer in buffers]
        while pending:
            try:
                sent = self._socket.sendmsg(pending[:_MAX_BUFFERS])
            except BlockingIOError:
                await self._writable()
                continue
            while pending and sent >= len(pending[0]):
                sent -= len(pending.pop(0))
            if sent:
                pending[0] = pending[0][sent:]

    async def _send_file(self, descriptor: int, file: FileSlice) -> None:
        position, end = file.position, file.position + file.length
        while position < end:
            try:
                sent = os.sendfile(self._socket.fileno(), descriptor, position, end - position)
            except BlockingIOError:
                await self._writable()
                continue
            if not sent:
                raise CloseConnection(
                    "a segment file is too short: it does not contain all records of the response"
                )
            position += sent

    async def _writable(self) -> None:
        """Wait until the socket accepts more bytes."""
        loop = self._node.loop
        ready = loop.create_future()
        descriptor = self._socket.fileno()
        loop.add_writer(descriptor, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_writer(descriptor)


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _check_large(frame: bytearray, length: int, limit: int) -> None:
    key = int.from_bytes(frame[:2], "big", signed=True)
    if key != ProduceRequest.api_key:
        raise ProtocolError(
            f"a request with API key {key} has {length} bytes, but control_request_max_bytes is {limit}"
        )
