"""The connections of one client, by node and purpose.

A broker answers the requests on a connection in order, so a fetch that waits for data would delay a heartbeat
that was sent after it. Therefore each purpose has a connection of its own.

After a failure to connect, a node is not contacted during a back-off, which grows with each failure in a row.
A caller that asks for the node during the back-off waits until the back-off ends. If the caller's time-out
would end before the back-off, the caller gets the last failure at once. An attempt that times out because its
caller had little time left does not replace the last failure, unless that is old.
"""

import logging
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    UnreachableError,
    for_another,
)
from pyklient.metrics.traffic import Traffic
from pyklient.net.backoff import Backoff
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.transport import Endpoint
from pyklient.net.forked_clients import belongs_to_the_parent
from pyklient.net.single_flight import SingleFlight
from pyklient.net.unconfirmed_requests import LONGEST_WAIT, await_handled
from pyklient.outage import Outage

__all__ = ["Opener", "Pool", "Purpose", "was_cut_short"]

log = logging.getLogger("pyklient.net")

Opener = Callable[[Endpoint, float, Callable[[], KafkaError | None], Traffic], Connection]
"""A function that opens a connection to an endpoint within a number of seconds.

The third argument is a function that returns None, or an error if the attempt must end early. The attempt
then raises this error. The fourth argument counts the requests of the connection.
"""

_CLOSE_TIMEOUT = 5.0
_FAIR_SHARE = 0.5
_TOO_SHORT = 1.0
"""The shortest useful time-out of an attempt, in seconds. A shorter attempt may time out although the broker
is fine."""
_RECENT = 30.0
"""The time in seconds for which a failure says more than later attempts that had too little time."""


class Purpose(StrEnum):
    """The purpose of a connection. All requests to one node for one purpose share a connection."""

    PRODUCE = "produce"
    FETCH = "fetch"
    GROUP = "group"
    OTHER = "other"


class _Trouble(NamedTuple):
    """The failures to connect to a node since the last success."""

    failures: int
    """The number of failures."""
    error: KafkaError
    """The last failure that says why."""
    failed_at: float
    """The time of that failure."""
    until: float
    """The end of the back-off."""


class Pool:
    """The connections of one client. *opener* opens a connection when it is first needed. Safe to use from
    several threads."""

    def __init__(self, opener: Opener, backoff: Backoff, setup_timeout: float) -> None:
        self._opener = opener
        self._backoff = backoff
        self._setup_timeout = setup_timeout
        self._connections: dict[tuple[int, Purpose], Connection] = {}
        self._opening: SingleFlight[tuple[int, Purpose], Connection] = SingleFlight()
        self._trouble: dict[int, _Trouble] = {}
        self._outages: dict[int, Outage] = {}
        self._traffic: dict[tuple[int, Purpose], Traffic] = {}
        self._closing = threading.Event()
        self._forked = False

    def live(self, node_id: int, purpose: Purpose) -> Connection | None:
        """Return the open connection to a node for *purpose*; None if there is none."""
        connection = self._connections.get((node_id, purpose))
        if connection is not None and not connection.expired:
            return connection
        return None

    def get(self, endpoint: Endpoint, purpose: Purpose, timeout: float) -> Connection:
        """Return the connection to *endpoint* for *purpose*. Open one if there is none, within *timeout*
        seconds.

        If no connection can be opened, raises the error of the attempt, or the failure before it if the
        attempt had too little time. Raises ClosedError if the pool is closed, or ForkError in a forked child.
        """
        connection = self.live(endpoint.node_id, purpose)
        if connection is not None and connection.endpoint == endpoint:
            return connection
        self.raise_if_closed()
        deadline = time.monotonic() + timeout
        before = self.last_failure(endpoint.node_id)

        def is_shared(_error: KafkaError) -> bool:
            # Another thread has tried to connect and failed. This thread does not queue for a try of its own.
            return self.last_failure(endpoint.node_id) not in (None, before)

        while connection is None or connection.endpoint != endpoint:
            try:
                connection = self._opening.run(
                    (endpoint.node_id, purpose),
                    lambda: self._replace(endpoint, purpose, deadline),
                    deadline,
                    is_shared,
                )
            except TimeoutError as error:
                if isinstance(error, KafkaError):
                    raise
                raise self._busy(endpoint) from None
        return connection

    def wait_time(self, node_id: int) -> float:
        """Return the seconds until the node may be contacted again after a failure; 0 if it may be contacted
        now."""
        trouble = self._trouble.get(node_id)
        return 0.0 if trouble is None else max(0.0, trouble.until - time.monotonic())

    def last_failure(self, node_id: int) -> KafkaError | None:
        """Return the last failure to connect to a node; None if there was no failure since the last
        success."""
        trouble = self._trouble.get(node_id)
        return None if trouble is None else trouble.error

    def traffic(self) -> list[Traffic]:
        """Return the counts of all requests so far, for each broker and purpose."""
        return list(self._traffic.values())

    def pause(self, seconds: float) -> None:
        """Sleep for *seconds*. Raise ClosedError as soon as the pool is closed, or ForkError in a forked
        child."""
        self._closing.wait(seconds)
        self.raise_if_closed()

    def close(self, timeout: float = 0) -> None:
        """Close all connections, and cancel attempts to open one. Returns within a limited time.

        First waits until the brokers have handled the requests that expect no response (``acks=0``), for
        *timeout* seconds but never longer than two. Logs a warning for each broker that has not handled its
        requests.
        """
        self._closing.set()
        if self._forked:
            return
        if timeout > 0:
            _await_handled(list(self._connections.values()), timeout)
        self._close_connections()
        self._opening.wait(_CLOSE_TIMEOUT)
        self._close_connections()

    def abandon(self) -> None:
        """Close the sockets in a child process after a fork, without a message to the brokers. Takes no
        lock."""
        self._forked = True
        for connection in list(self._connections.values()):
            connection.abandon()

    def raise_if_closed(self) -> None:
        """Raise ClosedError if the pool is closed, or ForkError in a forked child."""
        if (error := self._closed_error()) is not None:
            raise error

    def _closed_error(self) -> KafkaError | None:
        if self._forked:
            return belongs_to_the_parent()
        if self._closing.is_set():
            return ClosedError("This client has been closed; make a new client")
        return None

    def _close_connections(self) -> None:
        for connection in list(self._connections.values()):
            connection.close()

    def _busy(self, endpoint: Endpoint) -> KafkaError:
        """Return the error for a call whose time is over while another thread is still connecting to
        *endpoint*."""
        if (error := self.last_failure(endpoint.node_id)) is not None:
            return _postponed(error, "another thread is trying again")
        return KafkaTimeoutError(
            f"No connection to {endpoint} was made in time: another thread is still connecting"
        )

    def _replace(self, endpoint: Endpoint, purpose: Purpose, deadline: float) -> Connection:
        """Return the connection to *endpoint*. If there is none that can be used, open a new one first.

        Only one thread at a time calls this method for the same node and purpose.
        """
        old = self._connections.get((endpoint.node_id, purpose))
        if old is not None:
            if not old.expired and old.endpoint == endpoint:
                return old
            # Requests in flight still get their answers, and stay in order.
            share = _FAIR_SHARE * max(0.0, deadline - time.monotonic())
            _await_handled([old], share)
            old.retire(share)
            del self._connections[endpoint.node_id, purpose]
        self._wait_for_turn(endpoint, deadline)
        timeout = min(self._setup_timeout, max(deadline - time.monotonic(), 0.001))
        traffic = self._traffic.setdefault((endpoint.node_id, purpose), Traffic(endpoint.node_id))
        traffic.address = endpoint.address
        try:
            connection = self._opener(endpoint, timeout, self._closed_error, traffic)
        except KafkaError as error:
            traffic.failed_connections += 1
            now, before = time.monotonic(), self._trouble.get(endpoint.node_id)
            is_cut_short = timeout < self._setup_timeout and was_cut_short(error, timeout)
            if is_cut_short and before is not None and now <= before.failed_at + _RECENT:
                self._failed(endpoint, before.error, before.failed_at)
                raise _cut_short(before.error, timeout) from before.error
            self._failed(endpoint, error, now)
            raise
        traffic.connections += 1
        self._trouble.pop(endpoint.node_id, None)
        if (outage := self._outages.pop(endpoint.node_id, None)) is not None:
            outage.ended()
        self._connections[endpoint.node_id, purpose] = connection
        if (closed := self._closed_error()) is not None:
            connection.close()
            raise closed
        return connection

    def _wait_for_turn(self, endpoint: Endpoint, deadline: float) -> None:
        """Wait until the node may be contacted again after a failure.

        Raises the last failure if, after this wait, too little time would be left to connect.
        """
        wait = self.wait_time(endpoint.node_id)
        if not wait:
            return
        # An attempt with too little time would fail although the broker is fine, and lengthen the back-off.
        left = deadline - time.monotonic()
        if wait > left - min(self._setup_timeout, left * _FAIR_SHARE):
            error = self.last_failure(endpoint.node_id)
            if error is not None:
                raise _postponed(error, f"the next attempt to connect is in {wait:.2g} s") from error
        self.pause(wait)

    def _failed(self, endpoint: Endpoint, error: KafkaError, failed_at: float) -> None:
        if isinstance(error, ClosedError | ForkError):
            return
        before = self._trouble.get(endpoint.node_id)
        failures = 1 if before is None else before.failures + 1
        until = time.monotonic() + self._backoff.pause(failures)
        self._trouble[endpoint.node_id] = _Trouble(failures, error, failed_at, until)
        if not error.retriable:
            log.log(logging.WARNING if failures == 1 else logging.DEBUG, "%s", error)
            return
        outage = self._outages.get(endpoint.node_id)
        if outage is None:
            outage = Outage(
                log, str(endpoint), "broker_outage", broker=endpoint.node_id, address=endpoint.address
            )
            self._outages[endpoint.node_id] = outage
        outage.failed(error, "trying again")


def was_cut_short(error: KafkaError, timeout: float) -> bool:
    """Return True if *error* only shows that the *timeout* of an attempt, in seconds, was too short. Such an
    error says less than the failure before it."""
    return timeout < _TOO_SHORT and isinstance(error, KafkaTimeoutError)


def _await_handled(connections: list[Connection], timeout: float) -> None:
    """Wait until the brokers have handled the requests on *connections* that expect no response (``acks=0``),
    for at most *timeout* seconds. Log a warning for each broker that has not handled them."""
    for error in await_handled(connections, min(timeout, LONGEST_WAIT)):
        log.warning("%s", error)


def _cut_short(before: KafkaError, timeout: float) -> KafkaError:
    """Return the error for an attempt that timed out after *timeout* seconds, which were too few. Its text is
    that of *before*, the failure before it."""
    error = _postponed(before, f"another attempt had only {timeout:.2g} s")
    if isinstance(error, UnreachableError):
        error.nobody_there = False  # only the attempt before has shown that
    return error


def _postponed(error: KafkaError, note: str) -> KafkaError:
    """Return the error for a call that has not enough time for another attempt to connect. It is retriable.
    Its text is that of *error*, the last failure, followed by *note*, which describes the other attempt."""
    message = f"{error} ({note})"
    if not isinstance(error, BrokerConnectionError):
        return BrokerConnectionError(message)
    again = for_another(error)
    again.args = (message,)
    return again
