"""The requests and responses of group members: join, get an assignment, send heartbeats, leave."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Blob,
    Boolean,
    Bytes,
    Int16,
    Int32,
    String,
    Struct,
    always,
    message,
    since,
    struct,
    until,
)

__all__ = [
    "JoinGroupRequest",
    "JoinGroupResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
]


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest(ApiMessage):
    """Ask to become or stay a member of a group. Each protocol in the request contains the member's
    subscription."""

    @struct
    class JoinGroupRequestProtocol(Struct):
        name: String = ""
        metadata: Bytes = b""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: String | None = since(5, default=None)
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = EMPTY
    reason: String | None = since(8, default=None, ignorable=True)


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupResponse(ApiMessage):
    """Tell a member the new generation of the group.

    Only the leader of the group gets the list of members. It then assigns partitions to them.
    """

    @struct
    class JoinGroupResponseMember(Struct):
        member_id: String = ""
        group_instance_id: String | None = since(5, default=None, ignorable=True)
        metadata: Bytes = b""

    throttle_time_ms: Int32 = since(2, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = since(7, default=None, ignorable=True)
    protocol_name: String | None = always(nullable_since=7)
    leader: String = ""
    skip_assignment: Boolean = since(9)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = EMPTY


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest(ApiMessage):
    """Ask for the assignment of a member. The request of the group's leader contains the assignments of all
    members."""

    @struct
    class SyncGroupRequestAssignment(Struct):
        member_id: String = ""
        assignment: Bytes = b""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = since(3, default=None)
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = EMPTY


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupResponse(ApiMessage):
    """The assignment of the member that has sent the request."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    # librdkafka's mock cluster sends null beside an error.
    assignment: Bytes = always(null_is_empty=True)


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest(ApiMessage):
    """Tell the group coordinator that a member is alive."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = since(3, default=None)


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse(ApiMessage):
    """The response to a heartbeat: no error, or 27 (REBALANCE_IN_PROGRESS) if the member must join again."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest(ApiMessage):
    """Leave a group at once, before the session times out. From version 3 on, one request can remove several
    members."""

    @struct
    class MemberIdentity(Struct):
        member_id: String = since(3)
        group_instance_id: String | None = since(3, default=None)
        reason: String | None = since(5, default=None, ignorable=True)

    group_id: String = ""
    member_id: String = until(2)
    members: list[MemberIdentity] = since(3)


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse(ApiMessage):
    """The result of leaving the group; from version 3 on, for each member."""

    @struct
    class MemberResponse(Struct):
        member_id: String = since(3)
        group_instance_id: String | None = since(3)
        error_code: Int16 = since(3)

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = since(3)


@message(versions=(0, 3))
class ConsumerProtocolSubscription(Blob):
    """The subscription of a consumer: its topics, and from version 1 on the partitions that it owns
    (KIP-429)."""

    @struct
    class TopicPartition(Struct):
        topic: String = since(1)
        partitions: list[Int32] = since(1)

    topics: list[String] = EMPTY
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: String | None = since(3, default=None, ignorable=True)


@message(versions=(0, 3))
class ConsumerProtocolAssignment(Blob):
    """The assignment of a consumer: its partitions, by topic."""

    @struct
    class TopicPartition(Struct):
        topic: String = ""
        partitions: list[Int32] = EMPTY

    assigned_partitions: list[TopicPartition] = EMPTY
    user_data: Bytes | None = None
