"""Sends requests to ZooKeeper with the library kazoo, many of them at the same time.

One request may need several requests of kazoo: missing parents of a node are created before it, and the nodes
below a node are deleted before it. Therefore each request is a generator that yields the kazoo result for
which it waits. Other requests continue meanwhile.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError
from kazoo.protocol.states import WatchedEvent

from pyklient.errors import (
    AuthenticationError,
    KafkaError,
    KafkaTimeoutError,
    NodeExistsError,
    NodeVersionError,
    NoNodeError,
    RegistryConnectionError,
    RegistryError,
    SessionExpiredError,
)
from pyklient.registry.requests import Children, Create, Delete, Node, Read, RegistryRequest, Write

__all__ = ["AnswerDeadline", "KazooRequests", "Watch"]

_MOST_IN_FLIGHT: Final = 200
"""The largest number of requests of one dialogue that wait for their answers at the same time. By default, a
ZooKeeper server stops reading when a thousand requests of all its clients wait."""

Watch: TypeAlias = Callable[[WatchedEvent], None]
_Steps: TypeAlias = Generator["AsyncResult[Any]", Any, Any]


class AnswerDeadline:
    """The time until which a dialogue waits for answers: *timeout* seconds after this object was created.

    With *per_answer*, each answer moves this time to *timeout* seconds after the answer.
    """

    def __init__(self, timeout: float, *, per_answer: bool = False) -> None:
        self.timeout = timeout
        self.answers = 0
        """The number of answers that have arrived."""
        self._per_answer = per_answer
        self._at = time.monotonic() + timeout

    @property
    def left(self) -> float:
        """The number of seconds until the deadline, or 0.0 after it."""
        return max(0.0, self._at - time.monotonic())

    def answered(self) -> None:
        """Count an answer, and with *per_answer* move the deadline."""
        self.answers += 1
        if self._per_answer:
            self._at = time.monotonic() + self.timeout

    def before_it(self) -> str:
        """Return a part of an error message: the time-out, and the number of answers that came before it."""
        if self._per_answer or not self.answers:
            return f"within {self.timeout:.3g} s"
        return f"within {self.timeout:.3g} s, in which it answered {self.answers} other requests"


class KazooRequests:
    """Sends requests to ZooKeeper in the session of *client*.

    *name*, the address of ZooKeeper, and *user*, the user of the session, appear in error messages.
    """

    def __init__(self, client: KazooClient, name: str, user: str | None) -> None:
        self._client = client
        self._name = name
        self._user = user

    def carry_out(
        self, requests: Sequence[RegistryRequest], watch: Watch | None, deadline: AnswerDeadline
    ) -> list[Any]:
        """Send *requests* together, and return their answers in the same order.

        *watch* is called after a change of a node that a request watches. If ZooKeeper rejects a request, its
        answer is a KafkaError. Raises KafkaTimeoutError after *deadline*, and RegistryConnectionError or
        SessionExpiredError if the connection fails meanwhile.
        """
        answers: list[Any] = [None] * len(requests)
        parents: dict[str, AsyncResult[Any]] = {}
        left = deque(enumerate(requests))
        in_flight: deque[tuple[int, _Steps, AsyncResult[Any]]] = deque()
        while left or in_flight:
            while left and len(in_flight) < _MOST_IN_FLIGHT:
                index, request = left.popleft()
                steps = self._steps(request, watch, parents)
                in_flight.append((index, steps, next(steps)))
            index, steps, result = in_flight.popleft()
            try:
                following = _resume(steps, result, deadline)
            except StopIteration as end:
                answers[index] = end.value
            except KazooTimeoutError:
                raise KafkaTimeoutError(
                    f"{self._name} did not answer a request for {requests[index].path} "
                    f"{deadline.before_it()}; it is not known whether the request was carried out"
                ) from None
            except (kazoo_errors.KazooException, _ForbiddenError) as error:
                answers[index] = self._error(requests[index], error)
                if isinstance(answers[index], RegistryConnectionError | SessionExpiredError):
                    raise answers[index] from None
            else:
                in_flight.append((index, steps, following))
        return answers

    def _steps(
        self, request: RegistryRequest, watch: Watch | None, parents: dict[str, "AsyncResult[Any]"]
    ) -> _Steps:
        client = self._client
        match request:
            case Read(path, watched, may_come):
                return _read(client, path, watch if watched else None, may_come)
            case Children(path, watched):
                return _children(client, path, watch if watched else None)
            case Create(path, content, ephemeral):
                return _create(client, path, content, ephemeral, parents)
            case Write(path, content, version):
                return _write(client, path, content, version)
            case Delete(path, version, children):
                return _delete(client, path, version, children)

    def _error(
        self, request: RegistryRequest, error: "kazoo_errors.KazooException | _ForbiddenError"
    ) -> KafkaError:
        verb = "list" if isinstance(request, Children) else type(request).__name__.lower()
        failure = f"{self._name} could not {verb} {request.path}"
        match error:
            case _ForbiddenError():
                return AuthenticationError(
                    f"{failure}: the access list of the node {error.node} does not give the permission "
                    f"{error.permission} to {self._user or 'clients without a user'}; change the list, or "
                    "set zookeeper_username to a user with this permission"
                )
            case kazoo_errors.NoNodeError():
                return NoNodeError(f"{failure}: there is no such node")
            case kazoo_errors.NodeExistsError():
                return NodeExistsError(f"{failure}: the node exists already")
            case kazoo_errors.BadVersionError():
                return NodeVersionError(f"{failure}: another client has changed the node meanwhile")
            case kazoo_errors.AuthFailedError():
                return AuthenticationError(
                    f"{failure}: ZooKeeper did not accept the user {self._user!r}; check zookeeper_username "
                    "and zookeeper_password"
                )
            case kazoo_errors.SessionExpiredError():
                return SessionExpiredError(f"{failure}: the ZooKeeper session has expired")
            case kazoo_errors.ConnectionLoss() | kazoo_errors.OperationTimeoutError():
                return RegistryConnectionError(
                    f"{failure}: the connection failed before the answer came, so the outcome is not known"
                )
        return RegistryError(f"{failure}: {type(error).__name__} {error}".rstrip())


class _ForbiddenError(Exception):
    """The access list of *node* does not give *permission* to the session."""

    def __init__(self, node: str, permission: str) -> None:
        super().__init__(node, permission)
        self.node = node
        self.permission = permission


@contextmanager
def _needing(permission: str, node: str) -> Iterator[None]:
    try:
        yield
    except kazoo_errors.NoAuthError:
        raise _ForbiddenError(node, permission) from None


def _resume(steps: _Steps, result: "AsyncResult[Any]", deadline: AnswerDeadline) -> "AsyncResult[Any]":
    """Wait for *result* until *deadline*, and resume the generator *steps* with it. Return the next result
    that *steps* yields."""
    try:
        answer = result.get(timeout=max(0.001, deadline.left))
    except kazoo_errors.KazooException as error:
        deadline.answered()
        return steps.throw(error)
    deadline.answered()
    return steps.send(answer)


def _read(client: KazooClient, path: str, watch: Watch | None, may_come: bool) -> _Steps:
    while True:
        try:
            with _needing("READ", path):
                content, stat = yield client.get_async(path, watch)
        except kazoo_errors.NoNodeError:
            if not (yield from _exists(client, path, watch if may_come else None)):
                return None
            continue  # it was created meanwhile
        owner = stat.owner_session_id
        session = client.client_id
        return Node(
            content or b"",
            stat.version,
            ephemeral=owner is not None,
            mine=owner is not None and session is not None and owner == session[0],
            created=stat.czxid,
            written=stat.mzxid,
        )


def _children(client: KazooClient, path: str, watch: Watch | None) -> _Steps:
    while True:
        try:
            with _needing("READ", path):
                return sorted((yield client.get_children_async(path, watch)))
        except kazoo_errors.NoNodeError:
            if not (yield from _exists(client, path, watch)):
                return None


def _exists(client: KazooClient, path: str, watch: Watch | None) -> _Steps:
    """Set *watch* on the node at *path*, and return True if the node exists now. If *watch* is None, send no
    request and return False."""
    if watch is None:
        return False
    with _needing("READ", path):
        return (yield client.exists_async(path, watch)) is not None


def _create(
    client: KazooClient, path: str, content: bytes, ephemeral: bool, parents: dict[str, "AsyncResult[Any]"]
) -> _Steps:
    """Create the node at *path* with *content*. If *ephemeral* is true, ZooKeeper deletes the node when the
    session ends. If its parent nodes are missing, create them first.

    *parents* has the parent nodes that other requests have created or are creating, so that no parent is
    created twice. It maps the path of each of these nodes to the result of its request.
    """
    parent = _parent(path)
    try:
        try:
            yield client.create_async(path, content, ephemeral=ephemeral)
        except kazoo_errors.NoNodeError:
            if parent not in parents:
                parents[parent] = client.ensure_path_async(parent)
            yield parents[parent]
            yield client.create_async(path, content, ephemeral=ephemeral)
    except kazoo_errors.NoAuthError:
        with suppress(kazoo_errors.NoAuthError):  # a node that may not be looked at exists
            while parent != "/" and (yield client.exists_async(parent)) is None:
                parent = _parent(parent)
        raise _ForbiddenError(parent, "CREATE") from None


def _write(client: KazooClient, path: str, content: bytes, version: int) -> _Steps:
    with _needing("WRITE", path):
        return (yield client.set_async(path, content, version)).version


def _delete(client: KazooClient, path: str, version: int, children: bool) -> _Steps:
    try:
        if children:
            for child in (yield from _children(client, path, None)) or ():
                yield from _delete(client, f"{path}/{child}", -1, True)
        with _needing("DELETE", _parent(path)):
            return (yield client.delete_async(path, version))
    except kazoo_errors.NoNodeError:
        return False


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
