"""Join and sync: how a member takes part in the next generation of its group and gets its partitions.

The dialogues do no I/O themselves, so that tests can run them without a broker. Their results are kept in the
:class:`Member`.
"""

import logging
import time
from collections.abc import Iterable

from pyklient.assignors.assignor import Assignor, LastAssignment
from pyklient.config import ConsumerConfig
from pyklient.consumer.group.classic.heartbeat_and_leave import wait_or_raise
from pyklient.consumer.group.classic.leader import assign_all
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event, State
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError
from pyklient.net.dialogue import Dialogue, Pause
from pyklient.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from pyklient.topic_partition import TopicPartition, numbers_by_topic

__all__ = ["join"]

log = logging.getLogger("pyklient.consumer")

_PROTOCOL_TYPE = "consumer"
_FIRST_WITH_INSTANCE_ID = 5
"""The first version of JoinGroup with static members (KIP-345)."""
_DEFAULT_SESSION_TIMEOUT_MS = ConsumerConfig.session_timeout_ms
_SESSION_TIMEOUT_BEFORE_0_10_1_MS = 30_000
"""The longest session time-out that brokers before Kafka 0.10.1 allow by default."""
_ANSWER_MARGIN = 5.0  # Java's: the coordinator answers at its rebalance time-out, not before


def join(member: Member, reason: str) -> Dialogue[list[TopicPartition] | None]:
    """Take part in the next generation of the group, and return the partitions that *member* gets in it. The
    group coordinator logs the text *reason* (KIP-800).

    Return None if the member kept partitions while it joined, and has lost them because the group has removed
    it.

    If an error is temporary, try again. Otherwise raise it, for instance if the group does not accept the
    member, if the group uses other assignors, or if another process has taken over the ``group_instance_id``.
    """
    kept = bool(member.owned)
    while True:
        try:
            joined = yield from _join(member, reason)
            if joined is not None:
                assignment = yield from _sync(member, joined)
                if assignment is not None:
                    member.on(Event.ASSIGNED)
                    return assignment
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info(
                "group %s: this member tries to join again, because of an error: %s", member.group_id, error
            )
            yield Pause(because=error)
        if member.state is State.SYNCING:
            member.on(Event.REJOIN)
        if kept and not member.owned:
            return None


def _join(member: Member, reason: str) -> Dialogue[JoinGroupResponse | None]:
    """Send one request to join to the coordinator, which logs the text *reason* (KIP-800).

    Return the response if a generation with *member* has begun. Return None if the member has to try again.
    """
    request = JoinGroupRequest(
        group_id=member.group_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=_PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(
                name=assignor.name, metadata=_subscription(member, assignor)
            )
            for assignor in member.assignors
        ],
        reason=reason,
    )
    timeout = member.rebalance_timeout_ms / 1000 + _ANSWER_MARGIN
    response: JoinGroupResponse = yield from member.coordinator.ask(
        request, timeout=timeout, min_version=0 if member.instance_id is None else _FIRST_WITH_INSTANCE_ID
    )
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
        case ErrorCode.INVALID_SESSION_TIMEOUT if member.session_timeout_ms == _DEFAULT_SESSION_TIMEOUT_MS:
            log.warning(
                "group %s: the brokers do not allow session_timeout_ms=%d; the member uses %d instead",
                member.group_id,
                _DEFAULT_SESSION_TIMEOUT_MS,
                _SESSION_TIMEOUT_BEFORE_0_10_1_MS,
            )
            member.session_timeout_ms = _SESSION_TIMEOUT_BEFORE_0_10_1_MS
        case _:
            yield from wait_or_raise(member, response.error_code, "join")
    return None


def _sync(member: Member, joined: JoinGroupResponse) -> Dialogue[list[TopicPartition] | None]:
    """Fetch the partitions of *member*. *joined* is the response to its request to join. If the member is the
    leader of its group, first assign partitions to all members.

    Return None if the member has to join again.
    """
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=_PROTOCOL_TYPE,
        protocol_name=joined.protocol_name,
    )
    member.watched = None
    if joined.leader == joined.member_id:
        request.assignments = yield from assign_all(member, joined)
    timeout = member.rebalance_timeout_ms / 1000 + _ANSWER_MARGIN
    sent_at = time.monotonic()
    response = yield from member.coordinator.ask(request, timeout=timeout)
    match response.error_code:
        case ErrorCode.NONE:
            member.confirmed_at = sent_at
            partitions = _partitions(response.assignment)
            member.last = LastAssignment(partitions, member.generation)
            return partitions
        case ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
            member.forget(response.error_code)
            return None
        case _:
            yield from wait_or_raise(member, response.error_code, "sync with")
            return None


def _subscription(member: Member, assignor: Assignor) -> bytes:
    """Return the subscription that *member* sends for *assignor* when it joins: its topics, user data,
    partitions and rack."""
    topics = frozenset(member.topics)
    return ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=_user_data(member, assignor, topics),
        owned_partitions=_owned(member.owned),
        generation_id=member.generation,
        rack_id=member.rack,
    ).encode_blob()


def _user_data(member: Member, assignor: Assignor, topics: frozenset[str]) -> bytes | None:
    """Return the user data that *assignor* adds to a member's subscription to *topics*. Raises KafkaError if
    the assignor, which may be a part of the application, fails."""
    try:
        data = assignor.user_data(topics, member.last)
        if not isinstance(data, bytes | bytearray | memoryview | None):
            raise TypeError(f"user_data() returned {type(data).__name__}, not bytes or None")
    except BaseException as error:  # also sys.exit(), which would only end this thread
        raise KafkaError(
            f"the assignor {assignor.name!r} could not make its user data: {error!r}; "
            f"correct its method {type(assignor).__name__}.user_data()"
        ) from error
    return data


def _owned(partitions: Iterable[TopicPartition]) -> list[ConsumerProtocolSubscription.TopicPartition]:
    return [
        ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in numbers_by_topic(sorted(partitions)).items()
    ]


def _partitions(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []  # a member that the leader did not know of
    decoded = ConsumerProtocolAssignment.decode_blob(assignment)
    return [
        TopicPartition(each.topic, partition)
        for each in decoded.assigned_partitions
        for partition in each.partitions
    ]
