"""A dialogue with brokers: a generator that yields requests, and is resumed with the responses.

A dialogue yields an Ask, a Pause or a Refresh. ``NetworkClient.play`` runs it over sockets, in the calling
thread; a test runs the same dialogue with a list of responses. A network failure is raised inside the
dialogue at its ``yield``, so that the dialogue may catch it and ask again. The dialogue itself checks the
error codes inside responses.

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
"""The value of ``Ask.to`` for a request that any broker can answer."""

CONTROLLER: Final = -2
"""The value of ``Ask.to`` for a request that only the controller of the cluster can answer."""


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Ask:
    """A step of a dialogue: send *request* to the node *to* (an id, ANY or CONTROLLER). The dialogue is
    resumed with the response.

    *timeout* is in seconds; None means ``request_timeout_ms``. The time that is left for the whole dialogue
    is a limit too. UnsupportedVersionError is raised in the dialogue if the node supports no version of the
    request from *min_version* to *max_version*.
    """

    to: int
    request: ApiMessage
    purpose: Purpose = Purpose.OTHER
    timeout: float | None = None
    max_version: int | None = None
    min_version: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """A step of a dialogue: wait for *seconds*. The dialogue is resumed with None.

    If *seconds* is None, the step waits for the client's back-off, which grows with each pause of the
    dialogue. *because* is the failure that made the pause necessary. If the time for the whole dialogue runs
    out, the error names this failure.
    """

    seconds: float | None = None
    because: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class Refresh:
    """A step of a dialogue: ask for the metadata of *topics*, or of all topics if *topics* is None. The
    dialogue is resumed with the new Metadata.

    If *known_ok* is true, and the present Metadata has all of *topics* without an error, the dialogue is
    resumed with the present Metadata, and no broker is asked.
    """

    topics: Collection[str] | None
    known_ok: bool = False


Step: TypeAlias = Ask | Pause | Refresh
Dialogue: TypeAlias = Generator[Step, Any, T]


def retried(
    attempt: Callable[[], Dialogue[T]], *, tries: int | None = None, pause: float | None = None
) -> Dialogue[T]:
    """Run the dialogue that *attempt* returns, again and again until one succeeds. Return its result.

    Between two attempts, wait for *pause* seconds, or for the client's back-off if *pause* is None.

    Raises the error of an attempt if the error is not ``retriable``, or if the attempt was the last of
    *tries* attempts.
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
        yield Pause(pause, because=problem)


def while_worthwhile(dialogue: Dialogue[T], in_vain: Callable[[], KafkaError | None]) -> Dialogue[T]:
    """Run *dialogue* and return its result, but stop it as soon as further attempts are useless.

    After each failure, call *in_vain*. It returns an error if further attempts are useless, and otherwise
    None. If it returns an error, end the dialogue and raise that error.
    """
    try:
        step = next(dialogue)
        while True:
            if isinstance(step, Pause) and step.because is not None and (reason := in_vain()) is not None:
                dialogue.close()
                raise reason from step.because
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
