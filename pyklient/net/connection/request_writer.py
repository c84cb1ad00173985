"""The sending part of a connection: it sends requests in order, as far as the socket accepts them without a
wait."""

from collections.abc import Callable, Sequence
from functools import partial
from threading import TIMEOUT_MAX, Lock
from typing import TypeAlias

from pyklient.errors import BrokerConnectionError, KafkaError
from pyklient.net.connection.api_versions import request_name
from pyklient.net.connection.requests_in_flight import Answered, RequestsInFlight
from pyklient.net.connection.transport import Deadline, Endpoint, Transport
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.schema import ApiMessage

__all__ = ["RequestWriter", "Remainder"]

Remainder: TypeAlias = Callable[[], None]
"""A function that sends the remainder of a request, in a thread that may wait."""


class RequestWriter:
    """Sends the requests of a connection. Safe to use from several threads. The thread that holds *sending*
    may write."""

    def __init__(
        self, endpoint: Endpoint, transport: Transport, in_flight: RequestsInFlight, sending: Lock
    ) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._in_flight = in_flight
        self._sending = sending

    def write(self, request: ApiMessage, version: int, answered: Answered | None, timeout: float) -> None:
        """Send *request* after the requests before it. Without *answered*, no response is expected."""
        if not self._sending.acquire(timeout=min(timeout, TIMEOUT_MAX)):
            raise self._in_flight.timed_out(request_name(type(request)), timeout)
        try:
            parts = self._in_flight.add(request, version, timeout, answered)
        except BaseException:
            self._sending.release()
            raise
        self._finish(parts, type(request), timeout)

    def write_at_once(
        self, request: ApiMessage, version: int, answered: Answered, timeout: float
    ) -> Remainder | None:
        """Send as much of *request* as possible without a wait. Return a function that sends the remainder.

        *sending* must be held. It is released when the whole request has been sent, and if this raises an
        error.
        """
        left: Sequence[Buffer]
        try:
            left = self._in_flight.add(request, version, timeout, answered)
        except BaseException:
            self._sending.release()
            raise
        try:
            left = self._transport.send_at_once(left)
        except Exception as error:
            self._in_flight.fail(self._unsendable(error, type(request)))
            left = ()
        if left:
            return partial(self._finish, left, type(request), timeout)
        self._sending.release()
        return None

    def deadline(self, request_class: type[ApiMessage], seconds: float) -> Deadline:
        """Return the deadline of a request that may take *seconds*. It also ends when the connection ends."""
        name = request_name(request_class)
        return Deadline(seconds, partial(self._in_flight.timed_out, name, seconds), self._in_flight.ended)

    def _finish(self, left: Sequence[Buffer], request_class: type[ApiMessage], seconds: float) -> None:
        """Send the bytes *left*, which are the remainder of a request, and release *sending*."""
        try:
            self._transport.send(left, self.deadline(request_class, seconds))
        except Exception as error:
            self._in_flight.fail(self._unsendable(error, request_class))
        finally:
            self._sending.release()

    def _unsendable(self, error: Exception, request_class: type[ApiMessage]) -> KafkaError:
        """Return the reason for ending the connection, because only a part of a request may have been
        sent."""
        if isinstance(error, KafkaError):
            return error
        name = request_name(request_class)
        return BrokerConnectionError(f"{name} could not be sent to {self._endpoint}: {error!r}")
