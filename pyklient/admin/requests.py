"""Sends a request of Admin to the broker that is responsible for it, and repeats it after retriable
errors."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeAlias

from pyklient.errors import BrokerError, KafkaError, ProtocolError, broker_error
from pyklient.net.dialogue import CONTROLLER, Ask, Dialogue, Refresh, retried
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.protocol.schema import ApiMessage

__all__ = ["AdminRequest", "ask", "controller", "coordinator", "node", "only"]

_log = logging.getLogger("pyklient.admin")

Locate: TypeAlias = Callable[[], Dialogue[int]]
"""A function that returns a dialogue (a generator of requests to brokers). The dialogue runs before each
attempt, and its result is the id of the node to ask."""


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """A request, and the way to read its response.

    *what* is the beginning of the request's error messages, such as "cannot create topic clicks". *result_of*
    returns the part of a response that has the error code. If the response to an earlier attempt was lost,
    the error code *done_before* means that the earlier attempt succeeded. An error code in *final* ends the
    request, even if the error is retriable.
    """

    what: str
    request: ApiMessage
    result_of: Callable[[Any], Any]
    max_version: int | None = None
    done_before: int | None = None
    final: tuple[int, ...] = ()


def ask(order: AdminRequest, locate: Locate) -> Dialogue[tuple[int, Any]]:
    """Send the request *order* to the node that *locate* finds, and repeat it until it succeeds.

    Return the id of the node and the result. Raises a BrokerError if the node answers with an error that is
    not retriable.
    """
    lost = False

    def attempt() -> Dialogue[tuple[int, Any, BrokerError | None]]:
        nonlocal lost
        node_id = yield from locate()
        try:
            response = yield Ask(node_id, order.request, max_version=order.max_version)
        except KafkaError as error:
            if error.retriable:
                _log.info("an admin request is sent again, because of a failure: %s: %s", order.what, error)
                lost = True
            raise
        result = order.result_of(response)
        if not result.error_code or (lost and result.error_code == order.done_before):
            return node_id, result, None
        failure = _error_of(result, order.what)
        if failure.retriable and failure.code not in order.final:
            raise failure
        return node_id, result, failure

    node_id, result, failure = yield from retried(attempt)
    if failure is not None:
        raise failure
    return node_id, result


def node(node_id: int) -> Locate:
    """Return a function that locates the broker *node_id*. ANY stands for any broker."""
    return partial(_at, node_id)


def controller() -> Locate:
    """Return a function that locates the controller.

    After a failed attempt, that function asks for new metadata, because the controller may have moved.
    """
    return partial(_controller, count())


def coordinator(group_id: str) -> Locate:
    """Return a function that locates the coordinator of a group."""
    return partial(find_coordinator, group_id)


def only(results: Sequence[Any]) -> Any:
    """Return the only element of *results*, from the response to a request about one topic or group."""
    if len(results) != 1:
        raise ProtocolError(f"the broker was asked about one topic or group, but sent {len(results)} results")
    return results[0]


def _at(node_id: int) -> Dialogue[int]:
    yield from ()
    return node_id


def _controller(attempts: "count[int]") -> Dialogue[int]:
    if next(attempts):
        yield Refresh(())
    return CONTROLLER


def _error_of(result: Any, what: str) -> BrokerError:
    """Return the BrokerError for the error code in *result*. Its text begins with *what*, and has the
    broker's own message if the broker sent one."""
    said = getattr(result, "error_message", None)
    return broker_error(result.error_code, f"{what} (broker: {said})" if said else what)
