"""Members of groups: join, get an assignment, stay alive, leave."""

import asyncio
from functools import partial
from typing import TypeVar

from pyklient.broker.api_errors import Refusal
from pyklient.broker.groups.member import JoinAsked, Joined, Synced
from pyklient.broker.handlers.request_context import Call
from pyklient.broker.node import Node
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

_KNOWN_ID = 4
_SEVERAL_LEAVE = 3
_NULL_PROTOCOL = 7
_SKIP_ASSIGNMENT = 9

_T = TypeVar("_T")


def _resolve(future: "asyncio.Future[_T]", value: _T) -> None:
    if not future.done():
        future.set_result(value)


async def join_group(node: Node, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    """Answered when the round of joining ends."""
    rebalance = request.rebalance_timeout_ms  # -1 in version 0, which has the session time-out for both
    asked = JoinAsked(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=f"/{call.client_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance if rebalance > 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=[(protocol.name, protocol.metadata) for protocol in request.protocols],
        needs_known_id=call.version >= _KNOWN_ID,
        can_skip_assignment=call.version >= _SKIP_ASSIGNMENT,
    )
    answered: asyncio.Future[Joined] = node.loop.create_future()
    node.coordinator.join(request.group_id, asked, partial(_resolve, answered))
    joined = await answered
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if joined.protocol or call.version >= _NULL_PROTOCOL else "",
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


async def sync_group(node: Node, request: SyncGroupRequest, _: Call) -> SyncGroupResponse:
    """Answered when the leader has sent the assignment."""
    answered: asyncio.Future[Synced] = node.loop.create_future()
    node.coordinator.sync(
        request.group_id,
        (request.member_id, request.group_instance_id, request.generation_id),
        (request.protocol_type, request.protocol_name),
        {one.member_id: one.assignment for one in request.assignments},
        partial(_resolve, answered),
    )
    synced = await answered
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def heartbeat(node: Node, request: HeartbeatRequest, _: Call) -> HeartbeatResponse:
    """A member lives; it learns here that it has to join again."""
    try:
        group = node.coordinator.member_group(request.group_id)
        group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    except Refusal as refusal:
        return HeartbeatResponse(error_code=refusal.code)
    return HeartbeatResponse()


def leave_group(node: Node, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    """Members go, each with an answer of its own from version 3 on."""
    if call.version < _SEVERAL_LEAVE:
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
    node: Node, group_id: str, member_id: str, instance_id: str | None, reason: str | None
) -> ErrorCode:
    try:
        node.coordinator.member_group(group_id).leave(member_id, instance_id, reason)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE
