"""Looks up the offsets of a partition before a time, with version 0 of ListOffsets. Brokers since Kafka 4.0
do not support version 0. This module then asks them several times for one offset, with a similar result."""

from collections.abc import Callable
from functools import partial

from pyklient.errors import ConfigurationError, ProtocolError, UnsupportedVersionError, broker_error
from pyklient.net.dialogue import ANY, Ask, Dialogue
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST
from pyklient.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["earliest_or_latest", "offsets_before", "offsets_before_at_broker"]

_SINGLE_OFFSETS = 1
"""The first version of ListOffsets that returns a single offset for each partition."""


def offsets_before_at_broker(where: TopicPartition, timestamp_ms: int, most: int) -> Dialogue[list[int]]:
    """Return up to *most* offsets of the partition *where* before *timestamp_ms*, from the only broker of the
    client. Raises BrokerError, for instance if the broker does not lead the partition."""
    return (yield from offsets_before(where, timestamp_ms, most, ANY, partial(_single_offset, where)))


def offsets_before(
    where: TopicPartition, timestamp_ms: int, most: int, node_id: int, look_up: Callable[[int], Dialogue[int]]
) -> Dialogue[list[int]]:
    """Return up to *most* offsets of the partition *where* before *timestamp_ms*, from the broker *node_id*.

    If the broker does not support version 0 of ListOffsets, the result comes from several calls of *look_up*,
    each of which returns a single offset: the offset for a timestamp, for EARLIEST or for LATEST.
    """
    try:
        response: ListOffsetsResponse = yield Ask(
            node_id, _request(where, timestamp_ms, most), max_version=_SINGLE_OFFSETS - 1
        )
    except UnsupportedVersionError as error:
        if error.retriable:
            raise
        return (yield from _emulated(timestamp_ms, most, look_up))
    return list(_partition(where, response).old_style_offsets)


def earliest_or_latest(where: TopicPartition, which: int) -> Dialogue[int]:
    """Return the first offset of the partition *where* if *which* is EARLIEST, or the end of its log if
    *which* is LATEST. Raises BrokerError."""
    if which not in (EARLIEST, LATEST):
        raise ConfigurationError(
            f"timestamp_ms={which} is neither EARLIEST ({EARLIEST}) nor LATEST ({LATEST}); "
            "get_offsets_before() looks up other times"
        )
    response: ListOffsetsResponse = yield Ask(ANY, _request(where, which, 1))
    found = _partition(where, response)
    return found.old_style_offsets[0] if found.old_style_offsets else found.offset


def _single_offset(where: TopicPartition, timestamp_ms: int) -> Dialogue[int]:
    request = _request(where, timestamp_ms, 1)
    response: ListOffsetsResponse = yield Ask(ANY, request, min_version=_SINGLE_OFFSETS)
    return _partition(where, response).offset


def _emulated(timestamp_ms: int, most: int, look_up: Callable[[int], Dialogue[int]]) -> Dialogue[list[int]]:
    first = yield from look_up(EARLIEST)
    if timestamp_ms == EARLIEST:
        return [first]
    at = end = yield from look_up(LATEST)
    if timestamp_ms != LATEST:
        at = yield from look_up(timestamp_ms)
        if at == first < end:
            return []  # everything in the log is later
        at = end if at < 0 else at
    return [at, first][:most] if first < at else [at]


def _request(where: TopicPartition, timestamp_ms: int, most: int) -> ListOffsetsRequest:
    partition = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=where.partition, timestamp=timestamp_ms, max_num_offsets=most
    )
    topic = ListOffsetsRequest.ListOffsetsTopic(name=where.topic, partitions=[partition])
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def _partition(
    where: TopicPartition, response: ListOffsetsResponse
) -> ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse:
    failure = f"cannot look up offsets of {where}"
    for topic in response.topics:
        for found in topic.partitions:
            if (topic.name, found.partition_index) == where:
                if found.error_code:
                    raise broker_error(found.error_code, failure)
                return found
    raise ProtocolError(f"{failure}: the response does not contain this partition")
