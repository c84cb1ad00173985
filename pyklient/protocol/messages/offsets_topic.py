"""The keys and values of the records in the topic ``__consumer_offsets``, in which brokers store the state of
groups.

A key and a value each begin with their version. The version of a key tells the kind of the record: 0 and 1
mean a committed offset, and 2 means the generation of a group. A record without a value deletes its key.
"""

from pyklient.protocol.schema import (
    EMPTY,
    Blob,
    Bytes,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
    tagged,
)

__all__ = ["GroupMetadataKey", "GroupMetadataValue", "OffsetCommitKey", "OffsetCommitValue"]


@message(versions=(0, 1))
class OffsetCommitKey(Blob):
    """The key of a committed offset: the group and the partition. Versions 0 and 1 have the same fields."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(versions=(0, 4), flexible=4)
class OffsetCommitValue(Blob):
    """An offset that a group has committed. Only version 1 has a time at which the offset expires."""

    offset: Int64 = 0
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = tagged(0, since=4, ignorable=True)


@message(versions=(2, 2))
class GroupMetadataKey(Blob):
    """The key of a group's generation."""

    group: String = ""


@message(versions=(0, 4), flexible=4)
class GroupMetadataValue(Blob):
    """A generation of a group: its protocol, and its members with their subscriptions and assignments.

    ``current_state_timestamp`` is the time at which the group got its present state.
    """

    @struct
    class MemberMetadata(Struct):
        member_id: String = ""
        group_instance_id: String | None = since(3, default=None, ignorable=True)
        client_id: String = ""
        client_host: String = ""
        rebalance_timeout: Int32 = since(1, ignorable=True)
        session_timeout: Int32 = 0
        subscription: Bytes = b""
        assignment: Bytes = b""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = None
    leader: String | None = None
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: list[MemberMetadata] = EMPTY
