"""Makes the OffsetCommit requests of a consumer, and the error for a broker that cannot keep offsets in
ZooKeeper."""

from collections.abc import Mapping

from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import UnsupportedVersionError
from pyklient.net.lookups.offset_commit_request import offset_commit_request
from pyklient.protocol.messages import OffsetCommitRequest
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["commit_request", "not_in_zookeeper"]


def commit_request(
    group_id: str,
    identity: MemberIdentity,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
    retention_ms: int | None = None,
) -> OffsetCommitRequest:
    """Return the request that commits *positions* as the member with *identity*. The broker keeps them for
    *retention_ms*. If *retention_ms* is None, the broker's settings decide how long it keeps them."""
    return offset_commit_request(
        group_id,
        positions,
        generation=identity.generation,
        member_id=identity.member_id,
        instance_id=identity.instance_id,
        retention_ms=retention_ms,
    )


def not_in_zookeeper(reason: str) -> UnsupportedVersionError:
    """Return the error for a broker that cannot keep committed offsets in ZooKeeper. *reason* says what
    failed, and is the beginning of the error's text."""
    return UnsupportedVersionError(
        f"{reason}. Only brokers of Kafka 0.8.1 to 3.9 that use ZooKeeper can keep offsets in ZooKeeper: use "
        "offsets_storage='kafka', or a ConsumerConnector with the address of ZooKeeper (option zookeeper)"
    )
