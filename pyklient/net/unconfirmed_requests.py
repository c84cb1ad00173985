"""Waits until brokers have handled the requests that expect no response (``acks=0``), before a client closes
its connections.

A broker of Kafka 0.9 to 0.10.1 can drop the last requests of a connection that is closed (KAFKA-3703). A
broker of 0.10.2 or 0.11.0.0 can change the order of two such requests (KAFKA-5587). A broker handles the
requests of a connection one after the other. So the response to a further request shows that the broker has
handled all earlier ones.
"""

import time
from collections.abc import Iterable
from concurrent.futures import Future
from threading import TIMEOUT_MAX
from typing import Any

from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    KafkaError,
    UnsupportedVersionError,
)
from pyklient.net.connection.connection import Connection

__all__ = ["LONGEST_WAIT", "await_handled"]

LONGEST_WAIT = 2.0
"""The longest wait, in seconds, for brokers to handle requests that expect no response, before connections
are closed or replaced."""


def await_handled(connections: Iterable[Connection], timeout: float) -> list[BrokerConnectionError]:
    """Wait until the brokers have handled the last requests on *connections*, if these expect no response
    (``acks=0``). Ask all brokers at the same time.

    Return an error for each broker that may not have handled its requests within *timeout* seconds. If a
    broker does not answer in that time, close its connection.
    """
    deadline = time.monotonic() + timeout
    asked = [(connection, _ask(connection, deadline)) for connection in connections if connection.unconfirmed]
    errors = [_outcome(connection, future, deadline, timeout) for connection, future in asked]
    return [error for error in errors if error is not None]


def _ask(connection: Connection, deadline: float) -> "Future[Any]":
    """Send a request for the offsets of no partitions. It is the smallest request that all brokers answer."""
    from pyklient.protocol.messages import ListOffsetsRequest  # which few producers send

    failed: Future[Any] = Future()
    try:
        connection.raise_if_ended()
        seconds = max(deadline - time.monotonic(), 0.001)
        return connection.send(ListOffsetsRequest(replica_id=-1), timeout=seconds)
    except KafkaError as error:
        failed.set_exception(error)
        return failed


def _outcome(
    connection: Connection, future: "Future[Any]", deadline: float, timeout: float
) -> BrokerConnectionError | None:
    closed_or_silent = "has closed the connection"
    cause: Exception
    try:
        future.result(min(max(deadline - time.monotonic(), 0.0), TIMEOUT_MAX))
        return None
    except (UnsupportedVersionError, ClosedError):
        return None
    except TimeoutError as error:
        closed_or_silent, cause = f"has not answered for {timeout:g} s", error
        connection.close()
    except KafkaError as error:
        cause = error
    failure = BrokerConnectionError(
        f"{connection.endpoint} {closed_or_silent} after messages were sent with acks=0, so some of them may "
        "be lost. "
        "Possible causes: the broker is no longer the leader of their partitions, a message is too large, or "
        "the broker has stopped. To get an error for each lost message, set acks to 1 (in a classic "
        "producer, request.required.acks)"
    )
    failure.__cause__ = cause
    return failure
