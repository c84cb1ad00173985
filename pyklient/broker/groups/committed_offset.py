"""A committed offset, and the records of ``__consumer_offsets`` that store it or delete it."""

from typing import Final, NamedTuple

from pyklient.protocol.messages.offsets_topic import OffsetCommitKey, OffsetCommitValue
from pyklient.topic_partition import TopicPartition

__all__ = ["NO_TIMESTAMP", "CommittedOffset", "offset_key", "offset_value", "read_offset"]

NO_TIMESTAMP: Final = -1

_KEY: Final = 1
_WITH_EXPIRY: Final = 1
_WITH_LEADER_EPOCH: Final = 3


class CommittedOffset(NamedTuple):
    """An offset that a group has committed for a partition.

    ``commit_timestamp`` is the time of the commit, in milliseconds since 1970. ``expire_timestamp`` is the
    time at which the offset expires if the client has chosen one, as clients before Kafka 2.1 can; otherwise
    it is -1.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int = NO_TIMESTAMP
    expire_timestamp: int = NO_TIMESTAMP


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    """Return the key of the record that stores the committed offset of *group_id* for *partition*."""
    key = OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition)
    return key.encode_blob(_KEY)


def offset_value(committed: CommittedOffset) -> bytes:
    """Return the value of the record that stores *committed*, in the version that Kafka chooses.

    The version is 3, or 1 if the client has chosen when the offset expires. Version 1 has no leader epoch.
    """
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp,
        expire_timestamp=committed.expire_timestamp,
    )
    has_expiry = committed.expire_timestamp != NO_TIMESTAMP
    return value.encode_blob(_WITH_EXPIRY if has_expiry else _WITH_LEADER_EPOCH)


def read_offset(value: bytes) -> CommittedOffset:
    """Return the committed offset that *value*, of any version, contains."""
    read = OffsetCommitValue.decode_blob(value)
    return CommittedOffset(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp
    )
