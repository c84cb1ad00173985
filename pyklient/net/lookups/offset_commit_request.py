"""Makes the request that commits offsets of a group (OffsetCommit), and reads its response."""

from collections.abc import Iterable, Mapping

from pyklient.errors import ProtocolError
from pyklient.net.lookups.offset_fetch import left_out
from pyklient.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["commit_errors", "offset_commit_request", "unconfirmed"]

_BROKERS_RETENTION = -1


def offset_commit_request(
    group_id: str,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    retention_ms: int | None = None,
) -> OffsetCommitRequest:
    """Return the request that commits *positions* as the member with the given generation and ids.

    Without a generation and ids, the request does not come from a member, and the broker accepts it only if
    the group has no members. The broker keeps the offsets for *retention_ms*. If *retention_ms* is None, the
    broker's settings decide how long it keeps them.
    """
    topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition]] = {}
    for (topic, partition), position in positions.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time_ms=_BROKERS_RETENTION if retention_ms is None else retention_ms,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def commit_errors(response: OffsetCommitResponse) -> dict[TopicPartition, int]:
    """Return the error code of each partition in *response* that has one."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code
    }


def unconfirmed(
    group_id: str, response: OffsetCommitResponse, positions: Iterable[TopicPartition]
) -> dict[TopicPartition, ProtocolError]:
    """Return an error for each partition in *positions* that *response* leaves out. It is not known whether
    the offset of such a partition was committed."""
    return {
        where: ProtocolError(
            f"cannot tell whether the offset of {where} for group {group_id} was committed: the response "
            "does not contain this partition"
        )
        for where in left_out(response, positions)
    }
