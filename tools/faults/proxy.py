"""A proxy in front of real brokers that forwards requests, and injects faults by a plan.

It has one listener for each broker. In Metadata, FindCoordinator and DescribeCluster responses it replaces
the addresses of the brokers by those of its listeners, so that clients always connect through the proxy. It
forwards all other bytes unchanged and reads only the header of each frame. No request waits for the response
to another one.
"""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from pyklient.protocol.messages import (
    REQUESTS,
    RESPONSES,
    DescribeClusterResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from pyklient.protocol.primitives import Reader
from pyklient.protocol.schema import ApiMessage
from tests.servers.ports import HOST
from tools.faults.plan import Action, Fault, FaultPlan, Place

__all__ = ["Address", "FaultProxy", "Happened", "moved"]

Address = tuple[str, int]
_REQUEST_HEAD = struct.Struct(">ihhi")
_ANSWER_HEAD = struct.Struct(">ii")
_LENGTH = _CORRELATION_ID = 4
_PART = 64 * 1024
_NAME_BROKERS = (MetadataResponse.api_key, FindCoordinatorResponse.api_key, DescribeClusterResponse.api_key)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_MANY_COORDINATORS = 4
_PATIENCE = 10.0
_Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


class _HasAddress(Protocol):
    host: str
    port: int


class Happened(NamedTuple):
    """A fault that has happened, *after* so many seconds of the proxy's life."""

    after: float
    request: str
    broker: Address
    fault: Fault

    def __str__(self) -> str:
        return f"{self.after:7.2f} s  {self.request} to {self.broker[0]}:{self.broker[1]}: {self.fault}"


class FaultProxy:
    """A proxy in front of the brokers at *bootstrap*, which must be all brokers of the cluster. Not for TLS.

    It injects the faults of *plan* until *limit* faults have happened. ``happened`` has these faults in
    order. A fault whose connection ended too early is in ``missed`` instead. ``requests`` counts the requests
    of each kind; ``most_in_flight`` is the greatest number of requests that one connection had without a
    response. An exception that leaves the ``with`` block gets a note with the faults that have happened.
    """

    def __init__(self, bootstrap: str, plan: FaultPlan, *, limit: int | None = None) -> None:
        self._plan, self._limit = plan, limit
        self._listeners = {_address(each): socket.create_server((HOST, 0)) for each in bootstrap.split(",")}
        self.addresses: Mapping[Address, Address] = {
            broker: listener.getsockname() for broker, listener in self._listeners.items()
        }
        self.happened: list[Happened] = []
        self.missed: list[Fault] = []
        self.most_in_flight = 0
        self.requests: Counter[type[ApiMessage]] = Counter()
        self._errors: list[Exception] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._began = time.monotonic()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="fault-proxy", daemon=True
        )

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def report(self) -> str:
        """Return the faults that have happened, one on each line."""
        first = f"{len(self.happened)} faults happened; {len(self.missed)} more were planned and did not:"
        return "\n".join([first, *map(str, self.happened)])

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive()
        if error is not None:
            error.add_note(self.report())
        elif self._errors:
            raise self._errors[0]

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        servers = [
            await asyncio.start_server(self._accepter(broker), sock=listener)
            for broker, listener in self._listeners.items()
        ]
        self._ready.set()
        await self._ended.wait()
        for server in servers:
            server.close()

    def _accepter(self, broker: Address) -> _Accept:
        async def accepted(client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving.add(task)  # otherwise the event loop would leave it to the garbage collector
            with contextlib.suppress(asyncio.CancelledError):  # the proxy ends
                await self._connect(broker, client_in, client_out)
            client_out.transport.abort()
            self._serving.discard(task)

        return accepted

    async def _connect(
        self, broker: Address, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter
    ) -> None:
        try:
            broker_in, broker_out = await asyncio.open_connection(*broker)
        except OSError:  # the broker is down, and so its listener closes the connection
            return
        connection = _Connection(self, broker, client_in, client_out, broker_in, broker_out)
        try:
            await connection.run()
        except Exception as error:
            self._errors.append(error)
        finally:
            self.missed += [each.fault for each in connection.planned if each.fault and not each.struck]
            broker_out.transport.abort()

    def take(self, api_key: int) -> Fault | None:
        """Count a request of kind *api_key* that has just arrived. Return the fault that hits it."""
        if (kind := REQUESTS.get(api_key)) is not None:
            self.requests[kind] += 1
        if self._limit is not None and len(self.happened) >= self._limit:
            return None
        return self._plan.take(api_key)

    def note(self, exchange: "_Exchange", broker: Address) -> None:
        """Record that the fault of *exchange* happens now."""
        assert exchange.fault is not None
        exchange.struck = True
        request = REQUESTS[exchange.api_key].__name__.removesuffix("Request")
        self.happened.append(Happened(time.monotonic() - self._began, request, broker, exchange.fault))


@dataclass(eq=False)
class _Exchange:
    """A request that has arrived, and the fault that hits it."""

    api_key: int
    version: int
    correlation_id: int
    fault: Fault | None
    struck: bool = False

    def is_hit(self, place: Place) -> bool:
        return self.fault is not None and self.fault.place is place


class _Cut(Exception):
    """A fault ends the connection."""


@dataclass
class _Connection:
    """A connection of a client, and the connection to the broker that belongs to it."""

    proxy: FaultProxy
    broker: Address
    client_in: asyncio.StreamReader
    client_out: asyncio.StreamWriter
    broker_in: asyncio.StreamReader
    broker_out: asyncio.StreamWriter
    planned: list[_Exchange] = field(default_factory=list)
    _due: deque[_Exchange] = field(default_factory=deque)
    _silent: bool = False
    """True if the client gets no more responses, because of a fault or because it has disconnected."""

    async def run(self) -> None:
        """Forward bytes in both directions until both have ended or a fault cuts the connection."""
        directions = [asyncio.create_task(self._requests()), asyncio.create_task(self._answers())]
        try:
            done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_EXCEPTION)
            for each in done:
                each.result()
        except _Cut:
            directions[0].cancel()
            self._silent = True
            self._finish_with_broker()
            await asyncio.wait(directions, timeout=_PATIENCE)
        finally:
            for each in directions:
                each.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _requests(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await self._request(await self.client_in.readexactly(_REQUEST_HEAD.size))
        self._finish_with_broker()

    def _finish_with_broker(self) -> None:
        """Send no more bytes. The broker processes the requests that it has and closes the connection."""
        with contextlib.suppress(OSError):
            self.broker_out.write_eof()

    async def _request(self, head: bytes) -> None:
        length, api_key, version, correlation_id = _REQUEST_HEAD.unpack(head)
        exchange = _Exchange(api_key, version, correlation_id, self.proxy.take(api_key))
        self._due.append(exchange)
        self.proxy.most_in_flight = max(self.proxy.most_in_flight, len(self._due))
        if exchange.fault is not None:
            self.planned.append(exchange)
        if exchange.is_hit(Place.REQUEST):
            await self._strike(exchange)
        left = _LENGTH + length - len(head)
        self.broker_out.write(head)
        if exchange.is_hit(Place.INSIDE_REQUEST):
            left -= await self._send(left // 2)
            await self._strike(exchange)
        await self._send(left)

    async def _send(self, count: int) -> int:
        """Forward *count* bytes from the client to the broker. Return *count*."""
        left = count
        while left:
            left -= len(part := await _some(self.client_in, left))
            self.broker_out.write(part)
            await self.broker_out.drain()
        return count

    async def _answers(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                length, correlation_id = _ANSWER_HEAD.unpack(
                    await self.broker_in.readexactly(_ANSWER_HEAD.size)
                )
                await self._answer(self._answered(correlation_id), length)
        with contextlib.suppress(OSError):
            self.client_out.write_eof()

    def _answered(self, correlation_id: int) -> _Exchange:
        """Return the exchange that this response ends. Exchanges before it get no response (``acks=0``)."""
        while (exchange := self._due.popleft()).correlation_id != correlation_id:
            pass
        return exchange

    async def _answer(self, exchange: _Exchange, length: int) -> None:
        source = self.broker_in
        if exchange.api_key in _NAME_BROKERS:
            body = await source.readexactly(length - _CORRELATION_ID)
            body = moved(exchange.api_key, exchange.version, body, self.proxy.addresses)
            source, length = asyncio.StreamReader(), _CORRELATION_ID + len(body)
            source.feed_data(body)
        silent = self._silent
        if exchange.is_hit(Place.ANSWER):
            await self._strike(exchange)
            assert exchange.fault is not None
            silent = silent or exchange.fault.action is Action.DROP
        left = length - _CORRELATION_ID
        await self._deliver(_ANSWER_HEAD.pack(length, exchange.correlation_id), silent)
        if exchange.is_hit(Place.INSIDE_ANSWER):
            left -= await self._receive(source, left // 2, silent)
            await self._strike(exchange)
        await self._receive(source, left, silent)

    async def _receive(self, source: asyncio.StreamReader, count: int, silent: bool) -> int:
        """Forward *count* bytes of *source* to the client. Return *count*."""
        left = count
        while left:
            left -= len(part := await _some(source, left))
            await self._deliver(part, silent)
        return count

    async def _deliver(self, part: bytes, silent: bool) -> None:
        if silent or self._silent:
            return
        try:
            self.client_out.write(part)
            await self.client_out.drain()
        except OSError:  # the client has disconnected; the broker can still send its responses
            self._silent = True

    async def _strike(self, exchange: _Exchange) -> None:
        """Apply the fault of *exchange* to the connection. Raises _Cut if it ends the connection."""
        fault = exchange.fault
        assert fault is not None
        self.proxy.note(exchange, self.broker)
        if fault.action is Action.HOLD:
            await asyncio.sleep(fault.seconds)
        elif fault.action is Action.SILENCE:
            self._silent = True
        elif fault.action is Action.CUT:
            self.client_out.close()
            raise _Cut
        elif fault.action is Action.RESET:
            connected: socket.socket = self.client_out.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.client_out.transport.abort()
            raise _Cut


async def _some(source: asyncio.StreamReader, most: int) -> bytes:
    """Return at most *most* bytes of *source*. Raises IncompleteReadError at its end."""
    part = await source.read(min(most, _PART))
    if not part:
        raise asyncio.IncompleteReadError(b"", most)
    return part


def moved(api_key: int, version: int, body: bytes, addresses: Mapping[Address, Address]) -> bytes:
    """Return the response *body*, which follows the correlation id, with the addresses of *addresses*.

    Raises KeyError for a broker that is not in *addresses*, because clients would bypass the proxy.
    """
    response_class = RESPONSES[api_key]
    reader = Reader(body)
    if response_class.is_flexible(version):
        reader.skip_tagged_fields()
    header = body[: reader.pos]
    response = response_class.read(reader, version)
    for each in _brokers(response, version):
        if each.port >= 0:  # -1: there is no coordinator yet
            each.host, each.port = addresses[each.host, each.port]
    return header + b"".join(response.encode(version))


def _brokers(response: ApiMessage, version: int) -> Sequence[_HasAddress]:
    """Return the brokers that *response* names."""
    if isinstance(response, FindCoordinatorResponse):
        return [response] if version < _MANY_COORDINATORS else response.coordinators
    assert isinstance(response, MetadataResponse | DescribeClusterResponse)
    return response.brokers


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)
