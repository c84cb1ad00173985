"""A session with ZooKeeper, which carries out the requests of dialogues.

Only this module, ``kazoo_requests`` and ``kazoo_threads`` use kazoo, a client library for ZooKeeper.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from pyklient.errors import (
    AuthenticationError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    RegistryConnectionError,
    RegistryError,
)
from pyklient.log_events import log_fields
from pyklient.outage import Outage
from pyklient.registry.kazoo_requests import AnswerDeadline, KazooRequests
from pyklient.registry.kazoo_threads import KazooLog, KazooThreads
from pyklient.registry.requests import RegistryDialogue, RegistryPause, RegistryRequest, Together
from pyklient.registry.session_event import SessionEvent
from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.tls import tls_context

__all__ = ["ZooKeeper"]

T = TypeVar("T")

log = logging.getLogger("pyklient")

_RECONNECT: Final[dict[str, object]] = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}
_POLL: Final = 0.1
_CLOSE_TIMEOUT: Final = 1.0
_REJECTED: Final = (
    "no server accepts the session any more, but a server accepts new sessions, as if it had lost its data"
)


class ZooKeeper:
    """A client of ZooKeeper. Its session begins with the first request. Safe to use from several threads.

    If the connection is lost, it is opened again. If the session ends, a new session begins. Listeners, and
    functions that are called after changes of nodes, run in the client's own threads. Such a function may
    only wake other threads.
    """

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        self._threads = KazooThreads(tls_context(settings), settings.session_timeout)
        acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if settings.set_acl else None
        user = None if settings.username is None else [("digest", f"{settings.username}:{settings.password}")]
        self._client = KazooClient(
            settings.hosts + settings.chroot,
            settings.session_timeout,
            handler=self._threads,
            default_acl=acl,
            auth_data=user,
            connection_retry=_RECONNECT,
            logger=KazooLog(log, self._threads),
        )
        self._client.add_listener(self._state_changed)
        self._requests = KazooRequests(self._client, str(self), settings.username)
        self._listeners: tuple[Callable[[SessionEvent], None], ...] = ()
        self._live: threading.Event | None = None
        self._start_once = _Once()
        self._stop_once = _Once()
        self._chroot_found = not settings.chroot
        self._closing = threading.Event()
        self._forked = False
        self._suspended = False
        self._outage = Outage(log, str(self), "zookeeper_outage")

    @property
    def chroot(self) -> str:
        """The path in ZooKeeper that contains all nodes of the session; empty for the root."""
        return self._settings.chroot

    def __str__(self) -> str:
        return f"ZooKeeper at {self._settings.hosts}"

    @property
    def session_id(self) -> int | None:
        """The id of the session, or None while there is no connection."""
        identity = self._client.client_id
        return None if identity is None else identity[0]

    def unreachable(self) -> RegistryConnectionError | None:
        """Return an error if the connection is lost. Return None if it is open, or was not opened yet."""
        return self.connection_lost() if self._suspended else None

    def connection_lost(self) -> RegistryConnectionError:
        """Return an error that says that the connection to ZooKeeper is lost."""
        return RegistryConnectionError(
            f"the connection to {self} is lost, and pyklient tries to open it again"
        )

    def add_listener(self, listener: Callable[[SessionEvent], None]) -> None:
        """Call *listener* with each SessionEvent from now on."""
        self._listeners = (*self._listeners, listener)

    def play(
        self,
        dialogue: RegistryDialogue[T],
        timeout: float,
        on_change: Callable[[], None] | None = None,
        *,
        per_answer: bool = False,
    ) -> T:
        """Run *dialogue* in this thread and return its result.

        *on_change* is called once after the next change of each node that the dialogue reads with
        ``watch=True``. It is also called when the connection is lost, because changes may then go unnoticed.
        If a node is watched twice with the same function, a change calls the function once. Raises the
        exceptions of the dialogue, and KafkaTimeoutError after *timeout* seconds. With *per_answer*, these
        seconds begin again with each answer of ZooKeeper.
        """
        deadline = AnswerDeadline(timeout, per_answer=per_answer)
        try:
            step = next(dialogue)
            while True:
                try:
                    answer = self._carry_out(step, deadline, on_change)
                except KafkaError as error:
                    step = dialogue.throw(error)
                else:
                    step = dialogue.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def ask(
        self, request: RegistryRequest, timeout: float, on_change: Callable[[], None] | None = None
    ) -> Any:
        """Send one request and return the answer. If the request has ``watch=True``, *on_change* is called
        after the next change of the node, or when the connection is lost."""
        return self._carry_out(request, AnswerDeadline(timeout), on_change)

    def close(self) -> None:
        """End the session, so that ZooKeeper deletes its ephemeral nodes. A second call does nothing.

        If the server does not answer in time, the method returns without an answer. ZooKeeper then deletes
        the nodes when the session time-out has passed.
        """
        self._closing.set()
        if self._live is not None and not self._forked and self._stop_once.is_first():
            self._stop()

    def _stop(self) -> None:
        stopping = threading.Thread(target=self._client.stop, name="pyklient-zookeeper-stop", daemon=True)
        runs_here = self._threads.runs_here  # the garbage collector may run in any thread
        try:
            stopping.start()
        except RuntimeError as error:
            log.info(
                "cannot start a thread that ends the session with %s (%s); close() waits until the session "
                "has ended",
                self,
                error,
            )
            if not runs_here:
                self._client.stop()
                self._client.close()
            return
        if runs_here:
            return
        stopping.join(_CLOSE_TIMEOUT)
        if stopping.is_alive():
            self._threads.cut()
            stopping.join(self._settings.session_timeout)
        if not stopping.is_alive():
            self._client.close()

    def abandon(self) -> None:
        """Close the inherited socket in a child process after a fork. The session stays with the parent
        process. All later uses of this object in the child raise ForkError."""
        self._forked = True
        self._threads.abandon()

    def _carry_out(
        self,
        step: RegistryRequest | Together | RegistryPause,
        deadline: AnswerDeadline,
        on_change: Callable[[], None] | None,
    ) -> Any:
        self._raise_if_closed()
        if isinstance(step, RegistryPause):
            return self._pause(step.seconds, deadline)
        self._connect(deadline)
        watch = None if on_change is None else _Watch(on_change)
        requests = step.requests if isinstance(step, Together) else (step,)
        try:
            answers = self._requests.carry_out(requests, watch, deadline)
        except RegistryError:
            self._raise_if_closed()
            raise
        if isinstance(step, Together):
            return answers
        if isinstance(answers[0], KafkaError):
            raise answers[0]
        return answers[0]

    def _pause(self, seconds: float, deadline: AnswerDeadline) -> None:
        left = deadline.left
        self._closing.wait(min(seconds, left))
        self._raise_if_closed()
        if seconds > left:
            raise KafkaTimeoutError(f"the operation on {self} did not end within {deadline.timeout:.3g} s")

    def _connect(self, deadline: AnswerDeadline) -> None:
        """Wait until a server has accepted the session. Raises RegistryConnectionError after *deadline*, and
        AuthenticationError if ZooKeeper does not accept the user."""
        waits = min(deadline.left, deadline.timeout)
        while not self._client.connected:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                raise AuthenticationError(
                    f"{self} did not accept the user {self._settings.username!r}; check zookeeper_username "
                    "and zookeeper_password"
                )
            self._start_if_ended()
            waiting = self._live or self._closing  # another thread is starting it: look again soon
            waiting.wait(min(_POLL, deadline.left))
            self._raise_if_closed()
            if not deadline.left and not self._client.connected:
                raise RegistryConnectionError(
                    f"{self} could not be reached within {round(waits, 2):.3g} s "
                    f"({self._threads.why_not_connected}); check that it runs at this address"
                ) from self._threads.last_failure
            self._threads.warn_if_slow(self)
        if not self._chroot_found:
            self._check_chroot(deadline)

    def _start_if_ended(self) -> None:
        """Start kazoo if it has not been started yet, or if it has ended after an unexpected failure."""
        once = self._start_once
        if self._threads.alive or not once.is_first():
            return
        self._live = self._client.start_async()
        self._start_once = _Once()  # for the next start, if kazoo ends
        if self._closing.is_set() and self._stop_once.is_first():
            self._stop()

    def _check_chroot(self, deadline: AnswerDeadline) -> None:
        try:
            found = self._client.exists_async("/").get(timeout=max(0.001, deadline.left))
        except (KazooTimeoutError, kazoo_errors.KazooException):
            return  # the request that comes next fails too, and says more
        if found is None:
            raise RegistryError(
                f"{self} has no node {self._settings.chroot}, which the address names as the chroot of a "
                "cluster; correct the address, or create the node"
            )
        self._chroot_found = True

    def _state_changed(self, state: str) -> None:
        if self._closing.is_set():
            return
        if state == KazooState.CONNECTED:
            self._outage.ended()
            self._threads.connected()
            self._suspended = False
            event = SessionEvent.CONNECTED
        elif state == KazooState.SUSPENDED:
            self._suspended = True
            self._outage.failed(ConnectionError("the connection is lost"), "pyklient is connecting again")
            event = SessionEvent.SUSPENDED
        else:
            why = _REJECTED if self._threads.rejected.given_up else "the session has expired"
            extra = log_fields("zookeeper_session_expired")
            log.warning("%s: %s; a new session begins", self, why, extra=extra)
            self._threads.rejected.ended()
            self._chroot_found = not self._settings.chroot  # ZooKeeper may have lost its data
            event = SessionEvent.EXPIRED
        for listener in self._listeners:
            listener(event)

    def _raise_if_closed(self) -> None:
        if self._forked:
            raise ForkError(
                "this session with ZooKeeper was made before a fork and belongs to the parent process; make "
                "a new client in the child process"
            )
        if self._closing.is_set():
            raise ClosedError("this session with ZooKeeper has been closed; make a new client")


class _Once:
    """An object that lets only the first of several threads do something."""

    def __init__(self) -> None:
        self._first: dict[str, object] = {}

    def is_first(self) -> bool:
        """Return True in the first call, and False in all later calls, from any thread."""
        token = object()
        return self._first.setdefault("token", token) is token


@dataclass(frozen=True, slots=True)
class _Watch:
    """A watch that calls a function after a change of a node. Two watches with the same function are equal,
    so that kazoo calls the function only once."""

    on_change: Callable[[], None]

    def __call__(self, _event: WatchedEvent) -> None:
        self.on_change()
