"""The handlers of DescribeGroups, ListGroups and DeleteGroups."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.states import GroupState
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
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

_ERROR_IF_MISSING = 6
_TYPE = "classic"


def describe_groups(
    node: NodeState, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    """Describe the groups that the request names.

    A group that does not exist gets the state Dead, and from version 6 on an error code too.
    """
    return DescribeGroupsResponse(
        groups=[_describe(node, group_id, context.version) for group_id in request.groups]
    )


def _describe(node: NodeState, group_id: str, version: int) -> DescribeGroupsResponse.DescribedGroup:
    try:
        group = node.group_coordinator_of(group_id).find(group_id)
    except ApiError as error:
        return DescribeGroupsResponse.DescribedGroup(
            error_code=error.code,
            error_message=error.message if version >= _ERROR_IF_MISSING else None,
            group_id=group_id,
        )
    if group is None:
        missing = version >= _ERROR_IF_MISSING
        return DescribeGroupsResponse.DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} not found." if missing else None,
            group_id=group_id,
            group_state=GroupState.DEAD,
        )
    has_protocol = group.state in (GroupState.STABLE, GroupState.COMPLETING)
    protocol = group.protocol or ""
    return DescribeGroupsResponse.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol if has_protocol else "",
        members=_members(group, protocol if has_protocol else ""),
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


def list_groups(node: NodeState, request: ListGroupsRequest, _: RequestContext) -> ListGroupsResponse:
    """List all groups, or only those with the states or types that the request names.

    If not all groups are loaded yet, the response has the loaded groups and an error.
    """
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    coordinator = node.group_coordinator
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if coordinator.loading else ErrorCode.NONE,
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state,
                group_type=_TYPE,
            )
            for group in coordinator.groups
            if (not states or group.state.lower() in states) and (not types or _TYPE in types)
        ],
    )


def delete_groups(node: NodeState, request: DeleteGroupsRequest, _: RequestContext) -> DeleteGroupsResponse:
    """Delete the groups that the request names, with their committed offsets. A group that has members gets
    an error."""
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=_delete(node, group_id))
            for group_id in request.groups_names
        ]
    )


def _delete(node: NodeState, group_id: str) -> ErrorCode:
    try:
        node.group_coordinator_of(group_id).delete(group_id)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE
