"""The connection of a classic producer to one broker. It is opened when it is needed, and again after a
failure."""

import os
import time
from typing import Any, Final

from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
)
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import open_connection
from pyklient.net.connection.transport import Endpoint
from pyklient.net.connection.version_probe import OldBrokers
from pyklient.net.single_flight import SingleFlight
from pyklient.protocol.schema import ApiMessage

__all__ = ["BrokerConnection"]

_OLD_BROKERS: Final = OldBrokers()
"""The brokers that cannot tell which versions of requests they support. All classic producers of a process
share this object."""


class BrokerConnection:
    """A connection to the broker at *endpoint*. Safe to use from several threads.

    A request that fails ends the connection, and the error is raised; nothing is sent again here. If the last
    request had no response, and the broker has then ended the connection, the next call raises
    BrokerConnectionError once, because a broker reports an error of such a request in no other way.

    In the profile 0.7, the connection is also replaced after ``reconnect.interval`` requests, and after
    ``reconnect.time.interval.ms``.
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
        """The number of requests on the connection, in the profile 0.7."""
        self._opened_at = 0.0
        self._told: Connection | None = None
        """The connection whose last request has no response; None if there is no such connection."""
        self._told_at = 0.0
        self._longest_idle = self._client_config.connections_max_idle_ms / 1000
        self._closed = False
        self._pid = os.getpid()

    def ask(
        self, request: ApiMessage, *, max_version: int | None = None, over: Connection | None = None
    ) -> Any:
        """Send *request*, and return the response. *over* is the connection to use; without it, the
        connection is opened if it is not open."""
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
        self._told, self._told_at = over, time.monotonic()

    def close(self) -> None:
        """Close the connection. A request that waits for its response fails with a ClosedError. Further
        calls do nothing."""
        self._closed = True
        if self._pid == os.getpid():
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def opened(self) -> Connection:
        """Return the connection. Open it first if it is not open.

        Raises BrokerConnectionError if the broker has ended the connection after a request without a
        response. The next call opens the connection again.
        """
        if (error := self._closed_error()) is not None:
            raise error
        connection = self._connection
        if connection is not None and self._is_usable(connection):
            return connection
        if connection is not None and connection is self._told:
            self._told = None
            if not connection.alive and time.monotonic() - self._told_at < self._longest_idle:
                raise BrokerConnectionError(
                    f"{self.endpoint} has closed the connection after messages that it does not confirm, so "
                    "some of them may be lost: the broker may not lead their partitions any more, may have "
                    "found them too large, or may have stopped. Set request.required.acks to 1 to get its "
                    "answers"
                )
        deadline = time.monotonic() + self._setup_timeout
        try:
            return self._opening.run("open", lambda: self._replace(deadline), deadline, _is_shared)
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise KafkaTimeoutError(
                f"no connection to {self.endpoint} was made in time: another thread is still connecting"
            ) from None

    def _replace(self, deadline: float) -> Connection:
        """Open the connection anew, unless another thread has just done that. Only one thread at a time calls
        this method."""
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
        if not connection.alive or connection.expired:
            return False
        config = self._config
        if not config.is_0_7:
            return True
        age_ms = (time.monotonic() - self._opened_at) * 1000
        is_old = 0 <= config.reconnect_time_interval_ms <= age_ms
        return self._requests < config.reconnect_interval and not is_old

    def _closed_error(self) -> KafkaError | None:
        if self._pid != os.getpid():
            return ForkError(
                "this producer was created before a fork and belongs to the parent process; create a new one "
                "in the child process"
            )
        return ClosedError(f"the producer for {self.endpoint} has been closed") if self._closed else None


def _is_shared(_error: KafkaError) -> bool:
    """Return True: if another thread's attempt to connect fails, each thread that has waited for it raises
    the same error."""
    return True
