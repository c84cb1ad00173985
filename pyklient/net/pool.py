"""The connections of one client, by node and purpose.

A broker answers one connection's requests in order, so a fetch that waits for data would hold back a
heartbeat behind it: what must not wait for each other has connections of its own.

A node that could not be reached is left alone for a while that grows with each failure in a row. Whoever
asks for it meanwhile waits, and gets the last failure where the time allowed is shorter than that.

Locks: each (node, purpose) has a slot whose lock is held while its connection is being opened, so that
threads that want the same one open one; ``_lock`` guards the back-off table. A connection that is there is
found without either.
"""

import logging
import threading
import time
from collections.abc import Callable
from enum import StrEnum

from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    for_another,
)
from pyklient.net.backoff import Backoff
from pyklient.net.connection import Connection
from pyklient.net.transport import Endpoint

__all__ = ["Opener", "Pool", "Purpose"]

log = logging.getLogger("pyklient.net")

Opener = Callable[[Endpoint, float, Callable[[], KafkaError | None]], Connection]
"""Opens a connection to an endpoint within seconds, unless the function given returns an error."""

_CLOSE_TIMEOUT = 5.0
_FAIR_SHARE = 0.5


class Purpose(StrEnum):
    """What a connection is for. Connections of one purpose to one node are shared."""

    PRODUCE = "produce"
    FETCH = "fetch"
    GROUP = "group"
    OTHER = "other"


class _Slot:
    """The connection of one (node, purpose), and the lock for opening it."""

    __slots__ = ("connection", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Connection | None = None


class _Trouble:
    """How often a node has failed in a row, how last, and until when it is left alone."""

    __slots__ = ("error", "failures", "until")

    def __init__(self, failures: int, error: KafkaError, until: float) -> None:
        self.failures = failures
        self.error = error
        self.until = until


class Pool:
    """Connections are opened by *opener*. Safe to use from several threads."""

    def __init__(self, opener: Opener, backoff: Backoff, setup_timeout: float) -> None:
        self._opener = opener
        self._backoff = backoff
        self._setup_timeout = setup_timeout
        self._slots: dict[tuple[int, Purpose], _Slot] = {}
        self._trouble: dict[int, _Trouble] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._forked = False

    def live(self, node_id: int, purpose: Purpose) -> Connection | None:
        """The connection that is there and can be used, if there is one."""
        slot = self._slots.get((node_id, purpose))
        connection = slot.connection if slot is not None else None
        if connection is not None and connection.alive and not connection.expired:
            return connection
        return None

    def get(self, endpoint: Endpoint, purpose: Purpose, timeout: float) -> Connection:
        """The connection to *endpoint*, opened if need be, within *timeout* seconds.

        Raises what opening raises, ClosedError and ForkError.
        """
        self.raise_refusal()
        connection = self.live(endpoint.node_id, purpose)
        if connection is not None and connection.endpoint == endpoint:
            return connection
        deadline = time.monotonic() + timeout
        slot = self._slots.setdefault((endpoint.node_id, purpose), _Slot())
        before = self.last_failure(endpoint.node_id)
        if not slot.lock.acquire(timeout=min(max(timeout, 0), threading.TIMEOUT_MAX)):
            if (error := self.last_failure(endpoint.node_id)) is not None:
                raise _postponed(error, "another thread tries it again") from error
            raise KafkaTimeoutError(f"another thread is still connecting to {endpoint}")
        try:
            after = self.last_failure(endpoint.node_id)
            if after is not None and after is not before:
                # Another thread has tried meanwhile: its failure is ours, so that nobody queues for a try.
                raise for_another(after)
            return self._replace(slot, endpoint, purpose, deadline)
        finally:
            slot.lock.release()

    def wait_time(self, node_id: int) -> float:
        """Seconds for which the node is left alone after a failure; 0 when it may be tried."""
        with self._lock:
            trouble = self._trouble.get(node_id)
            return 0.0 if trouble is None else max(0.0, trouble.until - time.monotonic())

    def last_failure(self, node_id: int) -> KafkaError | None:
        """Why the node could not be reached last, if it has not been since."""
        with self._lock:
            trouble = self._trouble.get(node_id)
            return None if trouble is None else trouble.error

    def pause(self, seconds: float) -> None:
        """Sleep, unless the pool closes. Raises ClosedError and ForkError."""
        self._closing.wait(seconds)
        self.raise_refusal()

    def close(self) -> None:
        """Close all connections, and stop those who are opening one. Bounded."""
        self._closing.set()
        if self._forked:
            return
        slots = list(self._slots.values())
        for slot in slots:
            if slot.connection is not None:
                slot.connection.close()
        for slot in slots:
            # A thread that was opening one has seen by now that it should not.
            if slot.lock.acquire(timeout=_CLOSE_TIMEOUT):
                slot.lock.release()
            if slot.connection is not None:
                slot.connection.close()

    def abandon(self) -> None:
        """In the child of a fork: let go of all sockets. Takes no lock (see ``Connection.abandon``)."""
        self._forked = True
        for slot in list(self._slots.values()):
            if slot.connection is not None:
                slot.connection.abandon()

    def raise_refusal(self) -> None:
        """Raises ClosedError or ForkError when this pool cannot be used (any more)."""
        if (error := self._refusal()) is not None:
            raise error

    def _refusal(self) -> KafkaError | None:
        if self._forked:
            return ForkError(
                "this client was made before a fork and belongs to the parent process; "
                "make a new client in the child"
            )
        if self._closing.is_set():
            return ClosedError("this client has been closed")
        return None

    def _replace(self, slot: _Slot, endpoint: Endpoint, purpose: Purpose, deadline: float) -> Connection:
        """With the slot's lock held: its connection if it can be used, else a new one in its place."""
        old = slot.connection
        if old is not None:
            if old.alive and not old.expired and old.endpoint == endpoint:
                return old
            # What is in flight keeps its place in order, and its answer.
            old.retire(_FAIR_SHARE * max(0.0, deadline - time.monotonic()))
            slot.connection = None
        self._wait_for_turn(endpoint, deadline)
        timeout = min(self._setup_timeout, max(deadline - time.monotonic(), 0.001))
        try:
            connection = self._opener(endpoint, timeout, self._refusal)
        except KafkaError as error:
            self._failed(endpoint, error)
            raise
        with self._lock:
            self._trouble.pop(endpoint.node_id, None)
        slot.connection = connection
        if (refusal := self._refusal()) is not None:
            connection.close()
            raise refusal
        return connection

    def _wait_for_turn(self, endpoint: Endpoint, deadline: float) -> None:
        """Sit out the node's back-off; raises its last failure if no time would be left to try again."""
        wait = self.wait_time(endpoint.node_id)
        if not wait:
            return
        # What is left must do for an attempt: one cut short would say of the broker what is ours, and
        # lengthen its back-off.
        left = deadline - time.monotonic()
        if wait > left - min(self._setup_timeout, left * _FAIR_SHARE):
            error = self.last_failure(endpoint.node_id)
            if error is not None:
                raise _postponed(error, f"tried again in {wait:.2g} s") from error
        self.pause(wait)

    def _failed(self, endpoint: Endpoint, error: KafkaError) -> None:
        if isinstance(error, ClosedError | ForkError):
            return
        with self._lock:
            before = self._trouble.get(endpoint.node_id)
            failures = 1 if before is None else before.failures + 1
            until = time.monotonic() + self._backoff.pause(failures)
            self._trouble[endpoint.node_id] = _Trouble(failures, error, until)
        log.log(logging.WARNING if failures == 1 else logging.DEBUG, "%s", error)


def _postponed(error: KafkaError, note: str) -> KafkaError:
    """The failure of an attempt that is not made here: *error*, the last one, as one that may pass. *note*
    says what happens next."""
    message = f"{error} ({note})"
    if not isinstance(error, BrokerConnectionError):
        return BrokerConnectionError(message)
    again = for_another(error)
    again.args = (message,)
    return again
