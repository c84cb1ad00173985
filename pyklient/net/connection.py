"""One connection to one broker: requests out, answers back in order, failures to whoever waits.

There are two ways to use it. ``ask`` sends and receives in the calling thread: no other thread is
involved, which is what a fetcher wants. ``send`` returns a Future at once, so that several requests can be
under way; ``submit`` does the same with a function to call, which costs least. The first of them starts a
reader thread, and from then on ``ask`` goes through it as well. Where no thread can be started (a limit, or
the end of the program), ``submit`` waits for the answer itself.

Answers come in the order of the requests. Once one is given up, nothing that arrives later can be
trusted to belong where it seems to: a time-out therefore ends the connection, and fails everything that
is still waiting on it.

Locks: ``_turn`` is held by the one ``ask`` under way while there is no reader; ``_sending`` orders
requests on the wire; ``_state`` guards the wire's bookkeeping and the table of waiting requests, and is
never held while waiting for the network. They are taken in this order. What ``submit_at_once`` leaves to
another thread takes ``_sending`` along, which that one releases.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    for_another,
)
from pyklient.net.api_versions import AgreedVersions, request_name
from pyklient.net.frames import FrameReader
from pyklient.net.transport import (
    TICK,
    Deadline,
    Endpoint,
    Patience,
    PeerClosedError,
    Transport,
)
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.schema import ApiMessage
from pyklient.protocol.wire import ClientWire, MissingAnswerError

__all__ = ["Answered", "Connection", "Rest"]

log = logging.getLogger("pyklient.net")

_CLOSE_TIMEOUT = 5.0
_LOOK_AFTER = 0.05  # seconds of silence after which a connection is looked at before it is used
_LONGEST_LOCK_WAIT = threading.TIMEOUT_MAX
_DRAIN_TICK: Final = 0.005

Answered: TypeAlias = Callable[[Any, KafkaError | None], object]
"""Takes the response, or why there is none. Called once: by the reader; by whoever ends the connection, who
may hold its locks then; within ``submit`` where no reply is expected, or no reader can be started. Must not
raise."""

Rest: TypeAlias = Callable[[], None]
"""What is left to do of a request, in a thread that may wait."""


class _Waiting(NamedTuple):
    """A request without its answer."""

    request_class: type[ApiMessage]
    answered: Answered
    deadline: float
    timeout: float

    @property
    def name(self) -> str:
        """What people call it."""
        return request_name(self.request_class)


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
        self._frames = FrameReader(endpoint, transport, max_response)
        self._versions = AgreedVersions(endpoint, {})
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
        self._versions = AgreedVersions(self.endpoint, versions)
        if lifetime is not None:
            self._expires_at = time.monotonic() + lifetime
        self._hint = hint

    def version_of(self, request_class: type[ApiMessage], max_version: int | None = None) -> int:
        """The newest version of a request that both sides know, and no newer than *max_version*.
        Raises UnsupportedVersionError when there is none."""
        return self._versions.of(request_class, max_version)

    def send(
        self,
        request: ApiMessage,
        *,
        max_version: int | None = None,
        timeout: float | None = None,
    ) -> "Future[Any]":
        """Send *request*; the Future gets its response, or a KafkaError.

        *timeout* is in seconds, ``request_timeout_ms`` if None. Raises where nothing was sent: the connection
        has ended, or the broker has no version that can carry the request.
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
        """Send *request* in *version*; *answered* gets its response, or why there is none, *timeout* seconds
        later at most. With ``expects_reply=False`` it gets None as soon as the system has taken the bytes.
        Raises where nothing was sent: the connection has ended, or the version cannot carry the request.
        """
        self._raise_failure()
        if self._reader is None and not self._start_reader(timeout) and expects_reply:
            self._submit_and_wait(request, version, answered, timeout)
            return
        self._send_in_turn(request, version, answered if expects_reply else None, timeout)
        if not expects_reply:
            answered(None, self._ended())

    def submit_at_once(
        self, request: ApiMessage, version: int, answered: Answered, *, timeout: float
    ) -> Rest | None:
        """The same in a thread that must not wait. What cannot be done without is returned, as a function
        for another thread to call; until it has, nothing else goes out on this connection. Raises as
        ``submit`` does, and so does that function."""
        if self._reader is None or not self._sending.acquire(blocking=False):
            self._raise_failure()
            return partial(self.submit, request, version, answered, timeout=timeout)
        left: Sequence[Buffer] = self._enter(request, version, timeout, answered)
        try:
            left = self._transport.send_at_once(left)
        except Exception as error:
            self._fail(self._unsendable(error, type(request)))
            left = ()
        if left:
            return partial(self._finish, left, type(request), timeout)
        self._sending.release()
        return None

    def ask(
        self, request: ApiMessage, timeout: float | None = None, *, max_version: int | None = None
    ) -> Any:
        """Send *request* and wait for its response. Raises KafkaTimeoutError after *timeout* seconds
        (``request_timeout_ms`` if None), and what ended the connection if that comes first."""
        version = self.version_of(type(request), max_version)
        seconds = self._request_timeout if timeout is None else timeout
        name = request_name(type(request))
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

    def retire(self, timeout: float) -> None:
        """End the connection because another takes its place. What is in flight has *timeout* seconds to be
        answered; what is not fails with a BrokerConnectionError, which is retriable. Bounded."""
        give_up = time.monotonic() + timeout
        with self._state:
            under_way = set(self._waiting)
        while under_way and time.monotonic() < give_up:
            time.sleep(_DRAIN_TICK)
            with self._state:
                under_way &= self._waiting.keys()
        if self._turn.acquire(timeout=min(max(give_up - time.monotonic(), 0), _LONGEST_LOCK_WAIT)):
            self._turn.release()  # no ``ask`` is under way without a reader
        self._end(BrokerConnectionError(f"the connection to {self.endpoint} was replaced by a new one"))

    def close(self) -> None:
        """End the connection. Whoever waits on it gets a ClosedError. Bounded."""
        self._end(ClosedError(f"the connection to {self.endpoint} has been closed by this client"))

    def abandon(self) -> None:
        """In the child of a fork: let go of the parent's socket without a byte or a shutdown. Takes no
        lock, since a thread that exists only in the parent may hold any of them."""
        self._failure = ForkError(
            "this client was made before a fork, and its connections belong to the parent process; "
            "make a new client in the child"
        )
        self._transport.close()

    def _end(self, reason: KafkaError) -> None:
        self._fail(reason)
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

    def _send_in_turn(
        self, request: ApiMessage, version: int, answered: Answered | None, timeout: float
    ) -> None:
        """Send *request* when the requests before it have been sent."""
        if not self._sending.acquire(timeout=min(timeout, _LONGEST_LOCK_WAIT)):
            raise self._timed_out(request_name(type(request)), timeout)
        parts = self._enter(request, version, timeout, answered)
        self._finish(parts, type(request), timeout)

    def _submit_and_wait(self, request: ApiMessage, version: int, answered: Answered, timeout: float) -> None:
        """``submit`` without a reader: send, and read the answer in this thread."""
        outcome: list[tuple[Any, KafkaError | None]] = []
        self._take_turn(timeout)
        try:
            self._send_in_turn(request, version, lambda *answer: outcome.append(answer), timeout)
            self._read(outcome)
        finally:
            self._turn.release()
        answered(*outcome[0])  # without the turn, which this may want for the next request

    def _enter(
        self, request: ApiMessage, version: int, seconds: float, answered: Answered | None
    ) -> list[Buffer]:
        """With ``_sending`` held: into the table, unless *answered* is None. What is to be sent is returned.
        ``_sending`` is free again where this raises."""
        try:
            now = time.monotonic()
            with self._state:
                if self._failure is not None:
                    self._raise_failure()
                parts = self._wire.send(request, version, expects_reply=answered is not None)
                if answered is not None:
                    waiting = _Waiting(type(request), answered, now + seconds, seconds)
                    self._waiting[self._wire.last_correlation_id] = waiting
                self._last_used = now
        except BaseException:
            self._sending.release()
            raise
        return parts

    def _finish(self, left: Sequence[Buffer], request_class: type[ApiMessage], seconds: float) -> None:
        """What is *left* of a request, in whatever time that takes; ``_sending`` is free then."""
        try:
            self._transport.send(left, self._deadline(request_name(request_class), seconds))
        except Exception as error:
            self._fail(self._unsendable(error, request_class))
        finally:
            self._sending.release()

    def _unsendable(self, error: Exception, request_class: type[ApiMessage]) -> KafkaError:
        """Half of a request may be on the wire: whatever has happened, the connection cannot go on."""
        if isinstance(error, KafkaError):
            return error
        name = request_name(request_class)
        return BrokerConnectionError(f"{name} could not be sent to {self.endpoint}: {error!r}")

    def _exchange(self, request: ApiMessage, version: int, patience: Patience) -> Any:
        """With ``_turn`` held and no reader: one request and its answer in this thread."""
        with self._sending, self._state:
            self._raise_failure()
            parts = self._wire.send(request, version)
            self._last_used = time.monotonic()
        try:
            self._transport.send(parts, patience)
            frame = self._frames.receive(patience)
            with self._state:
                _, response = self._wire.receive(frame)
        except KafkaError as error:
            self._fail(error)
            self._dispose()
            self._raise_failure()
        except BaseException:
            # Interrupted in the middle (Ctrl-C): the answer would be taken for that of the next request.
            self._fail(
                BrokerConnectionError(f"{request_name(type(request))} to {self.endpoint} was interrupted")
            )
            self._dispose()
            raise
        self._hint = self._hint if not self._versions.known else ""
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

    def _take_turn(self, seconds: float) -> None:
        if not self._turn.acquire(timeout=min(seconds, _LONGEST_LOCK_WAIT)):
            raise KafkaTimeoutError(f"{self.endpoint} is busy with another request of this client")

    def _start_reader(self, seconds: float) -> bool:
        """Return True if there is a reader now, False if no thread can be started."""
        self._take_turn(seconds)
        try:
            if self._reader is None:
                name = f"pyklient-reader-{self.endpoint.node_id}"
                reader = threading.Thread(target=self._read, name=name, daemon=True)
                reader.start()
                self._reader = reader
        except RuntimeError as error:
            log.info(
                "%s: whoever sends reads the answers, without a thread for that: %s", self.endpoint, error
            )
            return False
        finally:
            self._turn.release()
        return True

    def _read(self, outcome: Sequence[object] = ()) -> None:
        """The reader thread: each answer to the function that waits for it, until the connection ends. Where
        there is no such thread: until there is an *outcome*."""
        try:
            while not outcome:
                self._read_one()
        except KafkaError as error:
            self._fail(error)
            self._dispose()
        except Exception as error:
            log.exception("%s: an answer could not be read", self.endpoint)
            self._fail(ProtocolError(f"an answer could not be read: {error}"))
            self._dispose()

    def _read_one(self) -> None:
        """Read the next answer, and give it to the function that waits for it."""
        frame = self._frames.receive_small(self._reader_patience)
        with self._state:
            if self._failure is not None:
                # An answer that comes while another thread ends the connection: nobody waits for it.
                self._raise_failure()
            correlation_id, response = self._wire.receive(frame)
            waiting = self._waiting.pop(correlation_id)
        del frame
        self._hint = ""
        waiting.answered(response, None)

    def _reader_patience(self) -> float:
        now = time.monotonic()
        with self._state:
            first = min(self._waiting.values(), key=_deadline_of, default=None)
            if first is None and now - self._last_used >= self._max_idle and self._failure is None:
                # Here and now, so that no request gets in between.
                self._failure = BrokerConnectionError(
                    f"the connection to {self.endpoint} was idle for {self._max_idle:.0f} s"
                )
        self._raise_failure()
        if first is None:
            return TICK
        if first.deadline <= now:
            raise self._timed_out(first.name, first.timeout)
        return min(TICK, first.deadline - now)

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
                item.answered(None, self._timed_out(item.name, item.timeout))
            elif isinstance(failure, KafkaTimeoutError):
                lost = f"{item.name} to {self.endpoint} lost its connection: {failure}"
                item.answered(None, BrokerConnectionError(lost))
            else:
                item.answered(None, for_another(failure))

    def _explained(self, error: KafkaError) -> KafkaError:
        if isinstance(error, PeerClosedError) and self._hint:
            return BrokerConnectionError(f"{error}{self._hint}")
        if type(error) in (ProtocolError, MissingAnswerError):
            return type(error)(f"{self.endpoint}: {error}")
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


def _resolve(future: "Future[Any]", response: Any, error: KafkaError | None) -> None:
    if error is None:
        future.set_result(response)
    else:
        future.set_exception(error)


_deadline_of = attrgetter("deadline")
