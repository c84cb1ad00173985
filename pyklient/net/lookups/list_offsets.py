"""Looks up the offset of a partition at a time, or at the start or end of its log (ListOffsets)."""

from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, KafkaError, ProtocolError, UnsupportedVersionError, broker_error
from pyklient.net.dialogue import Ask, Dialogue, Refresh, retried
from pyklient.net.lookups.partition_leaders import by_leader
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["EARLIEST", "LATEST", "ListedOffset", "list_offsets"]

EARLIEST: Final = -2
"""The number that asks for the first offset in the log, if a ListOffsets request has it in place of a
time."""

LATEST: Final = -1
"""The number that asks for the end of the log, if a ListOffsets request has it in place of a time."""

_FIRST_BY_RECORD: Final = 1
"""The first version of ListOffsets that looks up records by time (Kafka 0.10.1). Older versions look up
segments."""

_UNKNOWN_TOPIC_TRIES: Final = 5
"""The number of attempts after which an unknown topic counts as missing. Before that, the topic may be so new
that not all brokers know it yet."""


class ListedOffset(NamedTuple):
    """The offset of the first record of a partition at or after a time.

    ``timestamp_ms`` is the time of this record, or -1 if the start or end of the log was asked for. If there
    is no such record, both ``timestamp_ms`` and ``offset`` are -1.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    wanted: Mapping[TopicPartition, int], isolation_level: int = 0, *, by_segment: bool = False
) -> Dialogue[dict[TopicPartition, ListedOffset]]:
    """Return the offset of the first record at or after a time, for each partition in *wanted*.

    *wanted* maps each partition to its time in milliseconds, or to LATEST or EARLIEST. If *isolation_level*
    is 1, the log ends at the last stable offset. Asks the leader of each partition, and the new leader if the
    leader changes. Raises a BrokerError for a topic that does not exist, and any other error that is not
    retriable.

    Brokers before 0.10.1 know the times of log segments, and not of records. If *by_segment* is true, such a
    broker is asked for the start of a segment: all records at or after the time follow this offset, but
    earlier records may follow it too. If *by_segment* is false, such a broker causes an
    UnsupportedVersionError.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    error = yield from retried(partial(_list_missing, wanted, isolation_level, by_segment, found, count(1)))
    if error is not None:
        raise error
    return found


def _list_missing(
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    by_segment: bool,
    found: dict[TopicPartition, ListedOffset],
    attempts: "count[int]",
) -> Dialogue[BrokerError | None]:
    """Ask once for each partition that is not in *found* yet, and add the offsets to *found*.

    Return None when *found* is complete. Return the error of a partition whose leader cannot be found, if
    another attempt would not help. Raises a retriable error if another attempt may succeed; ``retried`` then
    makes one. Raises any other error that is not retriable. *attempts* numbers the attempts from 1.
    """
    missing = [partition for partition in wanted if partition not in found]
    if not missing:
        return None
    attempt = next(attempts)
    metadata: Metadata = yield Refresh({partition.topic for partition in missing}, known_ok=attempt == 1)
    leaders, errors = by_leader(metadata, missing)
    problem: KafkaError | None = None
    for error in errors.values():
        unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not error.retriable or (unknown and attempt >= _UNKNOWN_TOPIC_TRIES):
            return error
        problem = error
    for node_id, partitions in leaders.items():
        try:
            response = yield from _ask(node_id, partitions, wanted, isolation_level, by_segment)
        except KafkaError as error:
            if not error.retriable:
                raise
            problem = error
        else:
            problem = _add_offsets(response, found) or problem
    if problem is not None:
        raise problem
    left_out = [partition for partition in missing if partition not in found]
    if left_out:
        raise ProtocolError(
            f"cannot look up offsets of {', '.join(map(str, left_out))}: the response does not contain them"
        )
    return None


def _ask(
    node_id: int,
    partitions: list[TopicPartition],
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    by_segment: bool,
) -> Dialogue[ListOffsetsResponse]:
    """Ask the node *node_id* for the offsets of *partitions*, in the newest version that it supports.

    Brokers before 0.11 have no transactions, so every isolation level means the same to them.
    """
    by_time = any(wanted[partition] >= 0 for partition in partitions)
    for level in (isolation_level, 0) if isolation_level else (0,):
        try:
            response: ListOffsetsResponse = yield Ask(
                node_id,
                _request(partitions, wanted, level),
                min_version=_FIRST_BY_RECORD if by_time else 0,
            )
            return response
        except UnsupportedVersionError as error:
            if error.retriable or (level == 0 and not (by_time and by_segment)):
                raise
    return (yield from _ask_for_segments(node_id, partitions, wanted))


def _ask_for_segments(
    node_id: int, partitions: list[TopicPartition], wanted: Mapping[TopicPartition, int]
) -> Dialogue[ListOffsetsResponse]:
    """Ask a broker before 0.10.1 for offsets. Such a broker knows the times of log segments, and not of
    records.

    The offset for a time is the start of the last segment that was complete at that time, or the first offset
    of the log. All records at or after the time follow this offset, but earlier records may follow it too.
    """
    response: ListOffsetsResponse = yield Ask(node_id, _request(partitions, wanted, 0), max_version=0)
    later = [
        (entry, TopicPartition(topic.name, entry.partition_index))
        for topic in response.topics
        for entry in topic.partitions
        if not entry.error_code and not entry.old_style_offsets
    ]
    if later:
        times = {partition: EARLIEST for _, partition in later}
        first: ListOffsetsResponse = yield Ask(node_id, _request(list(times), times, 0), max_version=0)
        starts = {
            TopicPartition(topic.name, entry.partition_index): entry
            for topic in first.topics
            for entry in topic.partitions
        }
        for entry, partition in later:
            entry.error_code = starts[partition].error_code
            entry.old_style_offsets = starts[partition].old_style_offsets
    return response


def _request(
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


def _add_offsets(
    response: ListOffsetsResponse, found: dict[TopicPartition, ListedOffset]
) -> KafkaError | None:
    """Add the offsets in *response* to *found*. If the offsets of some partitions must be requested again,
    return the error of one of them; otherwise return None. Raises any other error of a partition."""
    problem: KafkaError | None = None
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if entry.error_code:
                error = broker_error(entry.error_code, f"cannot look up offsets of {partition}")
                if not error.retriable:
                    raise error
                problem = error
                continue
            # Version 0 answers with a list, newest first; one offset was asked for.
            offset = entry.old_style_offsets[0] if entry.old_style_offsets else entry.offset
            found[partition] = ListedOffset(offset, entry.timestamp, entry.leader_epoch)
    return problem
