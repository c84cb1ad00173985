"""The requests of one connection that have no response yet, and the error that has ended the connection.

The lock guards the correlation ids and the table. It is never held while waiting for the network, nor while a
function that waits for a response is called.
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
from pyklient.net.connection.api_versions import request_name
from pyklient.net.connection.locks import new_state_lock
from pyklient.net.connection.transport import TICK, Endpoint, PeerClosedError, Transport
from pyklient.protocol.framing import ClientFraming, MissingAnswerError
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.schema import ApiMessage

__all__ = ["Answered", "RequestsInFlight"]

_DRAIN_TICK: Final = 0.005

Answered: TypeAlias = Callable[[Any, KafkaError | None], object]
"""A function that gets the response, or the error if there is none.

It is called once: by the reader thread; by the thread that ends the connection, which may hold its locks; or
within ``submit``, if no response is expected or no reader thread can be started. It must not raise an
exception.
"""


class _Waiting(NamedTuple):
    """A request in flight."""

    request_class: type[ApiMessage]
    answered: Answered
    deadline: float
    timeout: float

    @property
    def name(self) -> str:
        """The name of the request."""
        return request_name(self.request_class)


class RequestsInFlight:
    """Encodes requests, decodes responses, and finds the function that waits for each response. Safe to use
    from several threads.

    After *max_idle* seconds without a request, the connection counts as ended.
    """

    def __init__(self, endpoint: Endpoint, transport: Transport, client_id: str, max_idle: float) -> None:
        self.failure: KafkaError | None = None
        """The error that has ended the connection."""
        self.hint = ""
        """Added to the error if the broker closes the connection before its first response."""
        self._endpoint = endpoint
        self._transport = transport
        self._max_idle = max_idle
        self._lock = new_state_lock()
        self._wire = ClientFraming(client_id)
        self._waiting: dict[int, _Waiting] = {}
        self._last_used = time.monotonic()

    def idle_for(self, now: float) -> float:
        """Return the seconds since the last request; 0 if requests are in flight."""
        return 0.0 if self._waiting else now - self._last_used

    def add(
        self, request: ApiMessage, version: int, seconds: float, answered: Answered | None
    ) -> list[Buffer]:
        """Add *request*, unless *answered* is None because no response is expected. Return the bytes to
        send."""
        now = time.monotonic()
        with self._lock:
            if self.failure is not None:
                self.raise_failure()
            parts = self._wire.send(request, version, expects_reply=answered is not None)
            if answered is not None:
                waiting = _Waiting(type(request), answered, now + seconds, seconds)
                self._waiting[self._wire.last_correlation_id] = waiting
            self._last_used = now
        return parts

    def receive(self, frame: memoryview) -> tuple[Answered, Any]:
        """Return the function that waits for the response in *frame*, and the response."""
        with self._lock:
            if self.failure is not None:
                # Another thread is ending the connection, so that no caller waits for this response.
                self.raise_failure()
            correlation_id, response = self._wire.receive(frame)
            waiting = self._waiting.pop(correlation_id)
        self.hint = ""
        return waiting.answered, response

    def encode_alone(self, request: ApiMessage, version: int) -> list[Buffer]:
        """Return the bytes of a request whose sender waits for the response itself."""
        with self._lock:
            self.raise_failure()
            self._last_used = time.monotonic()
            return self._wire.send(request, version)

    def decode_alone(self, frame: memoryview) -> Any:
        """Return the response to the request of ``encode_alone``."""
        with self._lock:
            return self._wire.receive(frame)[1]

    def drain(self, give_up: float) -> None:
        """Wait until the requests that are in flight now are answered, until *give_up* at the latest."""
        with self._lock:
            ids = set(self._waiting)
        while ids and time.monotonic() < give_up:
            time.sleep(_DRAIN_TICK)
            with self._lock:
                ids &= self._waiting.keys()

    def time_left(self) -> float:
        """Return the seconds that a reader may wait. Raises an error when the connection ends or a request
        times out."""
        now = time.monotonic()
        with self._lock:
            first = min(self._waiting.values(), key=_deadline_of, default=None)
            if first is None and now - self._last_used >= self._max_idle and self.failure is None:
                # Set while the lock is held, so that no request can be sent before.
                self.failure = BrokerConnectionError(
                    f"the connection to {self._endpoint} was closed: it was idle for {self._max_idle:.0f} s"
                )
        self.raise_failure()
        if first is None:
            return TICK
        if first.deadline <= now:
            raise self.timed_out(first.name, first.timeout)
        return min(TICK, first.deadline - now)

    def fail(self, error: KafkaError) -> None:
        """End the connection because of *error*, unless it has ended already. Fail all requests in flight."""
        with self._lock:
            if self.failure is None:
                self.failure = self._explained(error)
            failure = self.failure
            waiting, self._waiting = self._waiting, {}
        self._transport.abort()
        now = time.monotonic()
        for each in waiting.values():
            if each.deadline <= now:
                each.answered(None, self.timed_out(each.name, each.timeout))
            elif isinstance(failure, KafkaTimeoutError):
                lost = f"{each.name} to {self._endpoint} failed with its connection: {failure}"
                each.answered(None, BrokerConnectionError(lost))
            else:
                each.answered(None, for_another(failure))

    def ended(self) -> KafkaError | None:
        """Return the error that has ended the connection, as a new object for one more thread; None if it has
        not ended."""
        return None if self.failure is None else for_another(self.failure)

    def raise_failure(self) -> None:
        """Raise the error that has ended the connection, if it has ended."""
        if self.failure is not None:
            raise for_another(self.failure)

    def timed_out(self, name: str, seconds: float) -> KafkaTimeoutError:
        """Return the error for a request without a response within *seconds*."""
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
