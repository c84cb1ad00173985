"""Makes the request for the committed offsets of a group (OffsetFetch), and reads its response."""

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.errors import ProtocolError
from pyklient.protocol.messages import OffsetFetchRequest
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition, numbers_by_topic

__all__ = ["ONE_GROUP", "FetchedOffsets", "fetched_offsets", "left_out", "offset_fetch_request"]

ONE_GROUP: Final = 7
"""The last version of OffsetFetch that asks for a single group. Every broker since Kafka 0.8.2 supports this
version or an older one."""


class FetchedOffsets(NamedTuple):
    """The committed offsets and the error codes in a response, by partition.

    A partition without a committed offset and without an error is in neither ``offsets`` nor ``errors``.
    ``first_error`` is the first error code in *response*, which may be the error of the whole group; 0 if
    there is none.
    """

    offsets: dict[TopicPartition, OffsetAndMetadata]
    errors: dict[TopicPartition, int]
    first_error: int
    response: Any

    def of(
        self, partitions: Collection[TopicPartition], group_id: str
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each of *partitions*, or None for a partition without one.

        Raises ProtocolError if the response leaves out one of *partitions*. The error names the group
        *group_id*.
        """
        if missing := left_out(self.response, partitions):
            raise ProtocolError(
                f"cannot fetch the offsets of group {group_id}: the response does not contain "
                f"{', '.join(map(str, missing))}"
            )
        return {each: self.offsets.get(each) for each in partitions}


def offset_fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool = False
) -> OffsetFetchRequest:
    """Return the request for the committed offsets of *partitions*.

    If *partitions* is None, asks for all partitions of the group, which needs Kafka 0.10.2. If *stable* is
    true, a partition gets the error UNSTABLE_OFFSET_COMMIT while a transaction that commits an offset for it
    is open (KIP-447).
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(partitions).items()
        ]
    return OffsetFetchRequest(group_id=group_id, require_stable=stable, topics=topics)


def fetched_offsets(response: Any) -> FetchedOffsets:
    """Return the committed offsets and the error codes in *response*. The version of *response* must be at
    most ``ONE_GROUP``."""
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
    first_error = response.error_code or next(iter(errors.values()), 0)
    return FetchedOffsets(offsets, errors, first_error, response)


def left_out(response: Any, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the *partitions* that are missing in *response*, the response to a request about committed
    offsets."""
    contained = {
        TopicPartition(topic.name, each.partition_index)
        for topic in response.topics
        for each in topic.partitions
    }
    return [each for each in partitions if each not in contained]
