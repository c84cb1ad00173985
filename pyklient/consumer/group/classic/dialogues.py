"""What a member and its coordinator say to each other: join and sync, heartbeat, leave.

Each is a conversation: it yields what to ask and is resumed with the answer, so it runs the same over
sockets and over a list of answers. What is learned on the way is kept in the :class:`Member`.
"""

import logging
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from pyklient.consumer.group.assignors import ASSIGNORS, Subscriber
from pyklient.consumer.group.classic.states import Event, State, next_state
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, ProtocolError, UnsupportedVersionError, broker_error
from pyklient.net.dialogue import Ask, Dialogue, Pause, Refresh
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.net.metadata import Metadata
from pyklient.net.pool import Purpose
from pyklient.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pyklient.protocol.schema import ApiMessage
from pyklient.topic_partition import TopicPartition

__all__ = ["Member", "ask_coordinator", "heartbeat", "join", "leave"]

log = logging.getLogger("pyklient.consumer")

PROTOCOL_TYPE = "consumer"
_ANSWER_MARGIN = 5.0  # Java's: the coordinator answers at its rebalance time-out, not before


@dataclass(slots=True)
class Member:
    """Who we are in the group. Affected by the dialogues only, on the group thread; read by commits."""

    group_id: str
    instance_id: str | None
    strategy: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: Set[str] = frozenset()
    state: State = State.OUTSIDE
    member_id: str = ""
    generation: int = -1
    coordinator: int | None = None
    watched: Mapping[str, int] | None = None
    """Partition counts by which this member, as the leader, dealt; None where another member leads."""
    members: Set[str] = frozenset()
    """The group's members, as the leader was told last."""

    def on(self, event: Event) -> None:
        """Move through the table of states."""
        self.state = next_state(self.state, event)

    def forget(self, code: int = 0) -> None:
        """The next join is a newcomer's; after ILLEGAL_GENERATION a known member's, which is not waited for
        under its old name."""
        self.generation = -1
        if code != ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""


def ask_coordinator(
    member: Member,
    request: ApiMessage,
    *,
    timeout: float | None = None,
    purpose: Purpose = Purpose.GROUP,
    max_version: int | None = None,
) -> Dialogue[Any]:
    """Ask the group's coordinator, looking it up first if need be.

    After a failure of the network the coordinator counts as unknown, and the failure is raised.
    """
    if member.coordinator is None:
        member.coordinator = yield from find_coordinator(member.group_id)
    try:
        return (yield Ask(member.coordinator, request, purpose, timeout, max_version))
    except KafkaError as error:
        if error.retriable:
            member.coordinator = None
        raise


def join(member: Member, reason: str) -> Dialogue[list[TopicPartition]]:
    """Take part in the next generation and return the partitions that are ours in it.

    Goes on through everything that passes. Raises the broker's error where it does not: the group refuses
    us, speaks another protocol, or another process has taken our ``group_instance_id``.
    """
    while True:
        try:
            joined = yield from _enter(member, reason)
            if joined is not None:
                assignment = yield from _sync(member, joined)
                if assignment is not None:
                    member.on(Event.ASSIGNED)
                    return assignment
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info("group %s: cannot join yet, trying again: %s", member.group_id, error)
            yield Pause(because=error)
        if member.state is State.SYNCING:
            member.on(Event.REJOIN)


def heartbeat(member: Member) -> Dialogue[Event | None]:
    """Say that we are alive. → what that leads to; None when nothing has changed."""
    request = HeartbeatRequest(
        group_id=member.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    response = yield from ask_coordinator(member, request)
    match response.error_code:
        case ErrorCode.NONE:
            return None
        case ErrorCode.REBALANCE_IN_PROGRESS:
            return Event.REJOIN
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
            log.warning(
                "group %s has removed member %s: no heartbeat reached it for session_timeout_ms=%d, or the "
                "member took longer than rebalance_timeout_ms=%d to give its partitions back; joining again",
                member.group_id,
                member.member_id,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
            )
            member.forget(response.error_code)
            return Event.LOST
        case _:
            yield from _pass_or_raise(member, response.error_code, "heartbeat")
            return None


def leave(member: Member, reason: str) -> Dialogue[None]:
    """Tell the coordinator not to wait for our silence.

    A static member just falls silent: it may come back within its session time-out (KIP-345).
    """
    if not member.member_id or member.instance_id is not None:
        return
    leaving = LeaveGroupRequest.MemberIdentity(member_id=member.member_id, reason=reason)
    try:
        yield from ask_coordinator(
            member, LeaveGroupRequest(group_id=member.group_id, members=[leaving]), purpose=Purpose.OTHER
        )
    except UnsupportedVersionError:
        request = LeaveGroupRequest(group_id=member.group_id, member_id=member.member_id)
        yield from ask_coordinator(member, request, purpose=Purpose.OTHER)
    member.forget()


def _enter(member: Member, reason: str) -> Dialogue[JoinGroupResponse | None]:
    """Ask to join. → the answer once a generation has begun with us, None to try again."""
    subscription = ConsumerProtocolSubscription(topics=sorted(member.topics))
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(
        name=member.strategy, metadata=subscription.encode_blob(1)
    )
    request = JoinGroupRequest(
        group_id=member.group_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[protocol],
        reason=reason,
    )
    timeout = member.rebalance_timeout_ms / 1000 + _ANSWER_MARGIN
    response: JoinGroupResponse = yield from ask_coordinator(member, request, timeout=timeout)
    match response.error_code:
        case ErrorCode.NONE:
            member.member_id, member.generation = response.member_id, response.generation_id
            member.on(Event.JOINED)
            return response
        case ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the coordinator names a newcomer before it makes room for it
            member.member_id = response.member_id
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
            member.forget(response.error_code)
        case _:
            yield from _pass_or_raise(member, response.error_code, "join")
    return None


def _sync(member: Member, joined: JoinGroupResponse) -> Dialogue[list[TopicPartition] | None]:
    """Fetch our partitions, as the leader after dealing everybody's. → None to join again."""
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=joined.protocol_name,
    )
    member.watched = None
    if joined.leader == joined.member_id:
        request.assignments = yield from _plan(member, joined)
    timeout = member.rebalance_timeout_ms / 1000 + _ANSWER_MARGIN
    response = yield from ask_coordinator(member, request, timeout=timeout)
    match response.error_code:
        case ErrorCode.NONE:
            return _partitions(response.assignment)
        case ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
            member.forget(response.error_code)
            return None
        case _:
            yield from _pass_or_raise(member, response.error_code, "sync")
            return None


def _plan(
    member: Member, joined: JoinGroupResponse
) -> Dialogue[list[SyncGroupRequest.SyncGroupRequestAssignment]]:
    """What the leader does: look the topics up, deal their partitions, write everybody's part down."""
    subscribers = [
        Subscriber(each.member_id, _topics(each.member_id, each.metadata), each.group_instance_id)
        for each in joined.members
    ]
    _note_members(member, frozenset(each.member_id for each in subscribers))
    wanted = sorted(frozenset().union(*(each.topics for each in subscribers)))
    metadata: Metadata = yield Refresh(wanted)
    counts = {topic: metadata.partition_count(topic) for topic in wanted}
    member.watched = counts
    refused = metadata.refused(wanted)
    for error in refused.values():
        log.warning(
            "group %s: no partitions are assigned of a topic that is refused: %s", member.group_id, error
        )
    if missing := [topic for topic in wanted if not counts[topic] and topic not in refused]:
        log.warning("group %s: topics that do not exist yet: %s", member.group_id, ", ".join(missing))
    if joined.skip_assignment:
        # KIP-814: a static leader came back, and the group goes on with the assignment it has
        return []
    dealt = ASSIGNORS[joined.protocol_name or member.strategy](subscribers, counts)
    return [
        SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=_blob(partitions))
        for member_id, partitions in dealt.items()
    ]


def _note_members(member: Member, names: Set[str]) -> None:
    """As the leader: say who has come and who has gone since."""
    come, gone = sorted(names - member.members), sorted(member.members - names)
    log.info(
        "group %s, generation %d: this member leads %d; new: %s; gone: %s",
        member.group_id,
        member.generation,
        len(names),
        ", ".join(come) or "none",
        ", ".join(gone) or "none",
    )
    member.members = names


def _topics(member_id: str, metadata: bytes) -> frozenset[str]:
    try:
        return frozenset(ConsumerProtocolSubscription.decode_blob(metadata).topics)
    except ProtocolError as error:
        log.warning("member %s gets no partitions, its subscription is unreadable: %s", member_id, error)
        return frozenset()


def _blob(partitions: list[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    assigned = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in by_topic.items()
    ]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).encode_blob(1)


def _partitions(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []  # a member that the leader did not know of
    decoded = ConsumerProtocolAssignment.decode_blob(assignment)
    return [
        TopicPartition(each.topic, partition)
        for each in decoded.assigned_partitions
        for partition in each.partitions
    ]


def _pass_or_raise(member: Member, code: int, doing: str) -> Dialogue[None]:
    """Wait where trying again may help, and look for the coordinator again where it has moved."""
    hint = ""
    if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        member.coordinator = None
    elif code == ErrorCode.FENCED_INSTANCE_ID:
        hint = (
            f" (another process has joined as group_instance_id={member.instance_id!r}; "
            "give each process its own)"
        )
    elif code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        hint = (
            f" (it does not deal by {member.strategy!r}; set partition_assignment_strategy to what the "
            "other members use)"
        )
    error = broker_error(code, f"group {member.group_id}, {doing}{hint}")
    if not error.retriable and code != ErrorCode.REBALANCE_IN_PROGRESS:
        raise error
    yield Pause(because=error)
