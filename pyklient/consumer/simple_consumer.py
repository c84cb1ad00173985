"""SimpleConsumer: it fetches from partitions that the caller chooses, one fetch at a time, without groups or
threads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Unpack

from pyklient import argument_checks
from pyklient.argument_checks import INT64_MAX
from pyklient.config import DEFAULT_SERVERS
from pyklient.config.keyword_types import AdminOptions
from pyklient.errors import (
    BrokerError,
    ClosedError,
    ConfigurationError,
    CorruptRecordError,
    ForkError,
    KafkaError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
    UnsupportedVersionError,
    broker_error,
)
from pyklient.kernel import Message, decode
from pyklient.net.dialogue import ANY, Ask, Dialogue, Refresh, retried
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.net.lookups.partition_leaders import by_leader
from pyklient.net.metadata import Metadata
from pyklient.net.threadless_client import ThreadlessClient
from pyklient.protocol.messages import FetchRequest, FetchResponse, ListOffsetsRequest
from pyklient.topic_partition import TopicPartition

__all__ = ["Fetched", "SimpleConsumer"]

_FETCH_VERSION = 12
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Fetched:
    """The messages that one fetch has returned from one partition.

    ``next_offset`` is the offset to fetch next, after gaps and control records. ``high_watermark`` is the
    offset after the last message that all in-sync replicas have. In the result of ``multifetch``, a partition
    that failed has an ``error``, and iterating over its Fetched raises that error.
    """

    messages: list[Message] = field(default_factory=list)
    next_offset: int = -1
    high_watermark: int = -1
    error: KafkaError | None = None

    def __iter__(self) -> Iterator[Message]:
        if self.error is not None:
            raise self.error
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class SimpleConsumer(ThreadlessClient):
    """A client that fetches from offsets that the caller keeps. It finds the leader of each partition by
    itself.

    Several threads may use it at the same time. Each call takes at most ``default_api_timeout_ms`` and raises
    KafkaTimeoutError after that. A wrong argument raises TypeError or ConfigurationError before a request is
    sent. All records are read, also those of open or aborted transactions (``read_uncommitted``). The options
    are those of ``AdminConfig``.
    """

    EARLIEST: Final = EARLIEST
    """A value for *timestamp_ms* that stands for the first offset of the log."""
    LATEST: Final = LATEST
    """A value for *timestamp_ms* that stands for the offset that the next message will get."""

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS, **options: Unpack[AdminOptions]
    ) -> None:
        super().__init__(bootstrap_servers, options)

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int = 1_048_576) -> Fetched:
        """Return the messages of a partition from *offset* on, up to about *max_bytes*.

        At the end of the log, return no message, without waiting. Raises OffsetOutOfRangeError,
        CorruptRecordError, BrokerError, and MessageTooLargeError if a message is larger than *max_bytes*
        (only with brokers before 0.10.1; later brokers return one message then).
        """
        where = _where(topic, partition)
        fetched = self.multifetch({where: offset}, max_bytes)[where]
        if fetched.error is not None:
            raise fetched.error
        return fetched

    def multifetch(
        self, positions: Mapping[TopicPartition, int], max_bytes: int = 1_048_576
    ) -> dict[TopicPartition, Fetched]:
        """Return the results of :meth:`fetch` for several partitions, in the order of *positions*.

        *max_bytes* holds for each partition. The error of a partition is in its own ``Fetched.error``. Only
        errors that concern all partitions are raised.
        """
        given = argument_checks.mapping(positions, "positions", "{TopicPartition('clicks', 0): 17}")
        wanted = {argument_checks.partition(each, "positions"): offset for each, offset in given.items()}
        for each, offset in wanted.items():
            wanted[each] = argument_checks.whole(offset, f"the offset of {each}", -INT64_MAX, INT64_MAX)
            if wanted[each] < 0:
                raise ConfigurationError(
                    f"cannot fetch from {each}: offset {offset} is below 0; get_offsets_before() returns the "
                    "first and the last offset"
                )
        most = argument_checks.whole(max_bytes, "max_bytes", low=1)
        found = self._play(_multifetch(wanted, most))
        return {each: found[each] for each in wanted}

    def get_offsets_before(
        self, topic: str, partition: int, timestamp_ms: int = LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Return up to *max_offsets* offsets at which reading may begin, in descending order.

        The records before these offsets were written before *timestamp_ms*. ``EARLIEST`` returns the first
        offset of the log. ``LATEST`` returns the end of the log and offsets before it. Brokers up to 3.x
        return the starts of their log segments. With later brokers, which return single offsets only, the
        result is the offset at that time, followed by the first offset of the log if the two offsets differ.
        """
        where = _where(topic, partition)
        at = argument_checks.whole(timestamp_ms, "timestamp_ms", self.EARLIEST, INT64_MAX)
        most = argument_checks.whole(max_offsets, "max_offsets", low=1)
        return self._play(_offsets_before(where, at, most))


def _where(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(argument_checks.text(topic, "topic"), argument_checks.whole(partition, "partition"))


def _multifetch(
    positions: Mapping[TopicPartition, int], max_bytes: int
) -> Dialogue[dict[TopicPartition, Fetched]]:
    """Fetch from the leaders of all partitions. If a partition has a retriable error, fetch again a few
    times."""
    found: dict[TopicPartition, Fetched] = {}
    try:
        yield from retried(partial(_fetch_left, positions, max_bytes, found), tries=_TRIES)
    except KafkaError as error:
        if not any(each.error is error for each in found.values()):
            raise
    return found


def _fetch_left(
    positions: Mapping[TopicPartition, int], max_bytes: int, found: dict[TopicPartition, Fetched]
) -> Dialogue[None]:
    """Fetch once from each partition that has no result, or a retriable error, in *found*.

    If a partition has a retriable error after that, raise the error.
    """
    left = [each for each in positions if each not in found or _retriable(found[each].error)]
    metadata: Metadata = yield Refresh({each.topic for each in left}, known_ok=not found)
    leaders, errors = by_leader(metadata, left)
    found.update((each, Fetched(error=error)) for each, error in errors.items())
    for node_id, partitions in leaders.items():
        request = _fetch_request(partitions, positions, max_bytes)
        try:
            response: FetchResponse = yield Ask(node_id, request, max_version=_FETCH_VERSION)
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            found.update((each, Fetched(error=error)) for each in partitions)
        else:
            found.update(_decoded(response, positions, max_bytes))
    for each in left:
        if each in found and (problem := _retriable(found[each].error)) is not None:
            raise problem


def _retriable(error: KafkaError | None) -> KafkaError | None:
    return error if error is not None and error.retriable else None


def _fetch_request(
    partitions: Sequence[TopicPartition], positions: Mapping[TopicPartition, int], max_bytes: int
) -> FetchRequest:
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for each in partitions:
        topic = topics.setdefault(each.topic, FetchRequest.FetchTopic(topic=each.topic))
        topic.partitions.append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=each.partition, fetch_offset=positions[each], partition_max_bytes=max_bytes
            )
        )
    return FetchRequest(topics=list(topics.values()))


def _decoded(
    response: FetchResponse, positions: Mapping[TopicPartition, int], max_bytes: int
) -> Iterator[tuple[TopicPartition, Fetched]]:
    for topic in response.responses:
        for data in topic.partitions:
            where = TopicPartition(topic.topic, data.partition_index)
            try:
                _raise_for(where, positions[where], data.error_code)
                messages, next_offset = _messages(where, positions[where], data.records or b"", max_bytes)
                yield where, Fetched(messages, next_offset, data.high_watermark)
            except KafkaError as error:
                yield where, Fetched(high_watermark=data.high_watermark, error=error)


def _raise_for(where: TopicPartition, offset: int, code: int) -> None:
    if code:
        error: BrokerError = broker_error(code, f"cannot fetch {where} at offset {offset}")
        raise OffsetOutOfRangeError(str(error)) if error.name == "OFFSET_OUT_OF_RANGE" else error


def _messages(
    where: TopicPartition, offset: int, records: memoryview | bytes, max_bytes: int
) -> tuple[list[Message], int]:
    """Return all messages in *records* from *offset* on, and the offset of the next fetch."""
    messages: list[Message] = []
    position, next_offset = 0, offset
    while True:
        try:
            chunk = decode(records, *where, next_offset, position=position)
        except (CorruptRecordError, UnsupportedCodecError, MessageTooLargeError) as error:
            if messages:
                break  # what comes before goes first; the next fetch meets the error
            raise type(error)(f"cannot read {where} at offset {next_offset}: {error}") from None
        if not chunk.nbytes and not chunk.remaining:
            break
        messages += chunk
        position, next_offset = position + chunk.nbytes, chunk.next_offset
    if records and not position:
        raise MessageTooLargeError(
            f"the message at offset {offset} of {where} is larger than max_bytes={max_bytes}; raise max_bytes"
        )
    return messages, next_offset


def _offsets_before(where: TopicPartition, timestamp_ms: int, most: int) -> Dialogue[list[int]]:
    """Return offsets as version 0 of ListOffsets does. If the broker does not support it, compute a similar
    result."""
    partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=where.partition, timestamp=timestamp_ms, max_num_offsets=most
    )
    topic = ListOffsetsRequest.ListOffsetsTopic(name=where.topic, partitions=[partition])
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    ends = yield from list_offsets({where: LATEST})  # finds the leader, waiting for one if need be
    metadata: Metadata = yield Refresh([where.topic], known_ok=True)
    leader = metadata.leader(where)
    try:
        response = yield Ask(ANY if leader is None else leader.id, request, max_version=0)
    except UnsupportedVersionError:
        return (yield from _emulated(where, timestamp_ms, ends[where].offset, most))
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise broker_error(answer.error_code, f"cannot look up offsets of {where}")
    return list(answer.old_style_offsets)


def _emulated(where: TopicPartition, timestamp_ms: int, end: int, most: int) -> Dialogue[list[int]]:
    first = (yield from list_offsets({where: EARLIEST}))[where].offset
    if timestamp_ms == EARLIEST:
        return [first]
    at = end
    if timestamp_ms != LATEST:
        at = (yield from list_offsets({where: timestamp_ms}))[where].offset
        if at == first < end:
            return []  # everything in the log is later
        at = end if at < 0 else at
    return [at, first][:most] if first < at else [at]
