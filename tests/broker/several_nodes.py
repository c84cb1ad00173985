"""A cluster of several nodes on one event loop, which runs in a separate thread."""

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from pyklient.broker.cluster.metadata import ClusterMetadata, Endpoint
from pyklient.broker.config import BrokerConfig
from pyklient.broker.controller import Controller
from pyklient.broker.data_directory import DataDirectory
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.node_state import NodeState
from pyklient.broker.socket_server import SocketServer
from tests.broker.wire_client import DEADLINE

_T = TypeVar("_T")


class SeveralNodes:
    """Nodes 1 to *count*, which share the metadata in *directory* and store their logs below it.

    If *load* is false, the nodes do not load groups before ``load_groups`` is called.
    """

    def __init__(self, directory: Path, count: int, *, load: bool = True) -> None:
        self.nodes: list[NodeState] = []
        self._directory = directory
        self._load = load
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._data = DataDirectory(self._directory)
        self._thread.start()
        self.call(self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(DEADLINE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()
        self._data.close()

    @property
    def bootstrap_servers(self) -> str:
        return self.nodes[0].endpoint.address

    def call(self, function: Callable[[], _T]) -> _T:
        """Call *function* on the event loop of the nodes."""
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return future.result(DEADLINE)

    def _start(self) -> None:
        endpoints = [
            Endpoint(number, "127.0.0.1", listener.getsockname()[1])
            for number, listener in enumerate(self._listeners, 1)
        ]
        controller = Controller(ClusterMetadata(BrokerConfig(), self._data, endpoints))
        for endpoint in endpoints:
            directory = self._directory / f"node-{endpoint.node_id}"
            directory.mkdir(exist_ok=True)
            config = BrokerConfig(node_id=endpoint.node_id)
            logs = LogManager(directory, max_producer_ids=config.max_producer_ids)
            self.nodes.append(
                NodeState(config, directory, self._loop, controller, listen_host="127.0.0.1", logs=logs)
            )
        self._servers = [
            SocketServer(node, listener) for node, listener in zip(self.nodes, self._listeners, strict=True)
        ]
        if self._load:
            self._start_loading()
        for server in self._servers:
            server.start()

    def load_groups(self) -> None:
        """Begin to load the groups of all nodes."""
        self.call(self._start_loading)

    def _start_loading(self) -> None:
        self._tasks = [
            self._loop.create_task(work)
            for node in self.nodes
            for work in (node.run_group_coordinator(), node.run_transaction_coordinator())
        ]

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for server in self._servers:
            await server.close()
        for node in self.nodes:
            node.close(record_clean_shutdown=True)
