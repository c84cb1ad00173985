"""Groups as an administrator sees them."""

from pyklient.broker.api_errors import Refusal
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.states import GroupState
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

__all__ = ["delete_groups", "describe_groups", "list_groups"]

_NOT_FOUND_IS_AN_ERROR = 6
_KIND = "classic"


def describe_groups(node: Node, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    """State, protocol and members; a group that does not exist is Dead, from version 6 on an error too."""
    return DescribeGroupsResponse(
        groups=[_describe(node, group_id, call.version) for group_id in request.groups]
    )


def _describe(node: Node, group_id: str, version: int) -> DescribeGroupsResponse.DescribedGroup:
    group = node.coordinator.find(group_id)
    if group is None:
        missing = version >= _NOT_FOUND_IS_AN_ERROR
        return DescribeGroupsResponse.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} not found." if missing else None,
            group_id=group_id,
            group_state=GroupState.DEAD,
        )
    settled = group.state in (GroupState.STABLE, GroupState.COMPLETING)
    protocol = group.protocol or ""
    return DescribeGroupsResponse.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol if settled else "",
        members=_members(group, protocol if settled else ""),
    )


def _members(group: Group, protocol: str) -> list[DescribeGroupsResponse.DescribedGroup.DescribedGroupMember]:
    return [
        DescribeGroupsResponse.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata_for(protocol),
            member_assignment=member.assignment if protocol else b"",
        )
        for member in group.members.values()
    ]


def list_groups(node: Node, request: ListGroupsRequest, _: Call) -> ListGroupsResponse:
    """All groups, or those in certain states or of certain kinds."""
    states = {state.lower() for state in request.states_filter}
    kinds = {kind.lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state,
                group_type=_KIND,
            )
            for group in node.coordinator.groups
            if (not states or group.state.lower() in states) and (not kinds or _KIND in kinds)
        ]
    )


def delete_groups(node: Node, request: DeleteGroupsRequest, _: Call) -> DeleteGroupsResponse:
    """Groups without members go, and their positions with them."""
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=_delete(node, group_id))
            for group_id in request.groups_names
        ]
    )


def _delete(node: Node, group_id: str) -> ErrorCode:
    try:
        node.coordinator.delete(group_id)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE
