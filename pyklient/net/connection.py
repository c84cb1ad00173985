"""One connection to one broker: requests out, answers back in order, failures to whoever waits.

There are two ways to use it. ``ask`` sends and receives in the calling thread: no other thread is
involved, which is what a fetcher wants. ``send`` returns a Future at once, so that several requests can be
under way; the first ``send`` starts a reader thread, and from then on ``ask`` goes through it as well.

Answers come in the order of the requests. Once one is given up, nothing that arrives later can be
trusted to belong where it seems to: a time-out therefore ends the connection, and fails everything that
is still waiting on it.

Locks: ``_turn`` is held by the one ``ask`` under way while there is no reader; ``_sending`` orders
requests on the wire; ``_state`` guards the wire's bookkeeping and the table of waiting requests, and is
never held while waiting for the network. They are taken in this order.
"""

import logging
import threading
import time
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from typing import Any, NamedTuple, NoReturn

from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
    for_another,
)
from pyklient.net.transport import (
    TICK,
    Deadline,
    Endpoint,
    Patience,
    PeerClosedError,
    Transport,
)
from pyklient.protocol.schema import ApiMessage
from pyklient.protocol.wire import ClientWire, frame_length

__all__ = ["Connection"]

log = logging.getLogger("pyklient.net")

_CLOSE_TIMEOUT = 5.0
_LOOK_AFTER = 0.05  # seconds of silence after which a connection is looked at before it is used
_LONGEST_LOCK_WAIT = threading.TIMEOUT_MAX


class _Waiting(NamedTuple):
    """A request without its answer."""

    name: str
    future: "Future[Any]"
    deadline: float
    timeout: float


class Connection:
    """Made by ``opening.open_connection``, kept by the pool. Safe to use from several threads.

    Ask the client for its connection before each request instead of holding on to one: that is a look-up,
    and it replaces a connection that died, or whose session is about to end, by a new one.
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
    ) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._wire = ClientWire(client_id)
        self._request_timeout = request_timeout
        self._max_idle = max_idle
        self._max_response = max_response
        self._versions: dict[int, tuple[int, int]] = {}
        self._expires_at = float("inf")
        self._hint = ""
        self._failure: KafkaError | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._reader: threading.Thread | None = None
        self._last_used = time.monotonic()
        self._turn = threading.Lock()
        self._sending = threading.Lock()
        self._state = threading.Lock()

    def __repr__(self) -> str:
        return f"<Connection to {self.endpoint}{'' if self.alive else ', closed'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Connection cannot be pickled; make the client where it is used")

    @property
    def alive(self) -> bool:
        """Whether nothing has ended this connection yet."""
        return self._failure is None

    @property
    def expired(self) -> bool:
        """Whether it should be replaced: its session ends soon, it has been idle for too long, or the broker
        has hung up meanwhile."""
        now = time.monotonic()
        if now >= self._expires_at:
            return True
        idle = 0.0 if self._waiting else now - self._last_used
        return idle >= self._max_idle or (idle >= _LOOK_AFTER and self._has_been_left())

    def settle(self, versions: dict[int, tuple[int, int]], lifetime: float | None, hint: str) -> None:
        """What opening has found out: *versions* by API key, the session's *lifetime* in seconds, and a
        *hint* for the error if the broker ends the connection before it has answered anything else."""
        self._versions = versions
        if lifetime is not None:
            self._expires_at = time.monotonic() + lifetime
        self._hint = hint

    def version_of(self, request_class: type[ApiMessage], max_version: int | None = None) -> int:
        """The newest version of a request that both sides know, and no newer than *max_version*.
        Raises UnsupportedVersionError when there is none."""
        ours = request_class.versions
        theirs = self._versions.get(request_class.api_key)
        if theirs is not None:
            version = min(theirs[1], ours[1])
            if max_version is not None:
                version = min(version, max_version)
            if version >= max(theirs[0], ours[0]):
                return version
        takes = "does not know it" if theirs is None else f"takes versions {theirs[0]} to {theirs[1]}"
        limit = "" if max_version is None else f", here at most {max_version}"
        raise UnsupportedVersionError(
            f"{_name(request_class)}: {self.endpoint} {takes}; "
            f"this client has versions {ours[0]} to {ours[1]}{limit}"
        )

    def send(
        self,
        request: ApiMessage,
        *,
        max_version: int | None = None,
        timeout: float | None = None,
        expects_reply: bool = True,
    ) -> "Future[Any]":
        """Send *request*; the Future gets its response, or a KafkaError.

        *timeout* is in seconds, ``request_timeout_ms`` if None. With ``expects_reply=False`` the Future
        gets None as soon as the system has taken the bytes. Raises where nothing was sent: the connection
        has ended, or the broker has no version that can carry the request.
        """
        version = self.version_of(type(request), max_version)
        seconds = self._request_timeout if timeout is None else timeout
        self._raise_failure()
        if self._reader is None:
            self._start_reader(seconds)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        if not self._sending.acquire(timeout=min(seconds, _LONGEST_LOCK_WAIT)):
            raise self._timed_out(_name(type(request)), seconds)
        try:
            self._send(request, version, seconds, future if expects_reply else None)
        finally:
            self._sending.release()
        if not expects_reply:
            if self._failure is None:
                future.set_result(None)
            else:
                future.set_exception(for_another(self._failure))
        return future

    def ask(
        self, request: ApiMessage, timeout: float | None = None, *, max_version: int | None = None
    ) -> Any:
        """Send *request* and wait for its response. Raises KafkaTimeoutError after *timeout* seconds
        (``request_timeout_ms`` if None), and what ended the connection if that comes first."""
        version = self.version_of(type(request), max_version)
        seconds = self._request_timeout if timeout is None else timeout
        name = _name(type(request))
        deadline = self._deadline(name, seconds)
        self._raise_failure()
        if not self._turn.acquire(timeout=min(seconds, _LONGEST_LOCK_WAIT)):
            raise self._timed_out(name, seconds)
        try:
            if self._reader is None:
                return self._exchange(request, version, deadline)
        finally:
            self._turn.release()
        remaining = deadline.remaining()
        future = self.send(request, max_version=max_version, timeout=remaining)
        try:
            return future.result(min(remaining, _LONGEST_LOCK_WAIT))
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            self._fail(self._timed_out(name, seconds))
            raise self._timed_out(name, seconds) from None

    def exchange(self, request: ApiMessage, version: int, patience: Patience) -> Any:
        """``ask`` before the versions are known: for opening, which nobody else can see yet."""
        with self._turn:
            return self._exchange(request, version, patience)

    def drain(self, timeout: float) -> None:
        """Wait until nothing is under way, for *timeout* seconds at most."""
        with self._state:
            futures = [waiting.future for waiting in self._waiting.values()]
        wait_for_futures(futures, timeout)

    def close(self) -> None:
        """End the connection. Whoever waits on it gets a ClosedError. Bounded."""
        self._fail(ClosedError(f"the connection to {self.endpoint} has been closed by this client"))
        if self._reader is threading.current_thread():
            return
        # Whoever starts the reader holds the turn until it runs.
        taken = self._turn.acquire(timeout=_CLOSE_TIMEOUT)
        try:
            reader = self._reader
            if reader is not None and reader.ident is not None:
                reader.join(_CLOSE_TIMEOUT)
            if taken:
                self._dispose()
        finally:
            if taken:
                self._turn.release()

    def abandon(self) -> None:
        """In the child of a fork: let go of the parent's socket without a byte or a shutdown. Takes no
        lock, since a thread that exists only in the parent may hold any of them."""
        self._failure = ForkError(
            "this client was made before a fork, and its connections belong to the parent process; "
            "make a new client in the child"
        )
        self._transport.close()

    def _send(self, request: ApiMessage, version: int, seconds: float, future: "Future[Any] | None") -> None:
        """With ``_sending`` held: on the wire, and into the table unless *future* is None."""
        deadline = self._deadline(_name(type(request)), seconds)
        with self._state:
            self._raise_failure()
            parts = self._wire.send(request, version, expects_reply=future is not None)
            if future is not None:
                waiting = _Waiting(_name(type(request)), future, time.monotonic() + seconds, seconds)
                self._waiting[self._wire.last_correlation_id] = waiting
            self._last_used = time.monotonic()
        try:
            self._transport.send(parts, deadline)
        except KafkaError as error:
            self._fail(error)

    def _exchange(self, request: ApiMessage, version: int, patience: Patience) -> Any:
        """With ``_turn`` held and no reader: one request and its answer in this thread."""
        with self._sending, self._state:
            self._raise_failure()
            parts = self._wire.send(request, version)
            self._last_used = time.monotonic()
        try:
            self._transport.send(parts, patience)
            frame = self._receive_frame(patience)
            with self._state:
                _, response = self._wire.receive(frame)
        except KafkaError as error:
            self._fail(error)
            self._dispose()
            self._raise_failure()
        except BaseException:
            # Interrupted in the middle (Ctrl-C): the answer would be taken for that of the next request.
            self._fail(BrokerConnectionError(f"{_name(type(request))} to {self.endpoint} was interrupted"))
            self._dispose()
            raise
        self._hint = self._hint if not self._versions else ""
        return response

    def _has_been_left(self) -> bool:
        """Whether there is something to read though nothing was asked, which is how a hang-up looks. A
        reader would have noticed; without one, the next request would be lost on a closed connection."""
        if self._reader is not None or not self._turn.acquire(blocking=False):
            return False
        try:
            return not self.alive or not self._transport.is_quiet()
        finally:
            self._turn.release()

    def _start_reader(self, seconds: float) -> None:
        if not self._turn.acquire(timeout=min(seconds, _LONGEST_LOCK_WAIT)):
            raise KafkaTimeoutError(f"{self.endpoint} is busy with another request of this client")
        try:
            if self._reader is None:
                name = f"pyklient-reader-{self.endpoint.node_id}"
                self._reader = threading.Thread(target=self._read, name=name, daemon=True)
                self._reader.start()
        finally:
            self._turn.release()

    def _read(self) -> None:
        """The reader thread: answers to their Futures, until the connection ends."""
        try:
            while True:
                frame = self._receive_frame(self._reader_patience)
                with self._state:
                    # An answer that comes while another thread ends the connection has nobody who waits.
                    self._raise_failure()
                    correlation_id, response = self._wire.receive(frame)
                    waiting = self._waiting.pop(correlation_id)
                del frame
                self._hint = ""
                waiting.future.set_result(response)
                del response, waiting
        except KafkaError as error:
            self._fail(error)
        except Exception as error:
            self._fail(ProtocolError(f"an answer could not be read: {error}"))
            raise
        finally:
            self._dispose()

    def _reader_patience(self) -> float:
        self._raise_failure()
        now = time.monotonic()
        with self._state:
            first = min(self._waiting.values(), key=_deadline_of, default=None)
            if first is None and now - self._last_used >= self._max_idle:
                # Here and now, so that no request gets in between.
                self._failure = ClosedError(
                    f"the connection to {self.endpoint} was idle for {self._max_idle:.0f} s"
                )
        self._raise_failure()
        if first is None:
            return TICK
        if first.deadline <= now:
            raise self._timed_out(first.name, first.timeout)
        return min(TICK, first.deadline - now)

    def _receive_frame(self, patience: Patience) -> memoryview:
        head = self._transport.receive(4, patience)
        try:
            size = frame_length(head, self._max_response)
        except ProtocolError as error:
            if head[0] < 0x10:  # a length, not the first letters of another protocol
                raise ProtocolError(f"{error}; that limit is receive_message_max_bytes") from None
            raise
        return self._transport.receive(size, patience)

    def _fail(self, error: KafkaError) -> None:
        """End the connection because of *error*; the first reason counts. Everyone waiting hears of it."""
        with self._state:
            if self._failure is None:
                self._failure = self._explained(error)
            failure = self._failure
            waiting, self._waiting = self._waiting, {}
        self._transport.abort()
        now = time.monotonic()
        for item in waiting.values():
            if item.deadline <= now:
                item.future.set_exception(self._timed_out(item.name, item.timeout))
            elif isinstance(failure, KafkaTimeoutError):
                item.future.set_exception(
                    BrokerConnectionError(f"{item.name} to {self.endpoint} lost its connection: {failure}")
                )
            else:
                item.future.set_exception(for_another(failure))

    def _explained(self, error: KafkaError) -> KafkaError:
        if isinstance(error, PeerClosedError) and self._hint:
            return BrokerConnectionError(f"{error}{self._hint}")
        if type(error) is ProtocolError:
            return ProtocolError(f"{self.endpoint}: {error}")
        return error

    def _dispose(self) -> None:
        if self._sending.acquire(timeout=_CLOSE_TIMEOUT):
            try:
                self._transport.close()
            finally:
                self._sending.release()

    def _ended(self) -> KafkaError | None:
        return None if self._failure is None else for_another(self._failure)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise for_another(self._failure)

    def _deadline(self, name: str, seconds: float) -> Deadline:
        return Deadline(seconds, lambda: self._timed_out(name, seconds), self._ended)

    def _timed_out(self, name: str, seconds: float) -> KafkaTimeoutError:
        return KafkaTimeoutError(
            f"{self.endpoint} did not answer {name} within {seconds:.3g} s; "
            "is it overloaded, or cut off from the network?"
        )


def _deadline_of(waiting: _Waiting) -> float:
    return waiting.deadline


def _name(request_class: type[ApiMessage]) -> str:
    return request_class.__name__.removesuffix("Request")
