"""ListOffsets: the offset of a partition at a time, or at an end of its log."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, broker_error, error_facts
from pyklient.net.dialogue import Ask, Dialogue, Pause, Refresh
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["ListedOffset", "list_offsets"]

_UNKNOWN_TOPIC_PATIENCE = 5
"""Refreshes for which a topic may stay unknown: a new one takes a moment to reach all brokers."""


class ListedOffset(NamedTuple):
    """A partition's offset for a time. ``timestamp_ms`` is that of the record found, -1 where the question
    was for an end of the log, or where nothing is that late: then ``offset`` is -1 too."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    wanted: Mapping[TopicPartition, int], isolation_level: int = 0
) -> Dialogue[dict[TopicPartition, ListedOffset]]:
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
