"""The network side of a client: its connections, its metadata, and the dialogues that it runs.

Each Producer, connector or Admin owns one NetworkClient and closes it. A NetworkClient opens no connection
before its first use. The only threads that it starts read responses from connections.
"""

import functools
import logging
import random
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pyklient import kernel
from pyklient.config import ClientConfig
from pyklient.counted import counted
from pyklient.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    UnreachableError,
    UnsupportedVersionError,
)
from pyklient.metrics.traffic import Traffic
from pyklient.net.backoff import Backoff
from pyklient.net.bootstrap import Bootstrap, NobodyThereError
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import connection_opener
from pyklient.net.connection.transport import Endpoint
from pyklient.net.connection_pool import Pool, Purpose, was_cut_short
from pyklient.net.dialogue import ANY, CONTROLLER, Ask, Dialogue, Pause, Refresh
from pyklient.net.forked_clients import abandon_after_fork
from pyklient.net.metadata import Metadata, MetadataHolder
from pyklient.net.metadata_request import ask_metadata
from pyklient.net.single_flight import SingleFlight

if TYPE_CHECKING:
    from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["NetworkClient", "NobodyThereError", "Purpose"]

T = TypeVar("T")

log = logging.getLogger("pyklient")


class NetworkClient:
    """The connections, the metadata and the dialogues of a client. Safe to use from several threads.

    The argument *timeout* of a method limits how long the call takes, in seconds.
    """

    def __init__(self, config: ClientConfig) -> None:
        if config.has_records:
            _tell_of_slow_kernel()
        self._config = config
        self._bootstrap = Bootstrap(config)
        self._retry = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._pool = Pool(
            connection_opener(config),
            Backoff(config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000),
            config.socket_connection_setup_timeout_ms / 1000,
        )
        self._holder = MetadataHolder()
        self._refreshing: SingleFlight[object, Metadata] = SingleFlight()
        abandon_after_fork(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a client cannot be pickled, because it holds connections: create it in the process that uses "
            "it, from the same options"
        )

    @property
    def metadata(self) -> Metadata:
        """The current metadata of the cluster. It is empty before the first refresh."""
        return self._holder.current

    @property
    def registry(self) -> "ZooKeeper | None":
        """The session with ZooKeeper, or None without the option ``zookeeper``."""
        return self._bootstrap.registry

    def on_cluster_change(self, listener: Callable[[], None]) -> None:
        """Call *listener* when ZooKeeper tells that brokers or topics were added or removed. *listener* must
        do no more than wake another thread."""
        self._bootstrap.on_cluster_change(listener)

    def refresh_metadata(
        self, topics: Collection[str] | None, timeout: float, *, allow_auto_create: bool = False
    ) -> Metadata:
        """Ask a broker for the metadata of *topics* and of the brokers. If *topics* is None, ask for all
        topics. Return the new metadata.

        If *allow_auto_create* is true, the broker may create topics that do not exist. Threads that ask for
        the same metadata at the same time share one request. The metadata has the error code of each topic.
        Raises KafkaTimeoutError with the last failure if no broker answers in time. Raises an error that is
        not retriable, such as AuthenticationError, at once.
        """
        wanted = None if topics is None else frozenset(topics)
        deadline = time.monotonic() + timeout
        try:
            return self._refreshing.run(
                (wanted, allow_auto_create),
                lambda: self._fetch_metadata(wanted, allow_auto_create, deadline, timeout),
                deadline,
                _is_no_timeout,
            )
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise KafkaTimeoutError(
                f"No metadata arrived within {timeout:.3g} s: another thread has asked for it, and no broker "
                "has answered"
            ) from None

    def forget_topics(self, topics: Collection[str]) -> None:
        """Remove *topics* from the current metadata, until they are asked for again."""
        self._holder.forget(topics)

    def connection(self, node_id: int, purpose: Purpose, timeout: float) -> Connection:
        """Return the connection to a node for a purpose. Open one if there is none. The node id -1 means any
        broker.

        If the metadata does not contain the node, asks for new metadata first. After a failure, a node is not
        contacted during its back-off; the call waits for the end of the back-off if *timeout* allows it.
        """
        node = self.metadata.nodes.get(node_id)
        if node is not None:
            return self._open(node.endpoint, purpose, timeout)
        self._pool.raise_if_closed()
        if node_id == ANY:
            return self._any_connection(purpose, timeout)
        deadline = time.monotonic() + timeout
        node = self.refresh_metadata((), timeout).nodes.get(node_id)
        if node is None:
            known = ", ".join(map(str, sorted(self.metadata.nodes))) or "none"
            raise BrokerConnectionError(
                f"broker {node_id} is not in the cluster at the moment (brokers: {known}); it may be down"
            )
        return self._open(node.endpoint, purpose, deadline - time.monotonic())

    def live_connection(self, node_id: int, purpose: Purpose) -> Connection | None:
        """Return the open connection to a node for a purpose; None if there is none. Does not wait."""
        return self._pool.live(node_id, purpose)

    def play(self, dialogue: Dialogue[T], timeout: float) -> T:
        """Run *dialogue*, a generator of requests to brokers, in this thread. Return its result.

        Raises the errors of the dialogue. After *timeout* seconds, raises KafkaTimeoutError, which names the
        last failure.
        """
        deadline = time.monotonic() + timeout
        last: KafkaError | None = None
        pauses = 0
        try:
            step = next(dialogue)
            while True:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    dialogue.close()
                    raise _out_of_time(timeout, last) from last
                if isinstance(step, Pause):
                    last = step.because or last
                    pauses += 1
                    seconds = self._retry.pause(pauses) if step.seconds is None else step.seconds
                    self.pause(min(seconds, remaining))
                    step = dialogue.send(None)
                    continue
                try:
                    answer = (
                        self.ask(step, remaining) if isinstance(step, Ask) else self.refresh(step, remaining)
                    )
                except KafkaError as error:
                    last = error
                    step = dialogue.throw(error)
                else:
                    step = dialogue.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def ask(self, step: Ask, timeout: float) -> Any:
        """Send the request in *step* and return its response.

        Raises KafkaTimeoutError after *timeout* seconds, or after the step's own time-out if that is shorter.
        """
        limit = self._config.request_timeout_ms / 1000 if step.timeout is None else step.timeout
        deadline = time.monotonic() + min(limit, timeout)
        node_id = self._controller(step, timeout) if step.to == CONTROLLER else step.to
        connection = self.connection(node_id, step.purpose, deadline - time.monotonic())
        remaining = max(deadline - time.monotonic(), 0.001)
        return connection.ask(
            step.request, remaining, max_version=step.max_version, min_version=step.min_version
        )

    def refresh(self, step: Refresh, timeout: float) -> Metadata:
        """Return the metadata of the topics that *step* names. Asks a broker, unless the step accepts the
        current metadata."""
        if step.known_ok and step.topics is not None and self.metadata.knows(step.topics):
            return self.metadata
        return self.refresh_metadata(step.topics, timeout)

    def pause(self, seconds: float) -> None:
        """Wait for *seconds*. Raise ClosedError as soon as the client is closed, or ForkError in a forked
        child."""
        self._pool.pause(seconds)

    def unreachable(self) -> KafkaError | None:
        """Return an error with all failures if the last attempt to connect failed for every known broker;
        otherwise None."""
        nodes = [node.endpoint for node in self.metadata.nodes.values()]
        known = {endpoint.address for endpoint in nodes}
        others = [endpoint for endpoint in self._bootstrap.endpoints if endpoint.address not in known]
        failures = [self._pool.last_failure(endpoint.node_id) for endpoint in (*nodes, *others)]
        found = [error for error in failures if error is not None]
        return _none_reached(found) if len(found) == len(failures) else None

    def traffic(self) -> list[Traffic]:
        """Return the counts of all requests so far, for each broker and purpose."""
        return self._pool.traffic()

    def close(self, timeout: float = 0) -> None:
        """Close all connections. A call that waits for a response raises ClosedError. May be called again.

        First waits until the brokers have handled the requests that expect no response (``acks=0``), for
        *timeout* seconds but never longer than two. Logs a warning for each broker that has not handled its
        requests.
        """
        self._pool.close(timeout)
        self._bootstrap.close()

    def abandon(self) -> None:
        """Close the sockets in a child process after a fork. From then on, every use of the client in the
        child process raises ForkError."""
        self._pool.abandon()
        self._bootstrap.abandon()

    def _controller(self, step: Ask, timeout: float) -> int:
        metadata = self.metadata
        if metadata.controller_id not in metadata.nodes:
            metadata = self.refresh_metadata((), timeout)
        if metadata.controller_id not in metadata.nodes:
            # Brokers before 0.10 name no controller. They have none of the requests that need it either.
            self._any_connection(step.purpose, timeout).version_of(type(step.request), step.max_version)
            raise BrokerConnectionError("the cluster has no controller at the moment")
        return metadata.controller_id

    def _fetch_metadata(
        self, topics: frozenset[str] | None, allow_auto_create: bool, deadline: float, timeout: float
    ) -> Metadata:
        failures = 0
        said: KafkaError | None = None
        while True:
            remaining = deadline - time.monotonic()
            try:
                self._bootstrap.look(remaining)
                connection = self._any_connection(Purpose.OTHER, deadline - time.monotonic())
                # If the broker does not answer, there must be time left to ask another one.
                limit = min(deadline, time.monotonic() + self._config.request_timeout_ms / 1000)
                response = ask_metadata(connection, topics, limit, allow_auto_create=allow_auto_create)
                self._bootstrap.complete(response)
                return self._holder.update(response, all_topics=topics is None)
            except KafkaError as error:
                if not error.retriable:
                    raise
                if said is None or not was_cut_short(error, remaining):
                    said = error
                failures += 1
                pause = self._retry.pause(failures)
                if time.monotonic() + pause >= deadline:
                    if isinstance(said, UnsupportedVersionError):
                        raise said from None
                    attempts = counted(failures, "attempt")
                    cause = said.cause if isinstance(said, UnreachableError) else said
                    raise KafkaTimeoutError(
                        f"No broker answered within {timeout:.3g} s ({attempts}; the last failed: {cause}); "
                        f"{self._config.waiting_option} sets the time to wait"
                    ) from said
            self._pool.pause(pause)

    def _any_connection(self, purpose: Purpose, timeout: float) -> Connection:
        """Return a connection to any broker: an open one if possible, then a connection to a known node, and
        then to a bootstrap server.

        Fails only after trying all of these brokers. A node in its back-off is tried only if every node is in
        its back-off. Raises NobodyThereError if all bootstrap servers have refused connections for
        ``bootstrap_refused_timeout_ms``.
        """
        nodes = [node.endpoint for node in self.metadata.nodes.values()]
        random.shuffle(nodes)
        for endpoint in (*nodes, *self._bootstrap.endpoints):
            if (connection := self._pool.live(endpoint.node_id, purpose)) is not None:
                return connection
        deadline = time.monotonic() + timeout
        self._bootstrap.look(timeout)
        known = {endpoint.address for endpoint in nodes}
        others = [endpoint for endpoint in self._bootstrap.endpoints if endpoint.address not in known]
        candidates = [*nodes, *random.sample(others, len(others))]
        waits = {endpoint: self._pool.wait_time(endpoint.node_id) for endpoint in candidates}
        rested = [endpoint for endpoint in candidates if not waits[endpoint]]
        order = rested or sorted(candidates, key=waits.__getitem__)
        began = time.monotonic()
        try:
            return self._first_to_open(order, purpose, deadline - time.monotonic())
        except UnreachableError as error:
            self._bootstrap.give_up_if_nobody_is_there(error, began)
            raise

    def _first_to_open(self, endpoints: list[Endpoint], purpose: Purpose, timeout: float) -> Connection:
        """Return a connection to the first of *endpoints* that can be reached. Each attempt gets an equal
        part of *timeout*."""
        deadline = time.monotonic() + timeout
        failures: dict[Endpoint, KafkaError] = {}
        for index, endpoint in enumerate(endpoints):
            share = (deadline - time.monotonic()) / (len(endpoints) - index)
            try:
                return self._open(endpoint, purpose, share)
            except (AuthenticationError, ClosedError, ForkError):
                raise
            except KafkaError as error:
                failures[endpoint] = error
        for endpoint in self._bootstrap.endpoints:
            if (earlier := self._pool.last_failure(endpoint.node_id)) is not None:
                failures.setdefault(endpoint, earlier)
        raise _none_reached(list(failures.values()))

    def _open(self, endpoint: Endpoint, purpose: Purpose, timeout: float) -> Connection:
        live = self._pool.live(endpoint.node_id, purpose)
        if live is not None and live.endpoint == endpoint:
            return live
        try:
            connection = self._pool.get(endpoint, purpose, timeout)
        except (BrokerConnectionError, KafkaTimeoutError) as error:
            raise self._bootstrap.with_origin(endpoint, error) from error
        self._bootstrap.reached(endpoint)
        return connection


@functools.cache
def _tell_of_slow_kernel() -> None:
    """Log a warning, once in a process, if the compiled kernel, which handles records fast, is missing. Log
    nothing if ``PYKLIENT_KERNEL`` asks for the Python kernel."""
    if kernel.not_compiled and not kernel.is_pinned:
        log.warning(
            "Records are encoded and decoded in Python, which takes about ten times as long as with "
            "pyklient's compiled code (the compiled kernel). The compiled kernel is not used: %s",
            kernel.not_compiled,
        )


def _out_of_time(timeout: float, last: KafkaError | None) -> KafkaTimeoutError:
    if isinstance(last, KafkaTimeoutError) and isinstance(last.__cause__, KafkaError):
        last = last.__cause__  # that time-out was only the rest of this one
    reason = "no broker answered in time" if last is None else f"the last failure: {last}"
    return KafkaTimeoutError(f"The call did not finish within {timeout:.3g} s; {reason}")


def _is_no_timeout(error: KafkaError) -> bool:
    """Return True if *error* may be raised in other threads that wait for the same metadata.

    A time-out must not be raised in other threads, because they may have more time than the thread that got
    it.
    """
    return not isinstance(error, KafkaTimeoutError)


def _none_reached(failures: list[KafkaError]) -> KafkaError:
    if len(failures) == 1 or not any(error.retriable for error in failures):
        return failures[0]
    return UnreachableError(
        "no broker could be reached: "
        + "; ".join(f"({index}) {error}" for index, error in enumerate(failures, 1)),
        "; ".join(error.cause if isinstance(error, UnreachableError) else str(error) for error in failures),
        nobody_there=all(isinstance(error, UnreachableError) and error.nobody_there for error in failures),
    )
