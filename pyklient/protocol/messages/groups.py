"""The requests and responses for administering groups: describe, list and delete them."""

from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Boolean,
    Bytes,
    Int16,
    Int32,
    String,
    Struct,
    message,
    since,
    struct,
)

__all__ = [
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
]


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest(ApiMessage):
    """Ask a group coordinator for the state of groups."""

    groups: list[String] = EMPTY
    include_authorized_operations: Boolean = since(3)


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse(ApiMessage):
    """The state, the protocol and the members of each group."""

    @struct
    class DescribedGroup(Struct):
        @struct
        class DescribedGroupMember(Struct):
            member_id: String = ""
            group_instance_id: String | None = since(4, default=None, ignorable=True)
            client_id: String = ""
            client_host: String = ""
            member_metadata: Bytes = b""
            member_assignment: Bytes = b""

        error_code: Int16 = 0
        error_message: String | None = since(6, default=None)
        group_id: String = ""
        group_state: String = ""
        protocol_type: String = ""
        protocol_data: String = ""
        members: list[DescribedGroupMember] = EMPTY
        authorized_operations: Int32 = since(3, default=-0x80000000)

    DescribedGroupMember = DescribedGroup.DescribedGroupMember

    throttle_time_ms: Int32 = since(1, ignorable=True)
    groups: list[DescribedGroup] = EMPTY


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest(ApiMessage):
    """Ask a broker for the groups that it coordinates: all of them, or those of some states and types."""

    states_filter: list[String] = since(4)
    types_filter: list[String] = since(5)


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsResponse(ApiMessage):
    """The groups that the broker coordinates."""

    @struct
    class ListedGroup(Struct):
        group_id: String = ""
        protocol_type: String = ""
        group_state: String = since(4, ignorable=True)
        group_type: String = since(5, ignorable=True)

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = EMPTY


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest(ApiMessage):
    """Delete groups that have no members."""

    groups_names: list[String] = EMPTY


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse(ApiMessage):
    """The result of deleting each group."""

    @struct
    class DeletableGroupResult(Struct):
        group_id: String = ""
        error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = EMPTY
