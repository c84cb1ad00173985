"""Looks up the offset of a partition at a time, or at the start or end of its log (ListOffsets)."""

from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, KafkaError, broker_error
from pyklient.net.dialogue import Ask, Dialogue, Refresh, retried
from pyklient.net.lookups.partition_leaders import by_leader
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["EARLIEST", "LATEST", "ListedOffset", "list_offsets"]

EARLIEST: Final = -2
"""The "time" with which ListOffsets is asked for the first offset in the log."""

LATEST: Final = -1
"""The "time" with which ListOffsets is asked for the end of the log."""

_UNKNOWN_TOPIC_TRIES: Final = 5
"""The number of responses after which a topic that the brokers do not know is an error. Before, it may be a
new topic that not all brokers know yet."""


class ListedOffset(NamedTuple):
    """The offset of the first record of a partition at or after a time.

    ``timestamp_ms`` is the time of this record, or -1 if the start or end of the log was asked for. If there
    is no such record, both ``timestamp_ms`` and ``offset`` are -1.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    wanted: Mapping[TopicPartition, int], isolation_level: int = 0
) -> Dialogue[dict[TopicPartition, ListedOffset]]:
    """Return, for each partition in *wanted*, the offset of the first record at or after a time in
    milliseconds.

    The time may also be LATEST or EARLIEST. If *isolation_level* is 1, the log ends at the last stable
    offset. Asks the leader of each partition, and the new leader if the leader changes. Raises a BrokerError
    for a topic that does not exist, and any error that is not retriable.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    error = yield from retried(partial(_list_missing, wanted, isolation_level, found, count(1)))
    if error is not None:
        raise error
    return found


def _list_missing(
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    found: dict[TopicPartition, ListedOffset],
    attempts: "count[int]",
) -> Dialogue[BrokerError | None]:
    """Ask once for each partition that is not in *found* yet, and add the offsets to *found*.

    Raises an error if it is worth trying again; ``retried`` then does. Returns an error if trying again
    cannot help.
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
            response: ListOffsetsResponse = yield Ask(node_id, _request(partitions, wanted, isolation_level))
        except KafkaError as error:
            if not error.retriable:
                raise
            problem = error
        else:
            problem = _add_offsets(response, found) or problem
    if problem is not None:
        raise problem
    return None


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
    """Add the offsets in *response* to *found*. Return the error of a partition that must be asked for again,
    or None."""
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
