"""Makes the OffsetCommit requests of a consumer, and reads their responses. Also makes the error for a broker
that cannot keep offsets in ZooKeeper."""

from collections.abc import Mapping

from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import UnsupportedVersionError
from pyklient.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["commit_errors", "commit_request", "not_in_zookeeper"]

_BROKERS_RETENTION = -1


def commit_request(
    group_id: str,
    identity: MemberIdentity,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
    retention_ms: int | None = None,
) -> OffsetCommitRequest:
    """Return the request that commits *positions* as the member with *identity*. The broker keeps them for
    *retention_ms*. If *retention_ms* is None, the broker's settings decide how long it keeps them."""
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
        generation_id_or_member_epoch=identity.generation,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
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


def not_in_zookeeper(reason: str) -> UnsupportedVersionError:
    """Return the error for a broker that cannot keep committed offsets in ZooKeeper."""
    return UnsupportedVersionError(
        f"{reason}. Only brokers of Kafka 0.8.1 to 3.9 that use ZooKeeper keep offsets there: use "
        "offsets_storage='kafka', or a ConsumerConnector with the address of ZooKeeper (option zookeeper)"
    )
