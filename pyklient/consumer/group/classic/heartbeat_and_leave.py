"""Heartbeat and leave: the requests that a member sends to its group coordinator after it has joined."""

import logging
import time

from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event
from pyklient.error_codes import ErrorCode
from pyklient.errors import UnsupportedVersionError, broker_error
from pyklient.log_events import log_fields
from pyklient.net.connection_pool import Purpose
from pyklient.net.dialogue import Dialogue, Pause
from pyklient.protocol.messages import HeartbeatRequest, LeaveGroupRequest

__all__ = ["heartbeat", "leave", "wait_or_raise"]

log = logging.getLogger("pyklient.consumer")


def heartbeat(member: Member) -> Dialogue[Event | None]:
    """Tell the group coordinator that *member* is alive.

    Return the event that follows from the response, such as Event.LOST, or None if nothing has changed.
    """
    request = HeartbeatRequest(
        group_id=member.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    sent_at = time.monotonic()
    response = yield from member.coordinator.ask(request)
    match response.error_code:
        case ErrorCode.NONE:
            member.confirmed_at = sent_at
            return None
        case ErrorCode.REBALANCE_IN_PROGRESS:
            member.confirmed_at = sent_at
            return Event.REJOIN
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
            log.warning(
                "group %s has removed member %s, which joins again: no heartbeat reached the group "
                "coordinator for session_timeout_ms=%d, or the member took longer than "
                "rebalance_timeout_ms=%d to give its partitions back",
                member.group_id,
                member.member_id,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                extra=log_fields("member_removed", group=member.group_id, member=member.member_id),
            )
            member.forget(response.error_code)
            return Event.LOST
        case _:
            yield from wait_or_raise(member, response.error_code, "send a heartbeat to")
            return None


def leave(member: Member, reason: str) -> Dialogue[None]:
    """Tell the group coordinator that *member* leaves, so that the group need not wait for the session
    time-out. The coordinator logs the text *reason* (KIP-800).

    A static member sends nothing, because it may come back within its session time-out (KIP-345).
    """
    if not member.member_id or member.instance_id is not None:
        return
    leaving = LeaveGroupRequest.MemberIdentity(member_id=member.member_id, reason=reason)
    request = LeaveGroupRequest(group_id=member.group_id, members=[leaving])
    try:
        yield from member.coordinator.ask(request, purpose=Purpose.OTHER)
    except UnsupportedVersionError:
        request = LeaveGroupRequest(group_id=member.group_id, member_id=member.member_id)
        yield from member.coordinator.ask(request, purpose=Purpose.OTHER)
    member.forget()


def wait_or_raise(member: Member, code: int, doing: str) -> Dialogue[None]:
    """Handle the error *code* of a response. Wait if another attempt may succeed. Otherwise raise the error.

    If the coordinator has moved, the next attempt looks up the new coordinator. *doing* is the verb for the
    failed action, such as "join".
    """
    hint = ""
    if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        member.coordinator.forget()
    elif code == ErrorCode.FENCED_INSTANCE_ID:
        hint = (
            f" (another process has joined as group_instance_id={member.instance_id!r}; "
            "give each process its own)"
        )
    elif code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        offered = ", ".join(repr(assignor.name) for assignor in member.assignors)
        hint = (
            f" (the group does not use {offered}; set partition_assignment_strategy to what the "
            "other members use)"
        )
    error = broker_error(code, f"cannot {doing} group {member.group_id}{hint}")
    if not error.retriable and code != ErrorCode.REBALANCE_IN_PROGRESS:
        raise error
    yield Pause(because=error)
