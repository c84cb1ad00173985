"""A broker in this process: one event loop in one daemon thread that owns everything."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pyklient.broker.node import Node
from pyklient.broker.refusal import Refusal
from pyklient.broker.server import Server
from pyklient.broker.settings import BrokerSettings
from pyklient.broker.store import DataDirectory
from pyklient.errors import BrokerConnectionError, ClosedError, broker_error

__all__ = ["Broker"]

_logger = logging.getLogger("pyklient.broker")

_T = TypeVar("_T")

_ANSWER_SECONDS: Final = 30.0


class Broker:
    """A Kafka broker for tests and first runs.

    ``port`` 0 takes a free one. ``host`` is where it listens, ``advertised_host`` (default: the same) what
    clients are told. ``data_dir`` None stands for a temporary directory that ``close`` removes. Further
    options are the fields of ``BrokerSettings``; ConfigurationError names the wrong one.

    >>> with Broker() as broker:
    ...     producer = Producer(broker.bootstrap_servers)

    One process holds one replica of everything: acknowledged records survive the death of the process,
    not that of the machine. Safe to use from several threads.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        self._settings = BrokerSettings.from_options(options)
        self._host = host
        self._advertised_host = advertised_host or host
        self._wanted_port = port
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._data: DataDirectory | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._stop: asyncio.Event | None = None
        self._stopped = threading.Event()

    @property
    def port(self) -> int:
        """Where it listens; ClosedError unless it runs."""
        return self._running().port

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients; ClosedError unless it runs."""
        node = self._running()
        return f"{node.host}:{node.port}"

    @property
    def data_dir(self) -> Path:
        """Where the logs are; ClosedError unless it runs."""
        self._running()
        assert self._data is not None
        return self._data.path

    def start(self) -> Self:
        """Take up the data directory, listen, and return when clients can connect.

        Raises BrokerConnectionError when the port cannot be had, ConfigurationError for the directory.
        """
        if self._thread is not None:
            return self
        self._stopped.clear()
        listener = _listen(self._host, self._wanted_port)
        try:
            self._data = DataDirectory(self._data_dir)
        except BaseException:
            listener.close()
            raise
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(listener, started), name="pyklient-broker", daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        return self

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic; BrokerError when it exists already, or cannot be made so."""
        self._call(self._create_topic(name, partitions, config or {}))

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the broker has been closed, by whomever; False when *timeout* seconds ran out first."""
        return self._stopped.wait(timeout)

    def close(self) -> None:
        """Close all connections and files. A temporary data directory is removed."""
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None:
            return
        if loop is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)
        thread.join()
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        node = self._node
        return f"<Broker {node.host}:{node.port}>" if node is not None else "<Broker, not running>"

    def _running(self) -> Node:
        if self._node is None:
            raise ClosedError("the broker is not running; use it in a with block, or call start()")
        return self._node

    async def _create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        try:
            self._running().topics.create(name, partitions, config)
        except Refusal as refusal:
            raise broker_error(refusal.code, refusal.sentence) from None

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._node is None or self._loop is None:
            work.close()
            raise ClosedError("the broker is not running; use it in a with block, or call start()")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_ANSWER_SECONDS)

    def _run(self, listener: socket.socket, started: "Future[None]") -> None:
        assert self._data is not None
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve(listener, self._data, started))
        finally:
            self._data.close()
            self._stopped.set()

    async def _serve(self, listener: socket.socket, data: DataDirectory, started: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            node = Node(self._settings, data, self._loop)
        except BaseException as error:
            listener.close()
            started.set_exception(error)
            return
        node.host, node.port = self._advertised_host, listener.getsockname()[1]
        server = Server(node, listener)
        server.start()
        self._node = node
        started.set_result(None)
        housekeeping = self._loop.create_task(_enforce_retention(node))
        try:
            await self._stop.wait()
        finally:
            self._node = None
            housekeeping.cancel()
            await server.close()
            node.close()


async def _enforce_retention(node: Node) -> None:
    while True:
        await asyncio.sleep(node.settings.retention_check_interval_ms / 1000)
        for log in node.topics.logs():
            deleted = log.enforce_retention(node.now_ms())
            if deleted:
                _logger.info("%s: %d old segments deleted", log.directory.name, deleted)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise BrokerConnectionError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; port 0 takes a free one"
        ) from error
