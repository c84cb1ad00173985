"""Sockets: frames in, answers out, one connection beside the other on one loop.

A connection has one request at a time in hand, as with Kafka, so what it can make the broker hold is one
frame and one answer; records go from the segment file to the socket by ``sendfile`` and are not held at
all. Bytes that are no request end the connection, and only that one.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import isawaitable
from typing import Final

from pyklient.broker.api_errors import Hangup
from pyklient.broker.handlers.apis import HANDLERS, Call, Reply, api_versions
from pyklient.broker.log.segment import FileSlice
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, ProtocolError
from pyklient.protocol.framing import ReceivedRequest, ServerFraming, frame_length
from pyklient.protocol.messages import ProduceRequest
from pyklient.protocol.primitives import Buffer

__all__ = ["Server"]

_logger = logging.getLogger("pyklient.broker")

_FIRST_READ: Final = 64 << 10
_ACCEPT_PAUSE: Final = 0.1
_MOST_PARTS: Final = 512  # buffers in one sendmsg; the system's limit is 1024


class Server:
    """Accepts connections on a listening socket and answers them, until ``close``."""

    def __init__(self, node: Node, listener: socket.socket) -> None:
        self.node = node
        self.request_memory = 0
        self._listener = listener
        self._connections: dict[asyncio.Task[None], socket.socket] = {}

    def start(self) -> None:
        self._listener.setblocking(False)
        self._listen()

    async def close(self) -> None:
        """Close the listener and all connections, and wait until they are gone."""
        self.node.loop.remove_reader(self._listener)
        self._listener.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close_sockets(self) -> None:
        """Let go of the sockets without a word to anybody (in a forked child, where they are copies)."""
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
        except OSError as error:  # no descriptors left, most likely: let some connections end first
            _logger.error("cannot accept a connection: %s", error)
            loop.remove_reader(self._listener)
            loop.call_later(_ACCEPT_PAUSE, self._listen)
            return
        if len(self._connections) >= self.node.settings.max_connections:
            _logger.warning("connection from %s refused: %d are open", address[0], len(self._connections))
            accepted.close()
            return
        task = loop.create_task(_Connection(self, self.node, accepted, address).serve())
        self._connections[task] = accepted
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        # Here and not at the end of the task, which may be cancelled before it has begun.
        self._connections.pop(task).close()

    @contextmanager
    def memory(self) -> Iterator["_Claim"]:
        """What one request holds of the memory for large requests."""
        claim = _Claim(self, self.node.settings.request_memory_bytes)
        try:
            yield claim
        finally:
            self.request_memory -= claim.nbytes


class _Claim:
    """A request's part of the memory for large requests."""

    __slots__ = ("_limit", "_server", "nbytes")

    def __init__(self, server: Server, limit: int) -> None:
        self._server = server
        self._limit = limit
        self.nbytes = 0

    def grow(self, nbytes: int) -> None:
        """Take *nbytes* more; Hangup when all connections together hold too much."""
        if self._server.request_memory + nbytes > self._limit:
            raise Hangup(f"all requests together would hold more than {self._limit} bytes")
        self._server.request_memory += nbytes
        self.nbytes += nbytes


class _Connection:
    """One client: read a frame, answer it, and again."""

    def __init__(self, server: Server, node: Node, sock: socket.socket, address: tuple[str, int]) -> None:
        self._server = server
        self._node = node
        self._socket = sock
        self._peer = f"{address[0]}:{address[1]}"
        self._host = address[0]
        self._wire = ServerFraming()
        self._idle_seconds = node.settings.connections_max_idle_ms / 1000

    async def serve(self) -> None:
        """Until the client goes, misbehaves, or is silent for too long."""
        try:
            self._socket.setblocking(False)
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while await self._serve_one():
                pass
        except TimeoutError:
            _logger.info("connection from %s closed: idle for %g s", self._peer, self._idle_seconds)
        except (KafkaError, Hangup) as error:
            _logger.warning("connection from %s closed: %s", self._peer, error)
        except OSError as error:
            _logger.debug("connection from %s broke: %s", self._peer, error)
        except Exception:
            _logger.exception("connection from %s closed: a request could not be answered", self._peer)

    async def _serve_one(self) -> bool:
        with self._server.memory() as claim:
            async with asyncio.timeout(self._idle_seconds):
                frame = await self._read_frame(claim)
            if frame is None:
                return False
            received = self._wire.receive(frame)
            reply = await self._answer(received)
            if not received.expects_reply:
                return True
            parts = self._wire.send(received, reply.message)
        async with asyncio.timeout(self._idle_seconds):
            await self._send(parts, reply.files)
        return True

    async def _answer(self, received: ReceivedRequest) -> Reply:
        message = received.message
        if message is None:
            return Reply(api_versions(ErrorCode.UNSUPPORTED_VERSION), {})
        handler = HANDLERS.get(type(message))
        if handler is None:
            raise ProtocolError(f"{type(message).__name__} is not served by this broker")
        try:
            answer = handler(
                self._node, message, Call(received.version, received.client_id or "", self._host)
            )
            if isawaitable(answer):
                answer = await answer
            self._node.save()
        except OSError as error:
            raise Hangup(f"{type(message).__name__} cannot be carried out: {error}") from error
        return answer if isinstance(answer, Reply) else Reply(answer, {})

    async def _read_frame(self, claim: _Claim) -> bytearray | None:
        """The next frame without its length, or None when the client has gone."""
        head = bytearray(4)
        if not await self._fill(head, 0):
            return None
        settings = self._node.settings
        length = frame_length(head, settings.socket_request_max_bytes)
        # Memory follows the bytes that really come, not the length that was announced.
        frame = bytearray(min(length, _FIRST_READ))
        filled = 0
        while True:
            if not await self._fill(frame, filled):
                raise ProtocolError(f"the connection ended inside a frame of {length} bytes")
            filled = len(frame)
            if filled == length:
                return frame
            if filled == _FIRST_READ and length > settings.control_request_max_bytes:
                _check_large(frame, length, settings.control_request_max_bytes)
            more = min(length - filled, max(filled, 1 << 20))
            claim.grow(more)
            frame.extend(bytes(more))

    async def _fill(self, buffer: bytearray, start: int) -> bool:
        """Receive until *buffer* is full; False when the stream ends before."""
        loop = self._node.loop
        with memoryview(buffer) as view:
            while start < len(view):
                received = await loop.sock_recv_into(self._socket, view[start:])
                if not received:
                    return False
                start += received
        return True

    async def _send(self, parts: Sequence[Buffer], files: Mapping[int, FileSlice]) -> None:
        """Send *parts* in order, files' bytes in place of their stand-ins."""
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
                sent = self._socket.sendmsg(pending[:_MOST_PARTS])
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
                raise Hangup("a segment file ended before the records promised from it")
            position += sent

    async def _writable(self) -> None:
        """Wait until the client has taken some of what was sent."""
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
        raise ProtocolError(f"a frame of {length} bytes for API key {key}, where {limit} are allowed")
