"""Registers a broker in ZooKeeper.

A broker is registered when it starts, and again after its session with ZooKeeper has expired. When its topics
change, their entries in ZooKeeper are updated.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from pyklient.broker.registration.entries import (
    FoundCluster,
    TopicEntry,
    announce,
    find_cluster,
    mirror_topics,
)
from pyklient.errors import ClosedError, KafkaError
from pyklient.outage import Outage
from pyklient.registry import paths
from pyklient.registry.broker_nodes import BrokerEndpoint, BrokerNode
from pyklient.registry.node_content import now_ms
from pyklient.registry.requests import Children, RegistryDialogue
from pyklient.registry.session_event import SessionEvent
from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["Registration"]

T = TypeVar("T")

log = logging.getLogger("pyklient.broker")

_START_SECONDS: Final = 30.0
_REQUEST_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_MARGIN: Final = 2.0


class Registration:
    """The entries of one broker in ZooKeeper. Only the thread of the broker's event loop may call the
    methods.

    Requests to ZooKeeper run in an executor's threads, so that the broker can serve its clients meanwhile.
    The registration has its own executor, because some versions of Python cannot shut down an event loop's
    default executor at the end of a program.
    """

    def __init__(self, address: str, session_timeout: float, loop: asyncio.AbstractEventLoop) -> None:
        self._session = ZooKeeper(
            ZooKeeperSettings(
                address=address, session_timeout=session_timeout, connection_timeout=session_timeout
            )
        )
        self._executor = ThreadPoolExecutor(thread_name_prefix="pyklient-broker-registration")
        self._connection_timeout = session_timeout
        self._wait_seconds = session_timeout + _MARGIN
        self._loop = loop
        self._due = asyncio.Event()
        self._expired = False
        self._written: Mapping[str, TopicEntry] = {}
        self._wanted: Mapping[str, TopicEntry] = {}
        self._broker: BrokerNode | None = None
        self._cluster_id = ""
        self._outage = Outage(log, "this broker's entries in ZooKeeper", "registration_outage")
        self._session.add_listener(self._on_session_event)

    async def find_cluster(self, broker_id: int) -> FoundCluster:
        """Return the cluster id and the topics that are in ZooKeeper. Raises RegistryConnectionError if
        ZooKeeper cannot be reached within the session time-out, and ConfigurationError if a broker with
        another id than *broker_id* is registered there."""
        look = partial(self._session.ask, Children(paths.BROKER_IDS), self._connection_timeout)
        await self._loop.run_in_executor(self._executor, look)
        found = await self.play(find_cluster(broker_id), _START_SECONDS)
        for reason in found.ignored:
            log.warning("a topic in ZooKeeper is ignored: %s", reason)
        return found

    async def begin(self, broker_id: int, host: str, port: int, cluster_id: str) -> None:
        """Write all entries of the broker into ZooKeeper. *host* and *port* are its address. Raises
        ConfigurationError if another broker has the same id."""
        address = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", host, port)
        self._broker = BrokerNode(broker_id, (address,), timestamp_ms=now_ms())
        self._cluster_id = cluster_id
        wanted = self._wanted
        await self.play(announce(self._broker, cluster_id, self._wait_seconds), _START_SECONDS)
        await self.play(mirror_topics({}, wanted), _START_SECONDS)
        self._written = wanted

    def topics_changed(self, topics: Mapping[str, TopicEntry]) -> None:
        """Store the broker's present topics. ``follow`` then writes the changes into ZooKeeper."""
        self._wanted = topics
        self._due.set()

    async def follow(self) -> None:
        """Write each change of the topics into ZooKeeper, and all entries again after the session has
        expired.

        This task runs until it is cancelled. After a retriable error it tries again. It raises any other
        error, such as ConfigurationError if another broker has registered with the id of this broker.
        """
        assert self._broker is not None
        pause = _FIRST_PAUSE
        while True:
            await self._due.wait()
            self._due.clear()
            expired, wanted = self._expired, self._wanted
            self._expired = False
            try:
                if expired:
                    self._written = {}
                    await self.play(
                        announce(self._broker, self._cluster_id, self._wait_seconds), _START_SECONDS
                    )
                await self.play(mirror_topics(self._written, wanted), _START_SECONDS)
            except ClosedError:
                return
            except KafkaError as error:
                if not error.retriable:
                    raise
                self._outage.failed(error, "trying to write them again")
                self._expired |= expired
                self._due.set()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._outage.ended()
                pause = _FIRST_PAUSE
                self._written = wanted
                if expired:
                    log.info("this broker is registered in ZooKeeper again, in a new session")

    async def play(self, dialogue: RegistryDialogue[T], timeout: float = _REQUEST_SECONDS) -> T:
        """Run *dialogue* in another thread, for at most *timeout* seconds, and return its result."""
        return await self._loop.run_in_executor(self._executor, self._session.play, dialogue, timeout)

    async def close(self) -> None:
        """End the session with ZooKeeper. ZooKeeper then deletes the broker's ephemeral nodes.

        The broker continues to serve its clients during this call. If ZooKeeper does not answer, the call
        takes one second more than the session time-out.
        """
        closed = asyncio.Event()

        def end_session() -> None:
            try:
                self._session.close()
                self._executor.shutdown()
            finally:
                self._loop.call_soon_threadsafe(closed.set)

        # Executors accept no work at the end of the process, when a broker that is still open is closed.
        ending = threading.Thread(target=end_session, name="pyklient-broker-registration-close", daemon=True)
        try:
            ending.start()
        except RuntimeError as error:
            log.info(
                "no thread can be started to end the broker's session with ZooKeeper (%s). The broker ends "
                "the session itself, and cannot serve clients meanwhile",
                error,
            )
            end_session()
        await closed.wait()

    def abandon(self) -> None:
        """Close the socket of the session in a child process after a fork."""
        self._session.abandon()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._renew)

    def _renew(self) -> None:
        self._expired = True
        self._due.set()
