"""A dialogue with brokers: a generator that yields requests, and is resumed with the responses.

It yields an Ask, a Pause or a Refresh. ``NetworkClient.play`` runs a dialogue over sockets, in the calling
thread; a test runs the same dialogue over a list of responses. A network failure is raised inside the
dialogue where it waits, so that the dialogue may catch it and ask again. The dialogue itself checks the error
codes inside responses.

::

    def describe(group_id: str) -> Dialogue[DescribeGroupsResponse]:
        node_id = yield from find_coordinator(group_id)
        return (yield Ask(node_id, DescribeGroupsRequest(groups=[group_id])))
"""

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from pyklient.errors import KafkaError
from pyklient.net.connection_pool import Purpose
from pyklient.protocol.schema import ApiMessage

__all__ = [
    "ANY",
    "CONTROLLER",
    "Ask",
    "Dialogue",
    "Pause",
    "Refresh",
    "Step",
    "retried",
    "while_worthwhile",
]

T = TypeVar("T")

ANY: Final = -1
"""The recipient of a request that any broker can answer."""

CONTROLLER: Final = -2
"""The recipient of a request that the controller of the cluster must answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Send *request* to the node *to* (an id, ANY or CONTROLLER); the dialogue is resumed with the response.

    *timeout* is in seconds. None means ``request_timeout_ms``. The time left for the dialogue limits both.
    """

    to: int
    request: ApiMessage
    purpose: Purpose = Purpose.OTHER
    timeout: float | None = None
    max_version: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for *seconds*; the dialogue is resumed with None.

    Without *seconds*, wait for the client's back-off, which grows with each pause of the dialogue. *because*
    is the failure that made the pause necessary: the error names it if the time runs out.
    """

    seconds: float | None = None
    because: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class Refresh:
    """Ask for the metadata of *topics* (None: all topics); the dialogue is resumed with the new Metadata.

    With *known_ok*, it is resumed with the present Metadata if that has all of *topics* without an error.
    """

    topics: Collection[str] | None
    known_ok: bool = False


Step: TypeAlias = Ask | Pause | Refresh
Dialogue: TypeAlias = Generator[Step, Any, T]


def retried(attempt: Callable[[], Dialogue[T]], *, tries: int | None = None) -> Dialogue[T]:
    """Run the dialogue that *attempt* returns until it succeeds, and pause for the client's back-off between
    attempts.

    Raises the error of an attempt if it is not ``retriable``, or if it was the last of *tries* attempts.
    """
    failures = 0
    while True:
        try:
            return (yield from attempt())
        except KafkaError as error:
            failures += 1
            if not error.retriable or failures == tries:
                raise
            problem = error
        yield Pause(because=problem)


def while_worthwhile(dialogue: Dialogue[T], in_vain: Callable[[], KafkaError | None]) -> Dialogue[T]:
    """Run *dialogue*. After a failure, end it if *in_vain* returns an error, and raise that error."""
    try:
        step = next(dialogue)
        while True:
            try:
                answer = yield step
            except KafkaError as error:
                if (reason := in_vain()) is not None:
                    dialogue.close()
                    raise reason from error
                step = dialogue.throw(error)
            else:
                step = dialogue.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
