"""Dialogues with brokers, without the waiting.

"Find the coordinator, join, sync" is written as a generator: it yields what it needs (an Ask, a Pause, a
Refresh) and is resumed with the answer. ``play`` is the driver with threads and sockets; a test plays the
same generator with a list of answers. Network failures are thrown into the generator where it waits, so it
may catch those that are ``retriable`` and yield again; error codes inside a response are its own business.

::

    def describe(group_id: str) -> Dialogue[DescribeGroupsResponse]:
        node_id = yield from find_coordinator(group_id)
        return (yield Ask(node_id, DescribeGroupsRequest(groups=[group_id])))
"""

import time
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.net.backoff import Backoff
from pyklient.net.metadata import Metadata
from pyklient.net.pool import Purpose
from pyklient.protocol.schema import ApiMessage

__all__ = [
    "ANY",
    "CONTROLLER",
    "Ask",
    "Dialogue",
    "Network",
    "Pause",
    "Refresh",
    "Step",
    "insist",
    "play",
    "while_worthwhile",
]

T = TypeVar("T")

ANY: Final = -1
"""Ask whichever broker is at hand."""

CONTROLLER: Final = -2
"""Ask the cluster's controller."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Answered with the response to *request* from the node *to*: an id, ANY or CONTROLLER. *timeout* is in
    seconds, ``request_timeout_ms`` if None, and never longer than the conversation's own."""

    to: int
    request: ApiMessage
    purpose: Purpose = Purpose.OTHER
    timeout: float | None = None
    max_version: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Answered with None after *seconds*; None means the client's back-off, longer with each in a row.
    *because* is the failure that made it necessary, for the error if time runs out."""

    seconds: float | None = None
    because: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class Refresh:
    """Answered with a fresh Metadata of *topics* (None: all). With *known_ok*, the one at hand will do if
    it knows all of *topics* without an error."""

    topics: Collection[str] | None
    known_ok: bool = False


Step: TypeAlias = Ask | Pause | Refresh
Dialogue: TypeAlias = Generator[Step, Any, T]


class Network(Protocol):
    """What the driver needs: each call waits *timeout* seconds at most and raises a KafkaError."""

    def ask(self, step: Ask, timeout: float) -> Any:
        """The response to an Ask."""

    def refresh(self, step: Refresh, timeout: float) -> Metadata:
        """The snapshot for a Refresh."""

    def pause(self, seconds: float) -> None:
        """Wait; raises when the client is closed meanwhile."""


def play(conversation: Dialogue[T], network: Network, timeout: float, backoff: Backoff) -> T:
    """Play *conversation* to its end in this thread and return its result.

    Raises what it raises. After *timeout* seconds it is closed, and a KafkaTimeoutError names the last
    failure that it met.
    """
    deadline = time.monotonic() + timeout
    last: KafkaError | None = None
    pauses = 0
    try:
        step = next(conversation)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                conversation.close()
                raise _out_of_time(timeout, last) from last
            if isinstance(step, Pause):
                last = step.because or last
                pauses += 1
                seconds = backoff.pause(pauses) if step.seconds is None else step.seconds
                network.pause(min(seconds, remaining))
                step = conversation.send(None)
                continue
            try:
                answer = (
                    network.ask(step, remaining)
                    if isinstance(step, Ask)
                    else network.refresh(step, remaining)
                )
            except KafkaError as error:
                last = error
                step = conversation.throw(error)
            else:
                step = conversation.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _out_of_time(timeout: float, last: KafkaError | None) -> KafkaTimeoutError:
    reason = "no failure, only no answer" if last is None else f"the last failure: {last}"
    return KafkaTimeoutError(f"not done within {timeout:.3g} s; {reason}")


def while_worthwhile(conversation: Dialogue[T], in_vain: Callable[[], KafkaError | None]) -> Dialogue[T]:
    """*conversation*, given up after a failure if *in_vain* then tells why trying again is of no use."""
    try:
        step = next(conversation)
        while True:
            try:
                answer = yield step
            except KafkaError as error:
                if (reason := in_vain()) is not None:
                    conversation.close()
                    raise reason from error
                step = conversation.throw(error)
            else:
                step = conversation.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def insist(ask: Ask) -> Dialogue[Any]:
    """The response to *ask*, asked again after network failures that may pass. For requests that do no
    harm when they are carried out twice."""
    while True:
        try:
            return (yield ask)
        except KafkaError as error:
            if not error.retriable:
                raise
            yield Pause(because=error)
