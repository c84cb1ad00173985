"""The requests of one connection that have no response yet, and the error that has ended the connection.

A lock guards the correlation ids, the table of requests and the counts of the traffic. No thread holds the
lock while it waits for the network, or while it calls the function that gets a response.
"""

import time
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from pyklient.errors import (
    BrokerConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    for_another,
)
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.api_versions import request_name
from pyklient.net.connection.locks import new_state_lock
from pyklient.net.connection.transport import TICK, Endpoint, PeerClosedError, Transport
from pyklient.protocol.framing import ClientFraming, MissingAnswerError
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.schema import ApiMessage

__all__ = ["Answered", "RequestsInFlight"]

_DRAIN_TICK: Final = 0.005
_LENGTH_SIZE: Final = 4
"""The size in bytes of the number that precedes each frame and tells its length."""
_SHORTEST_IDLE: Final = 10.0
"""The least number of seconds for which a connection must be idle before it is closed, if it is new or its
last request expects no response. In the latter case, the broker may still have to handle that request."""
_WITHOUT_RESPONSE: Final = (
    "; it may have rejected messages that were sent with acks=0, since a broker reports that in no other way"
)

Answered: TypeAlias = Callable[[Any, KafkaError | None], object]
"""A function that is called with the response to a request, or with an error if there is no response.

It is called exactly once, usually by the reader thread. If the connection ends, the thread that ends it calls
the function, and may hold locks of the connection. If no response is expected, or if no reader thread can be
started, ``submit`` calls the function. The function must not raise an exception.
"""


class _Waiting(NamedTuple):
    """A request in flight, and the function that waits for its response."""

    request_class: type[ApiMessage]
    answered: Answered
    deadline: float
    timeout: float


class RequestsInFlight:
    """Encodes requests, decodes responses, and finds the function that waits for each response. Safe to use
    from several threads.

    The connection ends if no request is sent for *max_idle* seconds. A new connection has at least 10 seconds
    for its first request, so that it is not closed before its first use on a busy machine. After a request
    that expects no response, the broker has at least 10 seconds to handle this request.
    """

    def __init__(
        self, endpoint: Endpoint, transport: Transport, client_id: str, max_idle: float, traffic: Traffic
    ) -> None:
        self.failure: KafkaError | None = None
        """The error that has ended the connection; None until then."""
        self.hint = ""
        """A text that is added to the error if the broker closes the connection before its next response."""
        self.unconfirmed = False
        """True if the last request expects no response (``acks=0``)."""
        self._endpoint = endpoint
        self._transport = transport
        self._max_idle = max_idle
        self._has_carried_request = False
        self._traffic = traffic
        self._lock = new_state_lock()
        self._wire = ClientFraming(client_id)
        self._waiting: dict[int, _Waiting] = {}
        self._alone: type[ApiMessage] | None = None
        """The class of the request that ``encode_alone`` has encoded, until its response is decoded. None if
        there is no such request."""
        self._last_used = time.monotonic()

    def complete_setup(self, hint: str) -> None:
        """Remember that the connection is ready for its first request. If the broker closes the connection
        before it has answered any request, *hint* is added to the error."""
        self.hint = hint
        self._has_carried_request = False

    def use_client_id(self, client_id: str) -> None:
        """Send *client_id* in the header of each request from now on."""
        with self._lock:
            self._wire.use_client_id(client_id)

    def idle_for(self, now: float) -> float:
        """Return the seconds since the last request was sent; 0 if requests are in flight."""
        return 0.0 if self._waiting else now - self._last_used

    def is_idle(self, now: float) -> bool:
        """Return True if the connection has been idle for so long that it should be closed."""
        if self._waiting:
            return False
        may_close = self._has_carried_request and not self.unconfirmed
        limit = self._max_idle if may_close else max(self._max_idle, _SHORTEST_IDLE)
        return now - self._last_used >= limit

    def add(
        self, request: ApiMessage, version: int, seconds: float, answered: Answered | None
    ) -> list[Buffer]:
        """Encode *request* and return its bytes, which the caller must send.

        The response, which is due within *seconds*, will be passed to *answered*. If *answered* is None, no
        response is expected.
        """
        now = time.monotonic()
        with self._lock:
            if self.failure is not None:
                self.raise_failure()
            parts = self._wire.send(request, version, expects_reply=answered is not None)
            self._traffic.sent(type(request), self._wire.last_size)
            if answered is not None:
                waiting = _Waiting(type(request), answered, now + seconds, seconds)
                self._waiting[self._wire.last_correlation_id] = waiting
            else:
                self.hint = _WITHOUT_RESPONSE
            self.unconfirmed = answered is None
            self._last_used, self._has_carried_request = now, True
        return parts

    def receive(self, frame: memoryview) -> tuple[Answered, Any]:
        """Decode the response in *frame*. Return the function to call with the response, and the response."""
        with self._lock:
            if self.failure is not None:
                # Another thread is ending the connection, so that no caller waits for this response.
                self.raise_failure()
            correlation_id, response = self._wire.receive(frame)
            waiting = self._waiting.pop(correlation_id)
            now = time.monotonic()
            seconds = now - waiting.deadline + waiting.timeout
            size = len(frame) + _LENGTH_SIZE
            self._traffic.answered(waiting.request_class, response, size, seconds, now)
        self.hint = ""
        return waiting.answered, response

    def encode_alone(self, request: ApiMessage, version: int) -> list[Buffer]:
        """Encode *request* and return its bytes. The caller itself sends the bytes and receives the
        response."""
        with self._lock:
            if self.failure is not None:
                self.raise_failure()
            self._last_used = time.monotonic()
            self._has_carried_request = True
            self.unconfirmed = False
            parts: list[Buffer] = self._wire.send(request, version)
            self._traffic.sent(type(request), self._wire.last_size)
            self._alone = type(request)
            return parts

    def decode_alone(self, frame: memoryview) -> Any:
        """Decode *frame*, the response to the request that ``encode_alone`` has encoded."""
        with self._lock:
            response = self._wire.receive(frame)[1]
            now = time.monotonic()
            if self._alone is not None:
                seconds = now - self._last_used
                self._traffic.answered(self._alone, response, len(frame) + _LENGTH_SIZE, seconds, now)
                self._alone = None
            return response

    def drain(self, give_up: float) -> None:
        """Wait until all requests that are in flight now have been answered, or until ``time.monotonic()``
        reaches *give_up*."""
        with self._lock:
            ids = set(self._waiting)
        while ids and time.monotonic() < give_up:
            time.sleep(_DRAIN_TICK)
            with self._lock:
                ids &= self._waiting.keys()

    def time_left(self) -> float:
        """Return how many seconds a reader may wait for bytes. Raises an error if the connection has ended or
        a request has timed out."""
        now = time.monotonic()
        with self._lock:
            first = min(self._waiting.values(), key=_deadline_of) if self._waiting else None
            if self.is_idle(now) and self.failure is None:
                # Set while the lock is held, so that no request can be sent before.
                self.failure = BrokerConnectionError(
                    f"the connection to {self._endpoint} was closed: it was idle for {self._max_idle:.0f} s"
                )
        if self.failure is not None:
            self.raise_failure()
        if first is None:
            return TICK
        if first.deadline <= now:
            raise self.timed_out(first.request_class, first.timeout)
        return min(TICK, first.deadline - now)

    def fail(self, error: KafkaError) -> None:
        """End the connection because of *error*, unless it has ended already. All requests in flight fail."""
        with self._lock:
            if self.failure is None:
                self.failure = self._explained(error)
            failure = self.failure
            waiting, self._waiting = self._waiting, {}
            for each in waiting.values():
                self._traffic.failed(each.request_class)
            if self._alone is not None:
                self._traffic.failed(self._alone)
                self._alone = None
        self._transport.abort()
        now = time.monotonic()
        for each in waiting.values():
            if each.deadline <= now:
                each.answered(None, self.timed_out(each.request_class, each.timeout))
            elif isinstance(failure, KafkaTimeoutError):
                name = request_name(each.request_class)
                lost = f"{name} to {self._endpoint} failed with its connection: {failure}"
                each.answered(None, BrokerConnectionError(lost))
            else:
                each.answered(None, for_another(failure))

    def ended(self) -> KafkaError | None:
        """Return a new copy of the error that has ended the connection; None if the connection has not
        ended."""
        return None if self.failure is None else for_another(self.failure)

    def raise_failure(self) -> None:
        """If the connection has ended, raise the error that has ended it."""
        if self.failure is not None:
            raise for_another(self.failure)

    def timed_out(self, request_class: type[ApiMessage], seconds: float) -> KafkaTimeoutError:
        """Return the error for a request of *request_class* that got no response within *seconds*."""
        name = request_name(request_class)
        return KafkaTimeoutError(
            f"{self._endpoint} did not answer {name} within {seconds:.3g} s; it may be overloaded or "
            "unreachable"
        )

    def _explained(self, error: KafkaError) -> KafkaError:
        if isinstance(error, PeerClosedError) and self.hint:
            return BrokerConnectionError(f"{error}{self.hint}")
        if type(error) in (ProtocolError, MissingAnswerError):
            return type(error)(f"{self._endpoint}: {error}")
        return error


_deadline_of = attrgetter("deadline")
