"""A session with ZooKeeper, which carries out the requests of dialogues.

Only this module and ``kazoo_threads`` use kazoo, a client library for ZooKeeper.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from pyklient.errors import (
    AuthenticationError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    NodeExistsError,
    NodeVersionError,
    NoNodeError,
    RegistryConnectionError,
    RegistryError,
    SessionExpiredError,
)
from pyklient.registry.kazoo_threads import KazooLog, KazooThreads
from pyklient.registry.requests import (
    Children,
    Create,
    Delete,
    Node,
    Pause,
    Read,
    RegistryDialogue,
    RegistryRequest,
    Write,
)
from pyklient.registry.session_event import SessionEvent
from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.tls import tls_context

__all__ = ["ZooKeeper"]

T = TypeVar("T")

log = logging.getLogger("pyklient")

_RECONNECT: Final[dict[str, object]] = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}
_POLL: Final = 0.1
_CLOSE_TIMEOUT: Final = 1.0


class ZooKeeper:
    """One session with ZooKeeper, which begins with the first request. Safe to use from several threads.

    A lost connection is opened again, and after the end of a session a new session begins. Threads of the
    session call *on_change* of a request and the listeners, which must only wake another thread.
    """

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        self._threads = KazooThreads(tls_context(settings))
        acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if settings.set_acl else None
        user = None if settings.username is None else [("digest", f"{settings.username}:{settings.password}")]
        self._client = KazooClient(
            settings.hosts + settings.chroot,
            settings.session_timeout,
            handler=self._threads,
            default_acl=acl,
            auth_data=user,
            connection_retry=_RECONNECT,
            logger=KazooLog(log, {}),
        )
        self._client.add_listener(self._state_changed)
        self._listeners: tuple[Callable[[SessionEvent], None], ...] = ()
        self._live: threading.Event | None = None
        self._first: dict[object, object] = {}
        self._starts = 0
        self._chroot_found = not settings.chroot
        self._closing = threading.Event()
        self._forked = False
        self._suspended_since: float | None = None

    @property
    def chroot(self) -> str:
        """The path below which all nodes of the session are; empty for the root."""
        return self._settings.chroot

    def __str__(self) -> str:
        return f"ZooKeeper at {self._settings.hosts}"

    @property
    def session_id(self) -> int | None:
        """The id of the session, or None while there is no connection."""
        identity = self._client.client_id
        return None if identity is None else identity[0]

    @property
    def suspended_since(self) -> float | None:
        """The time at which the connection was lost, on the monotonic clock. None if it is not lost."""
        return self._suspended_since

    def add_listener(self, listener: Callable[[SessionEvent], None]) -> None:
        """Call *listener* with each SessionEvent from now on."""
        self._listeners = (*self._listeners, listener)

    def play(
        self,
        dialogue: RegistryDialogue[T],
        timeout: float,
        on_change: Callable[[], None] | None = None,
    ) -> T:
        """Run *dialogue* in this thread and return its result.

        *on_change* is called once after the next change of each node that the dialogue reads with
        ``watch=True``. It is also called when the connection is lost, because changes may then go unnoticed.
        If the same function is given twice for a node, one change calls it once. Raises what the dialogue
        raises, and KafkaTimeoutError after *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        try:
            step = next(dialogue)
            while True:
                try:
                    answer = self._carry_out(step, deadline, timeout, on_change)
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
        """Carry out one request, as for a dialogue, and return the answer."""
        return self._carry_out(request, time.monotonic() + timeout, timeout, on_change)

    def close(self) -> None:
        """End the session, so that its ephemeral nodes are deleted. May be called again. Takes a limited
        time: if the server does not answer, the nodes last until the session time-out is over."""
        self._closing.set()
        if self._live is not None and not self._forked and self._is_first("close"):
            self._stop()

    def _stop(self) -> None:
        stopping = threading.Thread(target=self._client.stop, name="pyklient-zookeeper-stop", daemon=True)
        stopping.start()
        if self._threads.runs_here:  # the garbage collector may run in any thread
            return
        stopping.join(_CLOSE_TIMEOUT)
        if stopping.is_alive():
            self._threads.cut()
            stopping.join(self._settings.session_timeout)
        if not stopping.is_alive():
            self._client.close()

    def abandon(self) -> None:
        """Close the socket in the child of a fork. The session stays with the parent process. Every later use
        raises ForkError."""
        self._forked = True
        self._threads.abandon()

    def _carry_out(
        self,
        step: RegistryRequest | Pause,
        deadline: float,
        timeout: float,
        on_change: Callable[[], None] | None,
    ) -> Any:
        self._raise_if_closed()
        if isinstance(step, Pause):
            remaining = deadline - time.monotonic()
            self._closing.wait(min(step.seconds, remaining))
            self._raise_if_closed()
            if step.seconds > remaining:
                raise KafkaTimeoutError(f"the dialogue with {self} did not end within {timeout:.3g} s")
            return None
        self._connect(deadline, timeout)
        watch = None if on_change is None else _Watch(on_change)
        try:
            return self._perform(step, watch, deadline)
        except KazooTimeoutError:
            raise KafkaTimeoutError(
                f"{self} did not answer a request for {step.path} within {timeout:.3g} s; it is not known "
                "whether the request was carried out"
            ) from None
        except kazoo_errors.KazooException as error:
            self._raise_if_closed()
            self._raise_for(step, error)

    def _perform(self, step: RegistryRequest, watch: "_Watch | None", deadline: float) -> Any:
        client = self._client
        match step:
            case Read(path, watched):
                return self._read(path, watch if watched else None, deadline)
            case Children(path, watched):
                return self._children(path, watch if watched else None, deadline)
            case Create(path, content, ephemeral):
                _wait(client.create_async(path, content, ephemeral=ephemeral, makepath=True), deadline)
                return None
            case Write(path, content, version):
                return _wait(client.set_async(path, content, version), deadline).version
            case Delete(path, version, children):
                return self._delete(path, version, children, deadline)

    def _read(self, path: str, watch: "_Watch | None", deadline: float) -> Node | None:
        while True:
            try:
                content, stat = _wait(self._client.get_async(path, watch), deadline)
            except kazoo_errors.NoNodeError:
                if not self._exists(path, watch, deadline):
                    return None
                continue  # it was created meanwhile
            owner = stat.owner_session_id
            mine = owner is not None and owner == self.session_id
            return Node(
                content or b"",
                stat.version,
                ephemeral=owner is not None,
                mine=mine,
                created=stat.czxid,
                written=stat.mzxid,
            )

    def _children(self, path: str, watch: "_Watch | None", deadline: float) -> list[str] | None:
        while True:
            try:
                children = _wait(self._client.get_children_async(path, watch), deadline)
                return sorted(children)
            except kazoo_errors.NoNodeError:
                if not self._exists(path, watch, deadline):
                    return None

    def _exists(self, path: str, watch: "_Watch | None", deadline: float) -> bool:
        """Set *watch* on a node that was missing. Return True if the node exists now."""
        return watch is not None and _wait(self._client.exists_async(path, watch), deadline) is not None

    def _delete(self, path: str, version: int, children: bool, deadline: float) -> bool:
        try:
            if children:
                for child in self._children(path, None, deadline) or ():
                    self._delete(f"{path}/{child}", -1, True, deadline)
            return _wait(self._client.delete_async(path, version), deadline)
        except kazoo_errors.NoNodeError:
            return False

    def _connect(self, deadline: float, timeout: float) -> None:
        """Return when there is a session. Raise RegistryConnectionError if there is none before
        *deadline*."""
        while not self._client.connected:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                raise AuthenticationError(f"{self} did not accept the user {self._settings.username!r}")
            self._start_if_ended()
            waiting = self._live or self._closing  # another thread is starting it: look again soon
            waiting.wait(max(0.0, min(_POLL, deadline - time.monotonic())))
            self._raise_if_closed()
            if time.monotonic() >= deadline and not self._client.connected:
                failure = self._threads.last_failure
                raise RegistryConnectionError(
                    f"{self} could not be reached within {timeout:.3g} s "
                    f"({failure or 'it does not answer, or the name of its host is unknown'}); "
                    "check that it runs at this address"
                ) from failure
        if not self._chroot_found:
            self._check_chroot(deadline)

    def _start_if_ended(self) -> None:
        """Start kazoo if it has not been started, or has ended after an unexpected failure."""
        starts = self._starts
        if self._threads.alive or not self._is_first(starts):
            return
        self._live = self._client.start_async()
        self._starts = starts + 1
        if self._closing.is_set() and self._is_first("close"):
            self._stop()

    def _is_first(self, act: object) -> bool:
        """Return True for the first of all threads that ask with the same *act*."""
        token = object()
        return self._first.setdefault(act, token) is token

    def _check_chroot(self, deadline: float) -> None:
        try:
            found = _wait(self._client.exists_async("/"), deadline)
        except (KazooTimeoutError, kazoo_errors.KazooException):
            return  # the request that comes next fails too, and says more
        if found is None:
            raise RegistryError(
                f"{self} has no node {self._settings.chroot}, which the address names as the chroot of a "
                "cluster; correct the address, or create the node"
            )
        self._chroot_found = True

    def _raise_for(self, step: RegistryRequest, error: kazoo_errors.KazooException) -> NoReturn:
        verb = type(step).__name__.lower()
        what = (
            f"{self} could not {verb} {step.path}"
            if verb != "children"
            else f"{self} could not list {step.path}"
        )
        match error:
            case kazoo_errors.NoNodeError():
                raise NoNodeError(f"{what}: there is no such node") from None
            case kazoo_errors.NodeExistsError():
                raise NodeExistsError(f"{what}: the node exists already") from None
            case kazoo_errors.BadVersionError():
                raise NodeVersionError(f"{what}: another client has changed the node meanwhile") from None
            case kazoo_errors.NoAuthError() | kazoo_errors.AuthFailedError():
                raise AuthenticationError(
                    f"{what}: the node's access list forbids this to {self._settings.username or 'everyone'}"
                ) from None
            case kazoo_errors.SessionExpiredError():
                raise SessionExpiredError(f"{what}: the session has expired") from None
            case kazoo_errors.ConnectionLoss() | kazoo_errors.OperationTimeoutError():
                raise RegistryConnectionError(
                    f"{what}: the connection failed before the answer came, so the outcome is not known"
                ) from None
        raise RegistryError(f"{what}: {type(error).__name__} {error}".rstrip()) from error

    def _state_changed(self, state: str) -> None:
        if self._closing.is_set():
            return
        if state == KazooState.CONNECTED:
            if self._suspended_since is not None:
                log.info("%s: connected again", self)
            self._suspended_since = None
            event = SessionEvent.CONNECTED
        elif state == KazooState.SUSPENDED:
            self._suspended_since = time.monotonic()
            log.warning("%s: the connection is lost; pyklient is connecting again", self)
            event = SessionEvent.SUSPENDED
        else:
            log.warning("%s: the session has expired; a new session begins", self)
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
            raise ClosedError("this session with ZooKeeper has been closed")


@dataclass(frozen=True, slots=True)
class _Watch:
    """Calls a function after a change. Two watches with the same function are equal, so kazoo keeps only
    one."""

    on_change: Callable[[], None]

    def __call__(self, _event: WatchedEvent) -> None:
        self.on_change()


def _wait(result: "AsyncResult[T]", deadline: float) -> T:
    return result.get(timeout=max(0.001, deadline - time.monotonic()))
