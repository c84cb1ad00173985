"""``Broker``, which runs a Kafka broker in a daemon thread of this process.

All state of the broker belongs to the event loop of this thread.
"""

import asyncio
import atexit
import errno
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
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack
from weakref import WeakSet

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.metadata import ClusterMetadata, Endpoint
from pyklient.broker.config import BrokerConfig
from pyklient.broker.controller import Controller
from pyklient.broker.data_directory import DataDirectory
from pyklient.broker.keyword_types import BrokerOptions
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.node_state import NodeState
from pyklient.broker.socket_server import SocketServer
from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ConfigurationError,
    ForkError,
    KafkaTimeoutError,
    broker_error,
)

if TYPE_CHECKING:
    from pyklient.broker.registration.entries import FoundCluster, FoundTopic
    from pyklient.broker.registration.registration import Registration

__all__ = ["Broker"]

log = logging.getLogger("pyklient.broker")

_T = TypeVar("_T")

_CALL_SECONDS: Final = 30.0
_START_SECONDS: Final = 600.0  # after a crash the logs are read from end to end
_STOP_SECONDS: Final = 60.0
_BACKLOG: Final = 128
_WILDCARDS: Final = ("", "0.0.0.0", "::")

_started: "WeakSet[Broker]" = WeakSet()


class Broker:
    """A Kafka broker for tests and first runs.

    If ``port`` is 0, the broker chooses a free port and keeps it when it is started again. The broker listens
    on ``host``; clients connect to ``advertised_host``, which is ``host`` by default. If ``data_dir`` is
    None, the broker uses a temporary directory that ``close`` removes. Further options are the fields of
    ``BrokerConfig``. Raises ConfigurationError with the name of an invalid option.

    >>> with Broker() as broker:
    ...     producer = Producer(broker.bootstrap_servers)

    Each partition has only one replica. Acknowledged records survive a crash of the process, but not of the
    machine. All methods except ``start`` and ``close`` may be called from several threads.
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
                f"a broker on host {host!r} listens on all addresses of this machine; "
                "set advertised_host to the address that clients connect to"
            )
        self._config = BrokerConfig.from_options(options)
        self._host = host
        self._advertised_host = advertised_host or host
        self._port = port
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._data: DataDirectory | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: SocketServer | None = None
        self._stop: asyncio.Event | None = None
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._forked = False

    @property
    def port(self) -> int:
        """The port on which the broker listens. Raises ClosedError if the broker is not running."""
        return self._node().endpoint.port

    @property
    def bootstrap_servers(self) -> str:
        """The address ``host:port`` to which clients connect. Raises ClosedError if the broker is not
        running."""
        return self._node().endpoint.address

    @property
    def data_dir(self) -> Path:
        """The directory in which the broker keeps its logs. Raises ClosedError if the broker is not
        running."""
        return self._node().directory

    def start(self) -> Self:
        """Open the data directory, listen for clients, and return when they can connect.

        The broker accepts no connection before it has checked all logs, so that a client that can connect
        also gets responses. Groups may still be loading when this method returns. Requests about them get the
        error COORDINATOR_LOAD_IN_PROGRESS, and clients try again. Raises BrokerConnectionError if the port is
        not available, and ConfigurationError if the data directory is in use or has files of another program.
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
        self._failure = None
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
        """Create a topic.

        *config* has settings of the topic, under Kafka's names, such as ``retention.ms``. Raises BrokerError
        if the topic cannot be created.
        """
        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in (config or {}).items()
        }
        self._call(self._create_topic(name, partitions, texts))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the broker is closed. Return False if it is still open after *timeout* seconds.

        If an error has stopped the broker, raise this error. For example, a broker that uses ZooKeeper stops
        if its session expires and another broker then registers with the same broker id.
        """
        stopped = self._stopped.wait(timeout)
        if stopped and self._failure is not None:
            raise self._failure
        return stopped

    def close(self) -> None:
        """Close all connections and files, and remove the data directory if it is temporary.

        Raises KafkaTimeoutError if the broker's thread does not end within a minute.
        """
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or self._forked:
            return
        atexit.unregister(self._close_at_exit)
        if loop is not None and stop is not None:
            with suppress(RuntimeError):  # the loop is closed already, because the broker could not start
                loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_SECONDS)
        if thread.is_alive():
            raise KafkaTimeoutError(
                f"the broker's thread did not end within {_STOP_SECONDS:g} s; call close() again to wait "
                "longer"
            )
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
        return f"<Broker {server.node.endpoint.address}>" if server is not None else "<Broker, not running>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Broker cannot be pickled; pass its bootstrap_servers to the other process")

    def _node(self) -> NodeState:
        if self._forked:
            raise ForkError(
                "a forked process cannot use this Broker, which runs in the parent process; "
                "read bootstrap_servers before the fork"
            )
        if self._failure is not None:
            raise ClosedError(
                f"the broker has stopped because of an error: {self._failure}; close it, and start it again"
            ) from self._failure
        if self._server is None:
            raise ClosedError("the broker is not running; use it in a with block, or call start()")
        return self._server.node

    async def _create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        try:
            node = self._node()
            node.controller.create_topic(name, partitions, config)
            node.cluster.save()
        except ApiError as error:
            raise broker_error(error.code, error.message) from None

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run *work* on the broker's event loop and return its result."""
        try:
            self._node()
            assert self._loop is not None
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise
        return future.result(_CALL_SECONDS)

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
        registration = _registration(self._config, self._loop)
        try:
            found = None if registration is None else await registration.find_cluster(self._config.node_id)
            node = self._open_node(data, self._loop, found)
            node.carry_over_former_journal()
        except BaseException as error:
            if registration is not None:
                await registration.close()
            started.set_exception(error)
            return
        try:
            listener.listen(_BACKLOG)
        except OSError as error:
            node.close(record_clean_shutdown=not data.temporary)
            if registration is not None:
                await registration.close()
            started.set_exception(_cannot_listen(self._host, self._port, error))
            return
        server = self._server = SocketServer(node, listener)
        tasks = [
            # First the coordinators, so that they load small topics before any request.
            self._loop.create_task(node.run_group_coordinator()),
            self._loop.create_task(node.run_transaction_coordinator()),
            self._loop.create_task(_enforce_retention(node)),
        ]
        server.start()
        try:
            if registration is not None:
                await _begin(registration, node)
                tasks.append(self._loop.create_task(registration.follow()))
            for task in tasks:
                task.add_done_callback(self._task_ended)
            started.set_result(None)
            await self._stop.wait()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            self._server = None
            for task in tasks:
                task.cancel()
            if registration is not None:
                await registration.close()
            await server.close()
            node.close(record_clean_shutdown=not data.temporary)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        """If *task* has failed, log its error and stop the broker, which cannot work without this task."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        assert self._stop is not None
        log.error("%r stops because of an error: %s", self, error, exc_info=error)
        self._failure = error
        self._stop.set()

    def _open_node(
        self, data: DataDirectory, loop: asyncio.AbstractEventLoop, found: "FoundCluster | None"
    ) -> NodeState:
        """Open the logs in the data directory, and return the state of this broker's node.

        *found* has the cluster id and the topics that are registered in ZooKeeper. A topic is created
        if it is registered in ZooKeeper and the data directory does not have it.
        """
        cluster_id = None if found is None else found.cluster_id
        saved_id = data.metadata.get("cluster_id")
        if cluster_id is not None and saved_id not in (None, cluster_id):
            raise ConfigurationError(
                f"data_dir {data.path} belongs to the cluster {saved_id}, but the chroot in ZooKeeper "
                f"belongs to the cluster {cluster_id}; choose another data_dir or another chroot"
            )
        # First of all, because this removes the record of the last clean shutdown.
        logs = LogManager(data.path, max_producer_ids=self._config.max_producer_ids)
        endpoint = Endpoint(self._config.node_id, self._advertised_host, self._port)
        controller = Controller(ClusterMetadata(self._config, data, [endpoint], cluster_id))
        node = NodeState(self._config, data.path, loop, controller, listen_host=self._host, logs=logs)
        for topic in found.topics if found is not None else ():
            _adopt(node, topic)
        node.cluster.save()
        return node

    def _close_at_exit(self) -> None:
        if not self._forked:
            what = repr(self)
            self.close()
            warnings.warn(f"{what} was not closed", ResourceWarning, stacklevel=1)

    def forget_in_child(self) -> None:
        """Close the broker's sockets in a child process, which has inherited them by a fork.

        Otherwise a connection would stay open after the broker in the parent process has closed it.
        """
        self._forked = True
        if self._server is not None:
            self._server.close_sockets()
            if (registration := self._server.node.cluster.registration) is not None:
                registration.abandon()


def _after_fork_in_child() -> None:
    for broker in list(_started):
        broker.forget_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _registration(config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> "Registration | None":
    if config.zookeeper is None:
        return None
    from pyklient.broker.registration.registration import Registration  # and kazoo, which few brokers need

    return Registration(config.zookeeper, config.zookeeper_session_timeout_ms / 1000, loop)


async def _begin(registration: "Registration", node: NodeState) -> None:
    node.cluster.registration = registration
    node.cluster.tell_registration()
    endpoint = node.endpoint
    await registration.begin(endpoint.node_id, endpoint.host, endpoint.port, node.cluster.cluster_id)


def _adopt(node: NodeState, topic: "FoundTopic") -> None:
    """Create *topic* on *node* if the node does not have it yet. The topic was found in ZooKeeper, where a
    tool or an earlier broker has written it."""
    if node.cluster.topics.find(topic.name) is not None:
        return
    try:
        node.controller.create_topic(topic.name, topic.partitions, topic.config)
    except ApiError as error:
        log.warning(
            "the broker cannot create topic %s, which is registered in ZooKeeper: %s",
            topic.name,
            error.message,
        )


async def _enforce_retention(node: NodeState) -> None:
    while True:
        await asyncio.sleep(node.config.retention_check_interval_ms / 1000)
        node.logs.enforce_retention(node.now_ms())


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to *host* and *port*. Clients cannot connect before its method ``listen``
    is called."""
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
    advice = "; port 0 chooses a free one" if error.errno in (errno.EADDRINUSE, errno.EACCES) else ""
    if error.errno == errno.EADDRNOTAVAIL:
        advice = "; host must be an address of this machine, such as 127.0.0.1 or 0.0.0.0"
    return BrokerConnectionError(f"cannot listen on {host}:{port}: {error.strerror or error}{advice}")
