"""The connection of a classic producer to one broker. It is opened when it is needed, and again after a
failure."""

import logging
import time
from typing import Any, Final

from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import ClosedError, KafkaError, KafkaTimeoutError
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import open_connection
from pyklient.net.connection.old_brokers import OldBrokers
from pyklient.net.connection.transport import Endpoint
from pyklient.net.forked_clients import abandon_after_fork, belongs_to_the_parent
from pyklient.net.single_flight import SingleFlight
from pyklient.net.unconfirmed_requests import LONGEST_WAIT, await_handled
from pyklient.protocol.schema import ApiMessage

__all__ = ["BrokerConnection"]

log = logging.getLogger("pyklient.producer")

_OLD_BROKERS: Final = OldBrokers()
"""The brokers that cannot tell which versions of requests they support. All classic producers of a process
share this object."""


class BrokerConnection:
    """A connection to the broker at *endpoint*. Safe to use from several threads.

    If the program changes ``endpoint``, because the broker has moved, the next request opens a connection to
    the new endpoint. A request that is in flight on the old connection still gets its response.

    If a request fails, the connection is closed and the error is raised. This class does not send a request
    again. If a request has no response (``acks=0``), the broker reports an error of it only by closing the
    connection. In that case, the next call raises BrokerConnectionError.

    If the last request on a connection had no response, the connection is closed or replaced only after the
    broker has answered a further request: Kafka 0.9 to 0.10.1 can lose the last requests of a closed
    connection, and 0.10.2 and 0.11.0.0 can change the order of two of them (KAFKA-3703, KAFKA-5587).

    If the producer follows the rules of Kafka 0.7 (the profile 0.7), the connection is also replaced after
    ``reconnect.interval`` requests, and after ``reconnect.time.interval.ms``.
    """

    def __init__(self, config: ClassicProducerConfig, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._config = config
        self._client_config = config.client_config
        self._setup_timeout = self._client_config.socket_connection_setup_timeout_ms / 1000
        self._timeout = self._client_config.request_timeout_ms / 1000
        self._opening: SingleFlight[str, Connection] = SingleFlight()
        self._connection: Connection | None = None
        self._requests = 0
        """The number of requests that were sent on the connection. Counted only in a producer of Kafka
        0.7."""
        self._opened_at = 0.0
        self._told: Connection | None = None
        """The connection over which the last request was sent, if this request has no response. Otherwise
        None."""
        self._closed = False
        self.forked = False
        """True in a child process after a fork. Only the parent process can use the connection."""
        abandon_after_fork(self)

    def ask(
        self, request: ApiMessage, *, max_version: int | None = None, over: Connection | None = None
    ) -> Any:
        """Send *request*, in *max_version* at most, and return the response. *over* is the connection to use.
        Without *over*, use the open connection, or open one first."""
        connection = self.opened() if over is None else over
        self._requests += 1
        self._told = None
        return connection.ask(request, self._timeout, max_version=max_version)

    def tell(self, request: ApiMessage, version: int, over: Connection) -> None:
        """Send *request*, which has no response, in *version* over the connection *over*. Return when the
        operating system has accepted its bytes."""
        ended: list[KafkaError | None] = []
        self._requests += 1
        self._told = None
        over.submit(
            request,
            version,
            lambda _response, error: ended.append(error),
            timeout=self._timeout,
            expects_reply=False,
        )
        if ended and ended[0] is not None:
            raise ended[0]
        self._told = over

    def close(self, timeout: float) -> None:
        """Close the connection. If the last request had no response, first wait until the broker has handled
        the request; after *timeout* seconds, log a warning.

        A request that waits for its response fails with a ClosedError. Further calls do nothing.
        """
        if timeout > 0 and not self._closed and not self.forked:
            try:
                self._await_told(timeout)
            except KafkaError as error:
                log.warning("%s", error)
        self._closed = True
        if not self.forked:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def abandon(self) -> None:
        """Close the socket in a child process after a fork, without a message to the broker. Every later
        request raises ForkError."""
        self.forked = True
        if self._connection is not None:
            self._connection.abandon()

    def opened(self) -> Connection:
        """Return the connection. Open it first if it is not open.

        Raises BrokerConnectionError if the last request had no response, and the broker has then closed the
        connection or stopped answering. The next call opens the connection again.
        """
        if (error := self._closed_error()) is not None:
            raise error
        connection = self._connection
        if connection is not None and self._is_usable(connection):
            return connection
        self._await_told(min(self._timeout, LONGEST_WAIT))
        deadline = time.monotonic() + self._setup_timeout
        try:
            return self._opening.run("open", lambda: self._replace(deadline), deadline, _is_shared)
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise KafkaTimeoutError(
                f"no connection to {self.endpoint} was made in time: another thread is still connecting"
            ) from None

    def _await_told(self, timeout: float) -> None:
        """If the last request had no response, wait until the broker has handled the request.

        Raises BrokerConnectionError if the broker has not answered a further request within *timeout*
        seconds.
        """
        connection, self._told = self._told, None
        for error in await_handled([] if connection is None else [connection], timeout):
            raise error

    def _replace(self, deadline: float) -> Connection:
        """Return a new connection, or the one that another thread has just opened. Only one thread at a time
        calls this method."""
        connection = self._connection
        if connection is not None and self._is_usable(connection):
            return connection
        if connection is not None:
            connection.retire(self._timeout)
        connection = open_connection(
            self._client_config,
            None,
            _OLD_BROKERS,
            self.endpoint,
            max(deadline - time.monotonic(), 0.001),
            self._closed_error,
            Traffic(self.endpoint.node_id),
        )
        self._requests, self._opened_at = 0, time.monotonic()
        self._connection = connection
        if (error := self._closed_error()) is not None:
            connection.close()
            raise error
        return connection

    def _is_usable(self, connection: Connection) -> bool:
        if connection.expired or connection.endpoint != self.endpoint:
            return False
        config = self._config
        if not config.is_0_7:
            return True
        age_ms = (time.monotonic() - self._opened_at) * 1000
        is_old = 0 <= config.reconnect_time_interval_ms <= age_ms
        return self._requests < config.reconnect_interval and not is_old

    def _closed_error(self) -> KafkaError | None:
        if self.forked:
            return belongs_to_the_parent()
        return ClosedError(f"the producer for {self.endpoint} has been closed") if self._closed else None


def _is_shared(_error: KafkaError) -> bool:
    """Always return True, because every error is shared: if an attempt to connect fails, all threads that
    have waited for the attempt raise the same error."""
    return True
