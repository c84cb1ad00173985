"""The request for the committed offsets of a group (OffsetFetch), and what its response says."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import OffsetFetchRequest
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition, numbers_by_topic

__all__ = ["ONE_GROUP", "FetchedOffsets", "fetched_offsets", "offset_fetch_request"]

ONE_GROUP: Final = 7
"""The last version of OffsetFetch that asks for a single group. Every broker since Kafka 0.8.2 supports this
version or an older one."""


class FetchedOffsets(NamedTuple):
    """The committed offsets in a response, and the error codes of the partitions that have one.

    A partition without a committed offset is in neither of the two. ``first_error`` is the first error code
    in the response, which may be that of the whole group, or 0.
    """

    offsets: dict[TopicPartition, OffsetAndMetadata]
    errors: dict[TopicPartition, int]
    first_error: int


def offset_fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool = False
) -> OffsetFetchRequest:
    """Return the request for the committed offsets of *partitions*; None means all partitions of the group,
    which needs Kafka 0.10.2. If *stable*, the broker waits for transactions that are about to commit offsets
    (KIP-447)."""
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(partitions).items()
        ]
    return OffsetFetchRequest(group_id=group_id, require_stable=stable, topics=topics)


def fetched_offsets(response: Any) -> FetchedOffsets:
    """Return the committed offsets and the error codes in *response*, of a version up to ``ONE_GROUP``."""
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.name, each.partition_index)
            if each.error_code == 0 and each.committed_offset >= 0:
                offsets[where] = OffsetAndMetadata(
                    each.committed_offset, each.metadata or "", each.committed_leader_epoch
                )
            elif each.error_code not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                errors[where] = each.error_code  # the code above tells in version 0 that there is no offset
    return FetchedOffsets(offsets, errors, response.error_code or next(iter(errors.values()), 0))
