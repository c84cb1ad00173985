"""A broker in this process: one event loop in one daemon thread that owns everything."""

import asyncio
import atexit
import logging
import os
import socket
import threading
import warnings
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack
from weakref import WeakSet

from pyklient.broker.api_errors import Refusal
from pyklient.broker.config import BrokerSettings
from pyklient.broker.data_directory import DataDirectory
from pyklient.broker.node import Node
from pyklient.broker.options import BrokerOptions
from pyklient.broker.socket_server import Server
from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ConfigurationError,
    ForkError,
    KafkaTimeoutError,
    broker_error,
)

__all__ = ["Broker"]

_logger = logging.getLogger("pyklient.broker")

_T = TypeVar("_T")

_ANSWER_SECONDS: Final = 30.0
_START_SECONDS: Final = 600.0  # a large log is read from end to end after a crash
_STOP_SECONDS: Final = 60.0
_BACKLOG: Final = 128
_WILDCARDS: Final = ("", "0.0.0.0", "::")

_started: "WeakSet[Broker]" = WeakSet()


class Broker:
    """A Kafka broker for tests and first runs.

    ``port`` 0 takes a free one; started again, the broker takes the same. ``host`` is where it listens,
    ``advertised_host`` (default: the same) what clients are told. ``data_dir`` None stands for a temporary
    directory that ``close`` removes. Further options are the fields of ``BrokerSettings``. Raises
    ConfigurationError, naming the option that is wrong.

    >>> with Broker() as broker:
    ...     producer = Producer(broker.bootstrap_servers)

    One process holds one replica of everything: acknowledged records survive the death of the process,
    not that of the machine. Safe to use from several threads, but for ``start`` and ``close``.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        **options: Unpack[BrokerOptions],
    ) -> None:
        if advertised_host is None and host in _WILDCARDS:
            raise ConfigurationError(
                f"host {host!r} is every address of this machine; say in advertised_host which clients use"
            )
        self._settings = BrokerSettings.from_options(options)
        self._host = host
        self._advertised_host = advertised_host or host
        self._port = port
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._data: DataDirectory | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._stop: asyncio.Event | None = None
        self._stopped = threading.Event()
        self._forked = False

    @property
    def port(self) -> int:
        """Where it listens; ClosedError unless it runs."""
        return self._node().port

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients; ClosedError unless it runs."""
        return self._node().address

    @property
    def data_dir(self) -> Path:
        """Where the logs are; ClosedError unless it runs."""
        return self._node().data_dir

    def start(self) -> Self:
        """Take up the data directory, listen, and return when clients can connect.

        Connections are refused until all logs and groups have been read, so a port that can be connected to
        belongs to a broker that answers. Raises BrokerConnectionError when the port cannot be had,
        ConfigurationError when the directory is in use or is not a broker's.
        """
        if self._thread is not None:
            return self
        listener = _bind(self._host, self._port)
        try:
            self._data = DataDirectory(self._data_dir)
        except BaseException:
            listener.close()
            raise
        self._stopped.clear()
        self._port = listener.getsockname()[1]
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(listener, self._data, started), name="pyklient-broker", daemon=True
        )
        self._thread.start()
        try:
            started.result(_START_SECONDS)
        except BaseException:
            self.close()
            raise
        _started.add(self)
        atexit.register(self._close_at_exit)
        return self

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str | int | bool] | None = None
    ) -> None:
        """Create a topic, its settings under Kafka's names; BrokerError when it exists or cannot be made."""
        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in (config or {}).items()
        }
        self._call(self._create_topic(name, partitions, texts))

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the broker has been closed, by whomever; False when *timeout* seconds ran out first."""
        return self._stopped.wait(timeout)

    def close(self) -> None:
        """Close all connections and files. A temporary data directory is removed.

        Raises KafkaTimeoutError when the broker's thread does not end within a minute.
        """
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or self._forked:
            return
        atexit.unregister(self._close_at_exit)
        if loop is not None and stop is not None:
            with suppress(RuntimeError):  # the loop is closed already: it never came to serve
                loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_SECONDS)
        if thread.is_alive():
            raise KafkaTimeoutError(f"the broker did not stop within {_STOP_SECONDS:g} s")
        self._thread = None
        _started.discard(self)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        server = self._server
        return f"<Broker {server.node.address}>" if server is not None else "<Broker, not running>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Broker cannot be pickled: hand its bootstrap_servers to the other process")

    def _node(self) -> Node:
        if self._forked:
            raise ForkError("this broker runs in the process that forked this one; use its bootstrap_servers")
        if self._server is None:
            raise ClosedError("the broker is not running; use it in a with block, or call start()")
        return self._server.node

    async def _create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        try:
            node = self._node()
            node.topics.create(name, partitions, config)
            node.save()
        except Refusal as refusal:
            raise broker_error(refusal.code, refusal.sentence) from None

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run *work* on the broker's loop and wait for it."""
        try:
            self._node()
            assert self._loop is not None
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise
        return future.result(_ANSWER_SECONDS)

    def _run(self, listener: socket.socket, data: DataDirectory, started: "Future[None]") -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve(listener, data, started))
        finally:
            listener.close()
            data.close()
            self._stopped.set()

    async def _serve(self, listener: socket.socket, data: DataDirectory, started: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            address = (self._advertised_host, self._port)
            node = Node(self._settings, data, self._loop, address, self._host)
        except BaseException as error:
            started.set_exception(error)
            return
        try:
            listener.listen(_BACKLOG)
        except OSError as error:
            node.close()
            started.set_exception(_cannot_listen(self._host, self._port, error))
            return
        server = self._server = Server(node, listener)
        server.start()
        started.set_result(None)
        housekeeping = self._loop.create_task(_enforce_retention(node))
        try:
            await self._stop.wait()
        finally:
            self._server = None
            housekeeping.cancel()
            await server.close()
            node.close()

    def _close_at_exit(self) -> None:
        if not self._forked:
            what = repr(self)
            self.close()
            warnings.warn(f"{what} was left open", ResourceWarning, stacklevel=1)

    def forget_in_child(self) -> None:
        """In a forked child: close its copies of the sockets, or connections would outlive the broker."""
        self._forked = True
        if self._server is not None:
            self._server.close_sockets()


def _after_fork_in_child() -> None:
    for broker in list(_started):
        broker.forget_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


async def _enforce_retention(node: Node) -> None:
    while True:
        await asyncio.sleep(node.settings.retention_check_interval_ms / 1000)
        for log in node.topics.logs():
            deleted = log.enforce_retention(node.now_ms())
            if deleted:
                _logger.info("%s: %d old segments deleted", log.directory.name, deleted)


def _bind(host: str, port: int) -> socket.socket:
    """A socket that has the port and refuses connections until ``listen`` is called on it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from error
    return listener


def _cannot_listen(host: str, port: int, error: OSError) -> BrokerConnectionError:
    return BrokerConnectionError(
        f"cannot listen on {host}:{port}: {error.strerror or error}; port 0 takes a free one"
    )
