"""A consumer group: its generation, its protocol and its rebalances, as a state machine without I/O.

``states`` defines the states, and ``group_members`` stores the members. If a member must wait for a response,
the callback that sends the response is stored with the member. Time-outs are started on a ``Timers`` object.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from uuid import uuid4

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.group_members import GroupMembers
from pyklient.broker.groups.member import JoinRequest, JoinResult, Member, SyncRequest, SyncResult
from pyklient.broker.groups.states import TRANSITIONS, Event, GroupState
from pyklient.broker.groups.timers import InitialDelay, MovableDeadline, PendingMembers, Timers
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode

__all__ = ["Group"]

_logger = logging.getLogger("pyklient.broker")


class Group:
    """A consumer group that this node coordinates. Only the thread of the broker's event loop may use it.

    ``on_generation(group)`` is called when a generation is complete, so that the generation can be stored.
    """

    def __init__(
        self,
        group_id: str,
        timers: Timers,
        *,
        initial_delay_ms: int,
        max_size: int,
        on_generation: Callable[["Group"], object],
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = GroupMembers()
        self._timers = timers
        self._max_size = max_size
        self._on_generation = on_generation
        self._pending = PendingMembers(timers, self._complete_join_if_all_joined)
        self._unsynced: set[str] = set()
        self._deadline = MovableDeadline(timers)
        self._initial_delay = InitialDelay(initial_delay_ms)

    @property
    def idle(self) -> bool:
        """True if the group has no members, and no client has a member id with which it may still join."""
        return self.state is GroupState.EMPTY and not self._pending

    def join(self, request: JoinRequest, answer: Callable[[JoinResult], object]) -> None:
        """Add a client, or let a member join again. Call *answer* with the response: after all members have
        joined, or at once if it is an error."""
        try:
            self.members.check_protocols(request, self.protocol_type)
            if request.member_id:
                self._join_again(request, answer)
            else:
                self._join_new(request, answer)
        except ApiError as error:
            answer(JoinResult(error.code, request.member_id))

    def _join_new(self, request: JoinRequest, answer: Callable[[JoinResult], object]) -> None:
        member_id = f"{request.instance_id or request.client_id}-{uuid4()}"
        static = self.members.static_member(request.instance_id)
        if static is not None:
            self._replace_static(static, request.new_member(member_id), request, answer)
            return
        if len(self.members) + len(self._pending) >= self._max_size:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {self.group_id!r} already has {counted(self._max_size, 'member')}",
            )
        if request.requires_known_member_id and request.instance_id is None:
            self._pending.add(member_id, request.session_timeout_ms)
            answer(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        self._add(request, member_id, answer)

    def _join_again(self, request: JoinRequest, answer: Callable[[JoinResult], object]) -> None:
        if self._pending.discard(request.member_id):
            self._add(request, request.member_id, answer)
            return
        member = self.members.identify(request.member_id, request.instance_id)
        changed = member.protocols != request.protocols
        follower = self.state is GroupState.STABLE and member.member_id != self.members.leader_id
        if not changed and (follower or self.state is GroupState.COMPLETING):
            self.restart_session(member)
            answer(_join_result(self, member))
            return
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        self._await_join(member, answer)

    def _add(self, request: JoinRequest, member_id: str, answer: Callable[[JoinResult], object]) -> None:
        if not self.members:
            self.protocol_type = request.protocol_type
        member = request.new_member(member_id)
        self.members.add(member)
        self._initial_delay.member_joined()
        self._await_join(member, answer)

    def _await_join(self, member: Member, answer: Callable[[JoinResult], object]) -> None:
        member.reply_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.answer_join = answer
        self.restart_session(member)
        self._rebalance()

    def _replace_static(
        self, old: Member, new: Member, request: JoinRequest, answer: Callable[[JoinResult], object]
    ) -> None:
        """Replace *old* by *new*, which is the same static member after a restart, with a new member id.

        As in Kafka, there is no rebalance if the group would choose the same protocol again, even if *new*
        subscribes to other topics.
        """
        previous_leader = self.members.leader_id or ""
        old.stop_session()
        old.reply_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
        old.reply_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        new.assignment = old.assignment
        self.members.replace(old, new)
        self._unsynced.discard(old.member_id)
        protocol = self.protocol or ""
        if self.state is not GroupState.STABLE or self.members.select_protocol() != protocol:
            self._await_join(new, answer)
            return
        self.restart_session(new)
        result = _join_result(self, new)
        if request.supports_skipping_assignment:
            answer(result._replace(skip_assignment=new.member_id == self.members.leader_id))
        else:  # The leader always assigns the partitions, so the response names another member.
            answer(result._replace(leader=previous_leader, members=()))
        self._on_generation(self)

    def _rebalance(self) -> None:
        if self.state is not GroupState.PREPARING:
            was_empty = self.state is GroupState.EMPTY
            for member in self.members.values():
                member.reply_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
            self._unsynced.clear()
            self._apply(Event.CHANGE)
            if was_empty and self._initial_delay.start(self.members.longest_rebalance_timeout_ms()):
                self._continue_initial_delay()
                return
            self._deadline.set(self.members.longest_rebalance_timeout_ms(), self._complete_join)
        self._complete_join_if_all_joined()

    def _continue_initial_delay(self) -> None:
        delay_ms = self._initial_delay.next_ms()
        if delay_ms:
            self._deadline.set(delay_ms, self._continue_initial_delay)
        else:
            self._complete_join()

    def _complete_join_if_all_joined(self) -> None:
        joined = all(member.answer_join is not None for member in self.members.values())
        if (
            self.state is GroupState.PREPARING
            and joined
            and not self._pending
            and not self._initial_delay.active
        ):
            self._complete_join()

    def _complete_join(self) -> None:
        self._deadline.cancel()
        late = [m for m in self.members.values() if m.answer_join is None and m.instance_id is None]
        for member in late:
            self._remove(member, f"it did not join again within {member.rebalance_timeout_ms} ms")
        joined = [member for member in self.members.values() if member.answer_join is not None]
        if self.members and not joined:
            self._deadline.set(self.members.longest_rebalance_timeout_ms(), self._complete_join)
            return
        self.generation += 1
        if not self.members:
            self.protocol = None
            self._apply(Event.ALL_LEFT)
            self._on_generation(self)
            return
        leader_id = self.members.leader_id
        if leader_id is None or self.members[leader_id].answer_join is None:
            self.members.leader_id = joined[0].member_id
        self.protocol = self.members.select_protocol()
        self._apply(Event.ALL_JOINED)
        self._unsynced = set(self.members)
        self._deadline.set(self.members.longest_rebalance_timeout_ms(), self._remove_unsynced)
        for member in self.members.values():
            member.assignment = b""
            self.restart_session(member)
            member.reply_join(_join_result(self, member))

    def sync(self, request: SyncRequest, answer: Callable[[SyncResult], object]) -> None:
        """Call *answer* with the assignment of the member that sent *request*, as soon as the group's leader
        has sent all assignments. After an error, call *answer* with the error code at once."""
        try:
            member = self.verify(request.member_id, request.instance_id, request.generation)
            _check_protocol(self, request)
            if self.state is GroupState.PREPARING:
                raise _rebalancing(self)
        except ApiError as error:
            answer(SyncResult(error.code))
            return
        self._unsynced.discard(member.member_id)
        self.restart_session(member)
        if self.state is GroupState.STABLE:
            answer(_sync_result(self, member))
            return
        member.reply_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.answer_sync = answer
        if member.member_id == self.members.leader_id:
            self._assign(request.assignments)

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._apply(Event.ASSIGNED)
        self._on_generation(self)
        for member in self.members.values():
            if member.answer_sync is not None:
                self.restart_session(member)
                member.reply_sync(_sync_result(self, member))

    def _remove_unsynced(self) -> None:
        for member_id in [member_id for member_id in self._unsynced if member_id in self.members]:
            self._remove(self.members[member_id], "it joined, but never asked for its assignment")
            self._rebalance()

    def verify(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        """Return the member with *member_id*. Raises ApiError if the group has no such member, or if
        *generation* is not its present generation."""
        member = self.members.identify(member_id, instance_id)
        if generation != self.generation:
            raise ApiError(
                ErrorCode.ILLEGAL_GENERATION,
                f"the request has generation {generation}, but the group is at generation {self.generation}",
            )
        return member

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Restart a member's session time-out. Raises ApiError if the member must join again."""
        self.restart_session(self.verify(member_id, instance_id, generation))
        if self.state is GroupState.PREPARING:
            raise _rebalancing(self)

    def leave(self, member_id: str, instance_id: str | None, reason: str | None = None) -> None:
        """Remove a member that leaves the group. Raises ApiError if the group has no such member."""
        if self._pending.discard(member_id):
            self._complete_join_if_all_joined()
            return
        self._remove(self.members.identify(member_id, instance_id), reason or "it left")
        self._rebalance()

    def restart_session(self, member: Member) -> None:
        """Restart the session time-out of *member*, because the member has just shown that it is alive."""
        member.stop_session()
        member.session = self._timers.call_later(
            member.session_timeout_ms / 1000, partial(self._session_expired, member)
        )

    def _session_expired(self, member: Member) -> None:
        member.session = None
        if member.answer_join is not None or member.answer_sync is not None:
            self.restart_session(member)  # A member that waits for a response sends no heartbeats.
            return
        self._remove(member, f"no heartbeat for {member.session_timeout_ms} ms")
        self._rebalance()

    def _remove(self, member: Member, reason: str) -> None:
        _logger.info("group %s: member %s was removed: %s", self.group_id, member.member_id, reason)
        member.stop_session()
        member.reply_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        member.reply_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove(member)
        self._unsynced.discard(member.member_id)

    def delete(self) -> None:
        """Delete the group. Raises ApiError (NON_EMPTY_GROUP) if it has members."""
        if (self.state, Event.DELETED) not in TRANSITIONS:
            raise ApiError(
                ErrorCode.NON_EMPTY_GROUP,
                f"group {self.group_id!r} cannot be deleted, because it has members",
            )
        self.stop()
        self._apply(Event.DELETED)

    def restore(
        self,
        members: Iterable[Member],
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        leader_id: str | None,
    ) -> None:
        """Give the group the members and the generation that were stored before the broker was restarted.

        A member is removed if it does not return within its session time-out.
        """
        self.generation, self.protocol_type = generation, protocol_type
        for member in members:
            self.members.add(member)
            self.restart_session(member)
        if self.members:
            self.protocol, self.members.leader_id = protocol, leader_id
            self.state = GroupState.STABLE

    def stop(self) -> None:
        """Stop all timers of the group. Members that wait for a response will get none."""
        self._deadline.cancel()
        self._pending.clear()
        for member in self.members.values():
            member.stop_session()

    def _apply(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]


def _rebalancing(group: Group) -> ApiError:
    return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group.group_id!r} is rebalancing; join again")


def _join_result(group: Group, member: Member) -> JoinResult:
    leads = member.member_id == group.members.leader_id
    return JoinResult(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.members.leader_id or "",
        group.members.subscriptions(group.protocol or "") if leads else (),
    )


def _sync_result(group: Group, member: Member) -> SyncResult:
    return SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)


def _check_protocol(group: Group, request: SyncRequest) -> None:
    pairs = ((request.protocol_type, group.protocol_type), (request.protocol, group.protocol))
    if any(given is not None and given != chosen for given, chosen in pairs):
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the group uses the protocol {group.protocol!r} (of the type {group.protocol_type!r}), but the "
            "request names another protocol or another type",
        )
