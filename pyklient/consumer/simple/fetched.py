"""The result of one fetch from one partition: its messages, or the error of the partition."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyklient.consumer.simple.fetch_requests import PartitionFetch
from pyklient.errors import (
    BrokerError,
    CorruptRecordError,
    KafkaError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    ProtocolError,
    UnsupportedCodecError,
    broker_error,
)
from pyklient.kernel import Message, decode
from pyklient.protocol.messages import FetchResponse
from pyklient.protocol.records import AbortedTransactions
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    PartitionData = FetchResponse.FetchableTopicResponse.PartitionData

__all__ = ["Fetched", "fetched_by_partition"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The messages that one fetch has returned from one partition.

    ``next_offset`` is the offset to fetch next, after gaps and control records. ``high_watermark`` is the
    offset after the last message that all in-sync replicas have. If the fetch failed, iterating over the
    Fetched raises its ``error``. Only ``multifetch`` and a BrokerConsumer return such a Fetched;
    ``SimpleConsumer.fetch`` raises the error itself. ``error_code`` is the error code of the broker, or 0.
    ``last_stable_offset`` is the first offset of the oldest open transaction, or the high watermark if no
    transaction is open. It is -1 with brokers before Kafka 0.11, which do not return it.
    """

    messages: list[Message] = field(default_factory=list)
    next_offset: int = -1
    high_watermark: int = -1
    error: KafkaError | None = None
    error_code: int = 0
    last_stable_offset: int = -1

    def __iter__(self) -> Iterator[Message]:
        if self.error is not None:
            raise self.error
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


def fetched_by_partition(
    response: FetchResponse, fetches: Iterable[PartitionFetch]
) -> dict[TopicPartition, Fetched]:
    """Return the result of each of *fetches* from the broker's *response*. The fetches name different
    partitions."""
    wanted = {each.where: each for each in fetches}
    found = {
        where: _fetched(wanted[where], data)
        for topic in response.responses
        for data in topic.partitions
        if (where := TopicPartition(topic.topic, data.partition_index)) in wanted
    }
    return {where: found[where] if where in found else _left_out(where) for where in wanted}


def _fetched(fetch: PartitionFetch, data: "PartitionData") -> Fetched:
    code = data.error_code
    try:
        if code:
            raise _error(fetch, code)
        messages, next_offset = _messages(
            fetch, data.records or b"", AbortedTransactions.listed(data.aborted_transactions)
        )
    except KafkaError as error:
        return Fetched(
            high_watermark=data.high_watermark,
            error=error,
            error_code=code,
            last_stable_offset=data.last_stable_offset,
        )
    return Fetched(messages, next_offset, data.high_watermark, last_stable_offset=data.last_stable_offset)


def _left_out(where: TopicPartition) -> Fetched:
    return Fetched(error=ProtocolError(f"cannot fetch {where}: the response does not contain this partition"))


def _error(fetch: PartitionFetch, code: int) -> KafkaError:
    error: BrokerError = broker_error(code, f"cannot fetch {fetch.where} at offset {fetch.offset}")
    return OffsetOutOfRangeError(str(error)) if error.name == "OFFSET_OUT_OF_RANGE" else error


def _messages(
    fetch: PartitionFetch, records: memoryview | bytes, aborted: AbortedTransactions | None
) -> tuple[list[Message], int]:
    """Return all messages in *records* from the offset of *fetch* on, and the offset of the next fetch. Leave
    out the messages of *aborted* transactions."""
    where, messages = fetch.where, list[Message]()
    position, next_offset = 0, fetch.offset
    while True:
        try:
            chunk = decode(records, *where, next_offset, position=position, aborted=aborted)
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
            f"the message at offset {fetch.offset} of {where} is larger than max_bytes={fetch.max_bytes}; "
            "raise max_bytes"
        )
    return messages, next_offset
