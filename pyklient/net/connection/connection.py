"""A connection to one broker: sends requests, and gives each response to the caller that waits for it.

There are three ways to send a request. ``ask`` sends and receives in the calling thread, without any other
thread; fetchers use it. ``send`` returns a Future at once, so that several requests can be in flight.
``submit`` returns at once too, and calls a function with the response, which is faster than a Future. The
first ``send`` or ``submit`` starts a reader thread, and from then on ``ask`` uses this thread too. If no
thread can be started (because of a limit, or at the end of the program), ``submit`` waits for the response.

Responses come in the order of the requests. After a time-out it is not certain which request the next
response belongs to. Therefore a time-out ends the connection, and all requests in flight fail.

``net/connection/locks.py`` names the locks of a connection, and the order in which they are taken.
"""

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, NoReturn

from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    KafkaError,
)
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.api_versions import AgreedVersions, request_name
from pyklient.net.connection.locks import new_sending_lock
from pyklient.net.connection.request_writer import Remainder, RequestWriter
from pyklient.net.connection.requests_in_flight import Answered, RequestsInFlight
from pyklient.net.connection.response_reader import ResponseReader
from pyklient.net.connection.transport import (
    Endpoint,
    TimeLeft,
    Transport,
)
from pyklient.net.forked_clients import belongs_to_the_parent
from pyklient.protocol.schema import ApiMessage

__all__ = ["Answered", "Connection", "Remainder"]

log = logging.getLogger("pyklient.net")

_LOOK_AFTER = 0.05  # a connection that was idle for so many seconds is checked before it is used
_LONGEST_LOCK_WAIT = threading.TIMEOUT_MAX


class Connection:
    """A connection to one broker, made by ``open_connection`` and kept by the pool. Safe to use from several
    threads.

    Get the connection from the client before each request, and do not keep it. The client replaces a
    connection that has ended, and one whose SASL session is about to end.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport,
        *,
        client_id: str,
        request_timeout: float,
        max_idle: float,
        max_response: int,
        traffic: Traffic,
    ) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._request_timeout = request_timeout
        self._in_flight = RequestsInFlight(endpoint, transport, client_id, max_idle, traffic)
        self.use_client_id = self._in_flight.use_client_id
        """A function that changes the client id that is sent with each request."""
        self._versions = AgreedVersions(endpoint, {})
        self.version_of = self._versions.of
        """A function that returns the newest version of a request that the broker and this client support, as
        ``AgreedVersions.of`` describes it."""
        self._expires_at = float("inf")
        self._sending = new_sending_lock()
        self._responses = ResponseReader(endpoint, transport, self._in_flight, self._sending, max_response)
        self._writer = RequestWriter(endpoint, transport, self._in_flight, self._sending)

    def __repr__(self) -> str:
        return f"<Connection to {self.endpoint}{'' if self.alive else ', closed'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Connection cannot be pickled: create the client in the process that uses it")

    @property
    def alive(self) -> bool:
        """True as long as the connection has not ended."""
        return self._in_flight.failure is None

    @property
    def unconfirmed(self) -> bool:
        """True if the last request expects no response (``acks=0``) and the broker may not have handled it
        yet. Once the connection has been idle for so long that it should be closed, the request counts as
        handled."""
        return self._in_flight.unconfirmed and not self._in_flight.is_idle(time.monotonic())

    @property
    def expired(self) -> bool:
        """True if a new connection should replace this one: it has ended, its SASL session ends soon, it was
        idle for too long, or the broker has closed it."""
        now = time.monotonic()
        if self._in_flight.failure is not None or now >= self._expires_at:
            return True
        if self._in_flight.is_idle(now):
            return True
        return self._in_flight.idle_for(now) >= _LOOK_AFTER and self._responses.has_been_left()

    def raise_if_ended(self) -> None:
        """If the connection has ended, raise the error that has ended it."""
        self._in_flight.raise_failure()

    def complete_setup(
        self, versions: Mapping[int, tuple[int, int]], lifetime: float | None, hint: str
    ) -> None:
        """Store the results of the connection's setup.

        *versions* has the broker's versions by API key, and *lifetime* the seconds until the SASL session
        ends, or None if it does not end. *hint* is added to the error if the broker closes the connection
        before the next response.
        """
        self._versions = AgreedVersions(self.endpoint, versions)
        self.version_of = self._versions.of
        if lifetime is not None:
            self._expires_at = time.monotonic() + lifetime
        self._in_flight.complete_setup(hint)

    def send(
        self, request: ApiMessage, *, max_version: int | None = None, timeout: float | None = None
    ) -> "Future[Any]":
        """Send *request*. Return a Future of the response, or of a KafkaError.

        *timeout* is in seconds; None means ``request_timeout_ms``. Raises an error, and sends nothing, if the
        connection has ended or the broker supports no version that can carry the request.
        """
        version = self.version_of(type(request), max_version)
        seconds = self._request_timeout if timeout is None else timeout
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self.submit(request, version, partial(_resolve, future), timeout=seconds)
        return future

    def submit(
        self,
        request: ApiMessage,
        version: int,
        answered: Answered,
        *,
        timeout: float,
        expects_reply: bool = True,
    ) -> None:
        """Send *request* in *version*. Call *answered* later, with the response or with an error.

        If *expects_reply* is false, call *answered* with None when the operating system has accepted the
        bytes. Raises an error, and sends nothing, if the connection has ended or the version cannot carry the
        request.
        """
        self._in_flight.raise_failure()
        if self._responses.thread is None and not self._responses.start(timeout) and expects_reply:
            self._submit_and_wait(request, version, answered, timeout)
            return
        self._writer.write(request, version, answered if expects_reply else None, timeout)
        if not expects_reply:
            answered(None, self._in_flight.ended())

    def submit_at_once(
        self, request: ApiMessage, version: int, answered: Answered, *, timeout: float
    ) -> Remainder | None:
        """Send *request* in a thread that must not wait. Call *answered* as ``submit`` does.

        Return None if the whole request was sent. Otherwise, return a function that sends the remainder.
        Another thread must call this function before anything else is sent on this connection. Both this
        method and the function raise the errors of ``submit``.
        """
        if self._responses.thread is None or not self._sending.acquire(blocking=False):
            self._in_flight.raise_failure()
            return partial(self.submit, request, version, answered, timeout=timeout)
        return self._writer.write_at_once(request, version, answered, timeout)

    def ask(
        self,
        request: ApiMessage,
        timeout: float | None = None,
        *,
        max_version: int | None = None,
        min_version: int = 0,
    ) -> Any:
        """Send *request*, wait for its response, and return it.

        Raises KafkaTimeoutError after *timeout* seconds (``request_timeout_ms`` if None). If the connection
        ends before the response arrives, raises the error that has ended the connection. Raises
        UnsupportedVersionError if the broker supports no version from *min_version* to *max_version*.
        """
        version = self.version_of(type(request), max_version, min_version)
        seconds = self._request_timeout if timeout is None else timeout
        deadline = self._writer.deadline(type(request), seconds)
        if not self._responses.turn.acquire(timeout=min(seconds, _LONGEST_LOCK_WAIT)):
            raise self._in_flight.timed_out(type(request), seconds)
        try:
            if self._responses.thread is None:
                return self._exchange(request, version, deadline)
        finally:
            self._responses.turn.release()
        remaining = deadline.remaining()
        future = self.send(request, max_version=max_version, timeout=remaining)
        try:
            return future.result(min(remaining, _LONGEST_LOCK_WAIT))
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            self._in_flight.fail(self._in_flight.timed_out(type(request), seconds))
            raise self._in_flight.timed_out(type(request), seconds) from None

    def exchange(self, request: ApiMessage, version: int, time_left: TimeLeft) -> Any:
        """Send *request* during the setup of the connection, when it is not known yet which versions of
        requests the broker supports. Return the response."""
        with self._responses.turn:
            return self._exchange(request, version, time_left)

    def retire(self, timeout: float) -> None:
        """End the connection because another one replaces it.

        Requests in flight have *timeout* seconds to be answered. Requests without an answer by then fail with
        a BrokerConnectionError, which is retriable.
        """
        give_up = time.monotonic() + timeout
        self._in_flight.drain(give_up)
        if self._responses.turn.acquire(timeout=min(max(give_up - time.monotonic(), 0), _LONGEST_LOCK_WAIT)):
            self._responses.turn.release()  # no ``ask`` is in flight any more
        self._end(BrokerConnectionError(f"the connection to {self.endpoint} was replaced by a new one"))

    def close(self) -> None:
        """End the connection, within a limited time. Requests in flight fail with a ClosedError."""
        self._end(ClosedError(f"the connection to {self.endpoint} has been closed by this client"))

    def abandon(self) -> None:
        """Close the socket in a child process after a fork, without a message to the broker.

        Takes no lock, because a thread that exists only in the parent process may hold any of them.
        """
        self._in_flight.failure = belongs_to_the_parent()
        self._transport.close()

    def _end(self, reason: KafkaError) -> None:
        self._in_flight.fail(reason)
        self._responses.end()

    def _submit_and_wait(self, request: ApiMessage, version: int, answered: Answered, timeout: float) -> None:
        """Send *request* and read the response in this thread, because no reader thread can be started."""
        outcome: list[tuple[Any, KafkaError | None]] = []
        self._responses.acquire_turn(timeout)
        try:
            self._writer.write(request, version, lambda *answer: outcome.append(answer), timeout)
            self._responses.read(outcome)
        finally:
            self._responses.turn.release()
        answered(*outcome[0])  # after releasing the turn, because this may send the next request

    def _exchange(self, request: ApiMessage, version: int, time_left: TimeLeft) -> Any:
        """Send a request and receive its response in this thread. The caller must hold the turn lock."""
        with self._sending:
            parts = self._in_flight.encode_alone(request, version)
        try:
            self._transport.send(parts, time_left)
            response = self._in_flight.decode_alone(self._responses.receive(time_left))
        except KafkaError as error:
            self._in_flight.fail(error)
            self._responses.dispose()
            self._in_flight.raise_failure()
        except BaseException:
            # After an interrupt (Ctrl-C), the response would be taken for that of the next request.
            self._in_flight.fail(
                BrokerConnectionError(f"{request_name(type(request))} to {self.endpoint} was interrupted")
            )
            self._responses.dispose()
            raise
        if self._in_flight.hint and self._versions.known:
            self._in_flight.hint = ""
        return response


def _resolve(future: "Future[Any]", response: Any, error: KafkaError | None) -> None:
    if error is None:
        future.set_result(response)
    else:
        future.set_exception(error)
