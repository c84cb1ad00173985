"""The sending part of a connection: sends requests in order, and as far as possible without waiting."""

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
"""A function that sends the remainder of a request. It may wait until the socket accepts the bytes."""


class RequestWriter:
    """Sends the requests of a connection, in order. Safe to use from several threads.

    Only the thread that holds the lock *sending* writes to the socket.
    """

    def __init__(
        self, endpoint: Endpoint, transport: Transport, in_flight: RequestsInFlight, sending: Lock
    ) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._in_flight = in_flight
        self._sending = sending

    def write(self, request: ApiMessage, version: int, answered: Answered | None, timeout: float) -> None:
        """Send *request* after all earlier requests. If *answered* is None, no response is expected."""
        if not self._sending.acquire(timeout=min(timeout, TIMEOUT_MAX)):
            raise self._in_flight.timed_out(type(request), timeout)
        try:
            parts = self._in_flight.add(request, version, timeout, answered)
        except BaseException:
            self._sending.release()
            raise
        self._finish(parts, type(request), timeout)

    def write_at_once(
        self, request: ApiMessage, version: int, answered: Answered, timeout: float
    ) -> Remainder | None:
        """Send as much of *request* as possible without waiting. Return a function that sends the remainder,
        or None if nothing remains to be sent.

        The caller must hold the sending lock. The lock is released when the whole request has been sent, or
        when this method raises an error.
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
        """Return a deadline for a request that may take *seconds*. If the connection ends earlier, the
        deadline raises the error that has ended the connection."""
        in_flight = self._in_flight
        return Deadline(seconds, partial(in_flight.timed_out, request_class, seconds), in_flight.ended)

    def _finish(self, left: Sequence[Buffer], request_class: type[ApiMessage], seconds: float) -> None:
        """Send the bytes *left*, which are the remainder of a request, and release the sending lock."""
        try:
            self._transport.send(left, self.deadline(request_class, seconds))
        except Exception as error:
            self._in_flight.fail(self._unsendable(error, request_class))
        finally:
            self._sending.release()

    def _unsendable(self, error: Exception, request_class: type[ApiMessage]) -> KafkaError:
        """Return the error with which the connection ends when *error* has interrupted the sending of a
        request. A part of the request may have been sent."""
        if isinstance(error, KafkaError):
            return error
        name = request_name(request_class)
        return BrokerConnectionError(f"{name} could not be sent to {self._endpoint}: {error!r}")
