"""The network side of a client that uses only one broker, which is given by its address: one connection, and
the dialogues that run on it.

Kafka's old clients call this part BlockingChannel. Unlike a NetworkClient, it looks up no leaders and asks no
other broker. If the connection fails while a request waits for its response, the request is sent once more,
on a new connection.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pyklient.config import ClientConfig
from pyklient.errors import BrokerConnectionError, KafkaError, KafkaTimeoutError
from pyklient.net.backoff import Backoff
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import connection_opener
from pyklient.net.connection.locks import new_call_lock
from pyklient.net.connection.transport import UNKNOWN_NODE, Endpoint
from pyklient.net.connection_pool import Pool, Purpose
from pyklient.net.dialogue import Ask, Dialogue, Pause, Refresh
from pyklient.net.forked_clients import abandon_after_fork
from pyklient.net.metadata import Metadata
from pyklient.net.metadata_request import ask_metadata

__all__ = ["BrokerChannel"]

log = logging.getLogger("pyklient.net")

_T = TypeVar("_T")


class BrokerChannel:
    """A connection to the broker at *host* and *port*, which is opened when a request needs it.

    Safe to use from several threads; one request at a time is in flight.
    """

    def __init__(self, config: ClientConfig, host: str, port: int) -> None:
        self.endpoint = Endpoint(UNKNOWN_NODE, host, port)
        self._config = config
        self._request_timeout = config.request_timeout_ms / 1000
        self._pool = Pool(
            connection_opener(config),
            Backoff(config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000),
            config.socket_connection_setup_timeout_ms / 1000,
        )
        self._calling = new_call_lock()
        abandon_after_fork(self)

    def play(self, dialogue: Dialogue[_T], client_id: str | None = None) -> _T:
        """Run *dialogue* in this thread, and return its result. All its requests go to this broker, even
        those that it addresses to another node.

        The requests carry *client_id*, or the client id of the config if *client_id* is None. Raises the
        errors of the dialogue, and KafkaTimeoutError after ``default_api_timeout_ms``.
        """
        seconds = self._config.default_api_timeout_ms / 1000
        deadline = time.monotonic() + seconds
        self._pool.raise_if_closed()
        if not self._calling.acquire(timeout=seconds):
            raise KafkaTimeoutError(
                f"the connection to {self.endpoint} was not free within {seconds:.3g} s, because another "
                "thread is using it"
            )
        try:
            name = self._config.client_id if client_id is None else client_id
            return self._run(dialogue, name, deadline)
        finally:
            self._calling.release()

    def close(self) -> None:
        """Close the connection. A call that waits for a response raises ClosedError, and so does each later
        call. May be called again."""
        self._pool.close()

    def abandon(self) -> None:
        """Close the socket in a child process after a fork. From then on, every call in the child process
        raises ForkError."""
        self._pool.abandon()

    def _run(self, dialogue: Dialogue[_T], client_id: str, deadline: float) -> _T:
        try:
            step = next(dialogue)
            while True:
                try:
                    answer = self._carry_out(step, client_id, deadline)
                except KafkaError as error:
                    step = dialogue.throw(error)
                else:
                    step = dialogue.send(answer)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _carry_out(self, step: Ask | Pause | Refresh, client_id: str, deadline: float) -> Any:
        if isinstance(step, Pause):
            return self._pool.pause(min(step.seconds or 0.0, deadline - time.monotonic()))
        call = partial(_ask, step) if isinstance(step, Ask) else partial(_refresh, step)
        try:
            return self._attempt(call, client_id, deadline)
        except (BrokerConnectionError, KafkaTimeoutError) as error:
            if time.monotonic() >= deadline:
                raise
            log.info("a request failed and is sent once more, on a new connection: %s", error)
        return self._attempt(call, client_id, deadline)

    def _attempt(self, call: Callable[[Connection, float], Any], client_id: str, deadline: float) -> Any:
        """Open a connection if there is none, and return the result of *call*. The arguments of *call* are
        the connection and the earlier of *deadline* and the end of the request timeout."""
        connection = self._pool.get(self.endpoint, Purpose.OTHER, deadline - time.monotonic())
        connection.use_client_id(client_id)
        return call(connection, min(deadline, time.monotonic() + self._request_timeout))


def _ask(step: Ask, connection: Connection, deadline: float) -> Any:
    remaining = max(deadline - time.monotonic(), 0.001)
    return connection.ask(step.request, remaining, max_version=step.max_version, min_version=step.min_version)


def _refresh(step: Refresh, connection: Connection, deadline: float) -> Metadata:
    response = ask_metadata(connection, step.topics, deadline)
    return Metadata().updated(response, all_topics=step.topics is None)
