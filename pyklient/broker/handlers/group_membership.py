"""The handlers of JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

import asyncio
from functools import partial
from typing import TypeVar

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.member import JoinRequest, JoinResult, SyncRequest, SyncResult
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = ["heartbeat", "join_group", "leave_group", "sync_group"]

_KNOWN_MEMBER_ID = 4
_SEVERAL_MEMBERS = 3
_NULL_PROTOCOL = 7
_SKIP_ASSIGNMENT = 9

_T = TypeVar("_T")


def _resolve(future: "asyncio.Future[_T]", value: _T) -> None:
    if not future.done():
        future.set_result(value)


async def join_group(
    node: NodeState, request: JoinGroupRequest, context: RequestContext
) -> JoinGroupResponse:
    """Let the client join a group. The response is sent when all members of the group have joined."""
    rebalance_ms = request.rebalance_timeout_ms  # -1 in version 0: the session time-out is used for both
    join = JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_ms if rebalance_ms > 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=[(protocol.name, protocol.metadata) for protocol in request.protocols],
        requires_known_member_id=context.version >= _KNOWN_MEMBER_ID,
        supports_skipping_assignment=context.version >= _SKIP_ASSIGNMENT,
    )
    try:
        coordinator = node.group_coordinator_of(request.group_id)
    except ApiError as error:
        return JoinGroupResponse(error_code=error.code, member_id=request.member_id, protocol_name="")
    answered: asyncio.Future[JoinResult] = node.loop.create_future()
    coordinator.join(request.group_id, join, partial(_resolve, answered))
    joined = await answered
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if joined.protocol or context.version >= _NULL_PROTOCOL else "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member_id, group_instance_id=instance_id, metadata=metadata
            )
            for member_id, instance_id, metadata in joined.members
        ],
    )


async def sync_group(node: NodeState, request: SyncGroupRequest, _: RequestContext) -> SyncGroupResponse:
    """Return the member's assignment. The response is sent when the leader of the group has sent the
    assignments."""
    try:
        coordinator = node.group_coordinator_of(request.group_id)
    except ApiError as error:
        return SyncGroupResponse(error_code=error.code)
    answered: asyncio.Future[SyncResult] = node.loop.create_future()
    coordinator.sync(
        request.group_id,
        SyncRequest(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            {one.member_id: one.assignment for one in request.assignments},
        ),
        partial(_resolve, answered),
    )
    synced = await answered
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def heartbeat(node: NodeState, request: HeartbeatRequest, _: RequestContext) -> HeartbeatResponse:
    """Keep a member's session alive. The error code of the response tells the member if it has to join
    again."""
    try:
        group = node.group_coordinator_of(request.group_id).group_of_member(request.group_id)
        group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    except ApiError as error:
        if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()  # as in Kafka: the member stays until the broker knows the group
        return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse()


def leave_group(node: NodeState, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Remove a member from its group. From version 3 on, a request can name several members, and each gets
    its own error code."""
    if context.version < _SEVERAL_MEMBERS:
        return LeaveGroupResponse(error_code=_leave(node, request.group_id, request.member_id, None, None))
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=_leave(node, request.group_id, one.member_id, one.group_instance_id, one.reason),
            )
            for one in request.members
        ]
    )


def _leave(
    node: NodeState, group_id: str, member_id: str, instance_id: str | None, reason: str | None
) -> ErrorCode:
    try:
        node.group_coordinator_of(group_id).group_of_member(group_id).leave(member_id, instance_id, reason)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE
