"""One consumer group: who is in it, which generation, which protocol; as a state machine without I/O.

The states stand in ``group_states``. Answers that have to wait are callbacks kept with their member; time
comes in as a ``Timers``.
"""

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from uuid import uuid4

from pyklient.broker.api_errors import Refusal
from pyklient.broker.groups.member import Cancellable, JoinAsked, Joined, Member, Synced, Timers
from pyklient.broker.groups.states import TRANSITIONS, Event, GroupState
from pyklient.error_codes import ErrorCode

__all__ = ["Group"]

_logger = logging.getLogger("pyklient.broker")


class Group:
    """Owned by the coordinator, called on the broker's loop only.

    ``on_change(group)`` is called after a generation is settled, so that it can be kept.
    """

    def __init__(
        self,
        group_id: str,
        timers: Timers,
        *,
        initial_delay_ms: int,
        max_size: int,
        on_change: Callable[["Group"], object],
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self._timers = timers
        self._initial_delay_ms = initial_delay_ms
        self._max_size = max_size
        self._on_change = on_change
        self._static: dict[str, str] = {}
        self._pending: dict[str, Cancellable] = {}
        self._unsynced: set[str] = set()
        self._deadline: Cancellable | None = None
        self._gathering = False
        self._gathering_ms = 0
        self._newcomer = False

    @property
    def idle(self) -> bool:
        """Nobody is in it, and nobody is about to be."""
        return self.state is GroupState.EMPTY and not self._pending

    # Joining

    def join(self, asked: JoinAsked, answer: Callable[[Joined], object]) -> None:
        """Admit a member, or take it up again. *answer* is called now, or when the round of joining ends."""
        try:
            self._check_protocols(asked)
            if asked.member_id:
                self._join_known(asked, answer)
            else:
                self._join_new(asked, answer)
        except Refusal as refusal:
            answer(Joined(refusal.code, asked.member_id))

    def _check_protocols(self, asked: JoinAsked) -> None:
        others = [member for member in self.members.values() if member.member_id != asked.member_id]
        names = {name for name, _ in asked.protocols}
        for member in others:
            names &= {name for name, _ in member.protocols}
        if not names or not asked.protocol_type or (others and asked.protocol_type != self.protocol_type):
            raise Refusal(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol in common with the group's members"
            )

    def _join_new(self, asked: JoinAsked, answer: Callable[[Joined], object]) -> None:
        member_id = f"{asked.instance_id or asked.client_id}-{uuid4()}"
        if asked.instance_id is not None and asked.instance_id in self._static:
            self._replace_static(asked, member_id, answer)
            return
        if len(self.members) + len(self._pending) >= self._max_size:
            raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {self._max_size} members already")
        if asked.needs_known_id and asked.instance_id is None:
            self._pending[member_id] = self._timers.call_later(
                asked.session_timeout_ms / 1000, partial(self._forget_pending, member_id)
            )
            answer(Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        self._add(asked, member_id, answer)

    def _join_known(self, asked: JoinAsked, answer: Callable[[Joined], object]) -> None:
        timer = self._pending.pop(asked.member_id, None)
        if timer is not None:
            timer.cancel()
            self._add(asked, asked.member_id, answer)
            return
        member = self.identify(asked.member_id, asked.instance_id)
        changed = member.protocols != asked.protocols
        settled = self.state is GroupState.STABLE and member.member_id != self.leader
        if not changed and (settled or self.state is GroupState.COMPLETING):
            self.touch(member)
            answer(self._joined(member))
            return
        member.protocols = asked.protocols
        member.session_timeout_ms = asked.session_timeout_ms
        member.rebalance_timeout_ms = asked.rebalance_timeout_ms
        self._await_join(member, answer)

    def _add(self, asked: JoinAsked, member_id: str, answer: Callable[[Joined], object]) -> None:
        member = asked.member(member_id)
        if not self.members:
            self.protocol_type = asked.protocol_type
        self.members[member_id] = member
        if asked.instance_id is not None:
            self._static[asked.instance_id] = member_id
        self.leader = self.leader or member_id
        self._newcomer = True
        self._await_join(member, answer)

    def _await_join(self, member: Member, answer: Callable[[Joined], object]) -> None:
        member.reply_join(Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.answer_join = answer
        self.touch(member)
        self._rebalance()

    def _replace_static(self, asked: JoinAsked, member_id: str, answer: Callable[[Joined], object]) -> None:
        """A static member came back without its id: it takes its old place, and its older self is fenced."""
        assert asked.instance_id is not None
        previous_leader = self.leader
        old = self.members.pop(self._static[asked.instance_id])
        old.stop_timer()
        old.reply_join(Joined(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
        old.reply_sync(Synced(ErrorCode.FENCED_INSTANCE_ID))
        member = asked.member(member_id)
        member.assignment = old.assignment
        self.members[member_id] = member
        self._static[asked.instance_id] = member_id
        self._unsynced.discard(old.member_id)
        if self.leader == old.member_id:
            self.leader = member_id
        protocol = self.protocol or ""
        same = member.metadata_for(protocol) == old.metadata_for(protocol)
        if self.state is GroupState.STABLE and same and self._select_protocol() == protocol:
            self.touch(member)
            answer(self._rejoined_static(member, previous_leader or "", asked.can_skip_assignment))
            self._on_change(self)
        else:
            self._await_join(member, answer)

    def _rejoined_static(self, member: Member, previous_leader: str, can_skip: bool) -> Joined:
        """The generation goes on. A leader that cannot be told to skip assigning is shown another leader."""
        answer = self._joined(member)
        if not can_skip:
            return answer._replace(leader=previous_leader, members=())
        return answer._replace(skip_assignment=member.member_id == self.leader)

    # Rounds

    def _rebalance(self) -> None:
        if self.state is not GroupState.PREPARING:
            initial = self.state is GroupState.EMPTY
            for member in self.members.values():
                member.reply_sync(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
            self._unsynced.clear()
            self._move(Event.CHANGE)
            if initial and self._initial_delay_ms:
                self._gathering = True
                self._gathering_ms = self._longest_rebalance_ms()
                self._gather()
                return
            self._set_deadline(self._longest_rebalance_ms(), self._complete_join)
        self._complete_join_if_all_here()

    def _gather(self) -> None:
        """The first round of an empty group waits for more members, again while new ones keep coming."""
        delay = min(self._initial_delay_ms, self._gathering_ms)
        if not self._newcomer or delay <= 0:
            self._gathering = False
            self._complete_join()
            return
        self._gathering_ms -= delay
        self._newcomer = False
        self._set_deadline(delay, self._gather)

    def _complete_join_if_all_here(self) -> None:
        waiting = all(member.answer_join is not None for member in self.members.values())
        if self.state is GroupState.PREPARING and waiting and not self._pending and not self._gathering:
            self._complete_join()

    def _complete_join(self) -> None:
        self._cancel_deadline()
        late = [m for m in self.members.values() if m.answer_join is None and m.instance_id is None]
        for member in late:
            self._log_removal(member, f"it did not rejoin within {member.rebalance_timeout_ms} ms")
            self._drop(member)
        joined = [member for member in self.members.values() if member.answer_join is not None]
        if self.members and not joined:
            self._set_deadline(self._longest_rebalance_ms(), self._complete_join)
            return
        self.generation += 1
        if not self.members:
            self.protocol = None
            self._move(Event.ALL_LEFT)
            self._on_change(self)
            return
        if self.leader is None or self.members[self.leader].answer_join is None:
            self.leader = joined[0].member_id
        self.protocol = self._select_protocol()
        self._move(Event.ALL_JOINED)
        self._unsynced = set(self.members)
        self._set_deadline(self._longest_rebalance_ms(), self._remove_unsynced)
        for member in self.members.values():
            member.assignment = b""
            self.touch(member)
            member.reply_join(self._joined(member))

    def _joined(self, member: Member) -> Joined:
        """The answer for the current generation: the leader learns who the members are."""
        members: tuple[tuple[str, str | None, bytes], ...] = ()
        if member.member_id == self.leader:
            protocol = self.protocol or ""
            members = tuple(
                (m.member_id, m.instance_id, m.metadata_for(protocol)) for m in self.members.values()
            )
        return Joined(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            members,
        )

    def _select_protocol(self) -> str:
        """The protocol that all members know and most of them like best; the oldest member settles a tie."""
        voters = list(self.members.values())
        candidates = set.intersection(*({name for name, _ in member.protocols} for member in voters))
        votes = Counter(member.vote(candidates) for member in voters)
        return votes.most_common(1)[0][0]

    def sync(
        self,
        identity: tuple[str, str | None, int],
        protocol: tuple[str | None, str | None],
        assignments: dict[str, bytes],
        answer: Callable[[Synced], object],
    ) -> None:
        """Hand the leader's *assignments* out; followers wait for them.

        *identity* is (member id, instance id, generation), *protocol* (type, name) where they are told.
        """
        try:
            member = self.verify(*identity)
            if any(
                given is not None and given != ours
                for given, ours in zip(protocol, (self.protocol_type, self.protocol), strict=True)
            ):
                raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group has chosen another protocol")
            if self.state is GroupState.PREPARING:
                raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "a new round has begun")
        except Refusal as refusal:
            answer(Synced(refusal.code))
            return
        self._unsynced.discard(member.member_id)
        self.touch(member)
        if self.state is GroupState.STABLE:
            answer(self._synced(member))
            return
        member.reply_sync(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        member.answer_sync = answer
        if member.member_id == self.leader:
            self._assign(assignments)

    def _assign(self, assignments: dict[str, bytes]) -> None:
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._move(Event.ASSIGNED)
        self._on_change(self)
        for member in self.members.values():
            if member.answer_sync is not None:
                self.touch(member)
                member.reply_sync(self._synced(member))

    def _synced(self, member: Member) -> Synced:
        return Synced(ErrorCode.NONE, member.assignment, self.protocol_type, self.protocol)

    def _remove_unsynced(self) -> None:
        self._deadline = None
        for member_id in [member_id for member_id in self._unsynced if member_id in self.members]:
            self._log_removal(self.members[member_id], "it joined, but never asked for its assignment")
            self._drop(self.members[member_id])
            self._rebalance()

    # Members that are in

    def identify(self, member_id: str, instance_id: str | None) -> Member:
        """The member; Refusal when it is unknown, or when another took its static place."""
        if instance_id is not None:
            current = self._static.get(instance_id)
            if current is not None and member_id and current != member_id:
                raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"another member took the place of {instance_id}")
            member_id = current or ""
        member = self.members.get(member_id)
        if member is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"the group has no member {member_id!r}")
        return member

    def verify(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        """The member, if it speaks for the current generation; Refusal otherwise."""
        member = self.identify(member_id, instance_id)
        if generation != self.generation:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"the group is at generation {self.generation}")
        return member

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member's session alive. Refusal when it has to do something: join again, most of all."""
        self.touch(self.verify(member_id, instance_id, generation))
        if self.state is GroupState.PREPARING:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "the group is gathering; join again")

    def leave(self, member_id: str, instance_id: str | None, reason: str | None = None) -> None:
        """Take a member out; Refusal when it is not in."""
        timer = self._pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()
            self._complete_join_if_all_here()
            return
        member = self.identify(member_id, instance_id)
        self._log_removal(member, reason or "it left")
        self._drop(member)
        self._rebalance()

    def delete(self) -> None:
        """The end of an empty group; Refusal while it has members."""
        if (self.state, Event.DELETED) not in TRANSITIONS:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, "the group still has members")
        self.stop()
        self._move(Event.DELETED)

    def restore(
        self,
        members: list[Member],
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        leader: str | None,
    ) -> None:
        """Take up a group as it was before a restart: its members have a session time-out to show up."""
        self.generation, self.protocol_type = generation, protocol_type
        if not members:
            return
        self.protocol, self.leader = protocol, leader
        for member in members:
            self.members[member.member_id] = member
            if member.instance_id is not None:
                self._static[member.instance_id] = member.member_id
            self.touch(member)
        self.state = GroupState.STABLE

    def stop(self) -> None:
        """Stop all timers; nothing waits for an answer any more."""
        self._cancel_deadline()
        for timer in self._pending.values():
            timer.cancel()
        self._pending.clear()
        for member in self.members.values():
            member.stop_timer()

    def _drop(self, member: Member) -> None:
        member.stop_timer()
        member.reply_join(Joined(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        member.reply_sync(Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        del self.members[member.member_id]
        self._unsynced.discard(member.member_id)
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _forget_pending(self, member_id: str) -> None:
        self._pending.pop(member_id, None)
        self._complete_join_if_all_here()

    def touch(self, member: Member) -> None:
        """The member has shown that it lives: its session begins anew."""
        member.stop_timer()
        member.session = self._timers.call_later(
            member.session_timeout_ms / 1000, partial(self._expire, member)
        )

    def _expire(self, member: Member) -> None:
        member.session = None
        if member.answer_join is not None or member.answer_sync is not None:
            self.touch(member)  # it waits for us, so it need not send heartbeats
            return
        self._log_removal(member, f"no heartbeat for {member.session_timeout_ms} ms")
        self._drop(member)
        self._rebalance()

    # Bookkeeping

    def _move(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]

    def _longest_rebalance_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _set_deadline(self, delay_ms: int, callback: Callable[[], object]) -> None:
        self._cancel_deadline()
        self._deadline = self._timers.call_later(delay_ms / 1000, callback)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _log_removal(self, member: Member, reason: str) -> None:
        _logger.info("group %s: member %s removed: %s", self.group_id, member.member_id, reason)
