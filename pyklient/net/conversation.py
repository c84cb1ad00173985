"""Dialogues with brokers, without the waiting.

"Find the coordinator, join, sync" is written as a generator: it yields what it needs (an Ask, a Pause, a
Refresh) and is resumed with the answer. ``play`` is the driver with threads and sockets; a test plays the
same generator with a list of answers. Network failures are thrown into the generator where it waits, so it
may catch those that are ``retriable`` and yield again; error codes inside a response are its own business.

::

    def describe(group_id: str) -> Conversation[DescribeGroupsResponse]:
        node_id = yield from find_coordinator(group_id)
        return (yield Ask(node_id, DescribeGroupsRequest(groups=[group_id])))
"""

import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerConnectionError, KafkaError, KafkaTimeoutError, broker_error, error_facts
from pyklient.model import TopicPartition
from pyklient.net.backoff import Backoff
from pyklient.net.metadata import Metadata
from pyklient.net.pool import Purpose
from pyklient.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from pyklient.protocol.schema import ApiMessage

__all__ = [
    "ANY",
    "CONTROLLER",
    "Ask",
    "Conversation",
    "ListedOffset",
    "Network",
    "Pause",
    "Refresh",
    "Step",
    "find_coordinator",
    "insist",
    "list_offsets",
    "play",
    "while_worthwhile",
]

T = TypeVar("T")

ANY: Final = -1
"""Ask whichever broker is at hand."""

CONTROLLER: Final = -2
"""Ask the cluster's controller."""

_UNKNOWN_TOPIC_PATIENCE = 5
"""Refreshes for which a topic may stay unknown: a new one takes a moment to reach all brokers."""


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
Conversation: TypeAlias = Generator[Step, Any, T]


class ListedOffset(NamedTuple):
    """A partition's offset for a time. ``timestamp_ms`` is that of the record found, -1 where the question
    was for an end of the log, or where nothing is that late: then ``offset`` is -1 too."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Network(Protocol):
    """What the driver needs: each call waits *timeout* seconds at most and raises a KafkaError."""

    def ask(self, step: Ask, timeout: float) -> Any:
        """The response to an Ask."""

    def refresh(self, step: Refresh, timeout: float) -> Metadata:
        """The snapshot for a Refresh."""

    def pause(self, seconds: float) -> None:
        """Wait; raises when the client is closed meanwhile."""


def play(conversation: Conversation[T], network: Network, timeout: float, backoff: Backoff) -> T:
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


def while_worthwhile(
    conversation: Conversation[T], in_vain: Callable[[], KafkaError | None]
) -> Conversation[T]:
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


def insist(ask: Ask) -> Conversation[Any]:
    """The response to *ask*, asked again after network failures that may pass. For requests that do no
    harm when they are carried out twice."""
    while True:
        try:
            return (yield ask)
        except KafkaError as error:
            if not error.retriable:
                raise
            yield Pause(because=error)


def find_coordinator(key: str, key_type: int = 0) -> Conversation[int]:
    """The id of the node that coordinates group *key* (with *key_type* 1: the transactional id), once
    there is one. Raises a BrokerError for codes that waiting does not cure."""
    while True:
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        response: FindCoordinatorResponse = yield from insist(Ask(ANY, request, max_version=3))
        if response.error_code:
            error = broker_error(response.error_code, f"finding the coordinator of {key!r}")
            if not error.retriable:
                raise error
            yield Pause(because=error)
            continue
        metadata: Metadata = yield Refresh((), known_ok=True)
        if response.node_id not in metadata.nodes:
            metadata = yield Refresh(())
        if response.node_id in metadata.nodes:
            return response.node_id
        yield Pause(
            because=BrokerConnectionError(
                f"the coordinator of {key!r} is broker {response.node_id} at "
                f"{response.host}:{response.port}, which the cluster's metadata does not name"
            )
        )


def list_offsets(
    wanted: Mapping[TopicPartition, int], isolation_level: int = 0
) -> Conversation[dict[TopicPartition, ListedOffset]]:
    """For each partition in *wanted*, the offset of the first record at or after a time in milliseconds,
    or -1 for the end of the log and -2 for its start; *isolation_level* 1 ends at the last stable offset.

    Goes to each partition's leader, and again where leadership moves. Raises a BrokerError for a topic that
    does not exist, and for codes that waiting does not cure.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    known_ok = True
    attempt = 0
    while missing := [partition for partition in wanted if partition not in found]:
        attempt += 1
        metadata: Metadata = yield Refresh({partition.topic for partition in missing}, known_ok=known_ok)
        leaders, problem = _by_leader(metadata, missing, attempt >= _UNKNOWN_TOPIC_PATIENCE)
        for node_id, partitions in leaders.items():
            request = _list_offsets_request(partitions, wanted, isolation_level)
            try:
                response: ListOffsetsResponse = yield Ask(node_id, request)
            except KafkaError as error:
                if not error.retriable:
                    raise
                problem = error
                continue
            problem = _take_offsets(response, found) or problem
        known_ok = problem is None
        if problem is not None:
            yield Pause(because=problem)
    return found


def _by_leader(
    metadata: Metadata, partitions: Collection[TopicPartition], is_last: bool
) -> tuple[dict[int, list[TopicPartition]], KafkaError | None]:
    """*partitions* by the id of their leader, and the error of one that has none at the moment."""
    leaders: dict[int, list[TopicPartition]] = {}
    problem: KafkaError | None = None
    for partition in partitions:
        node = metadata.leader(partition)
        if node is not None:
            leaders.setdefault(node.id, []).append(partition)
            continue
        topic = metadata.topics.get(partition.topic)
        info = topic.partitions.get(partition.partition) if topic is not None else None
        code = (topic.error if topic is not None else 0) or (info.error if info is not None else 0)
        error = broker_error(
            code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"finding the leader of {partition}"
        )
        if not error.retriable or (is_last and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise error
        problem = error
    return leaders, problem


def _list_offsets_request(
    partitions: list[TopicPartition], times: Mapping[TopicPartition, int], isolation_level: int
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, ListOffsetsRequest.ListOffsetsTopic(name=partition.topic))
        topic.partitions.append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=partition.partition, timestamp=times[partition]
            )
        )
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()))


def _take_offsets(
    response: ListOffsetsResponse, found: dict[TopicPartition, ListedOffset]
) -> KafkaError | None:
    """Move what *response* answers to *found*; the error of a partition that must be asked for again."""
    problem: KafkaError | None = None
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if entry.error_code:
                error = broker_error(entry.error_code, f"offsets of {partition}")
                if not error_facts(entry.error_code).retriable:
                    raise error
                problem = error
                continue
            # Version 0 answers with a list, newest first, of which one was asked for.
            offset = entry.old_style_offsets[0] if entry.old_style_offsets else entry.offset
            found[partition] = ListedOffset(offset, entry.timestamp, entry.leader_epoch)
    return problem
