"""The group coordinator: all groups of the broker, and the positions they commit."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any

from pyklient.broker.api_errors import Refusal
from pyklient.broker.config import BrokerSettings
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.member import JoinAsked, Joined, Member, Synced, Timers
from pyklient.broker.groups.offsets_journal import Committed, OffsetStore
from pyklient.broker.groups.states import GroupState
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

__all__ = ["Coordinator"]

_MAX_IDLE_GROUPS = 10_000


class Coordinator:
    """Group id → Group. Groups whose generation was settled when the broker stopped are taken up again."""

    def __init__(self, settings: BrokerSettings, offsets: OffsetStore, timers: Timers) -> None:
        self.offsets = offsets
        self._settings = settings
        self._timers = timers
        self._groups: dict[str, Group] = {}
        for group_id in offsets.groups:
            self._restore(group_id)

    @property
    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def join(self, group_id: str, asked: JoinAsked, answer: Callable[[Joined], object]) -> None:
        """See ``Group.join``; the group is made when a member without an id asks for a new one."""
        group = self._groups.get(group_id)
        low, high = self._settings.group_min_session_timeout_ms, self._settings.group_max_session_timeout_ms
        if not group_id:
            answer(Joined(ErrorCode.INVALID_GROUP_ID, asked.member_id))
        elif not low <= asked.session_timeout_ms <= high:
            answer(Joined(ErrorCode.INVALID_SESSION_TIMEOUT, asked.member_id))
        elif group is None and asked.member_id:
            answer(Joined(ErrorCode.UNKNOWN_MEMBER_ID, asked.member_id))
        else:
            (group or self._create(group_id)).join(asked, answer)

    def sync(
        self,
        group_id: str,
        identity: tuple[str, str | None, int],
        protocol: tuple[str | None, str | None],
        assignments: dict[str, bytes],
        answer: Callable[[Synced], object],
    ) -> None:
        """See ``Group.sync``."""
        group = self._groups.get(group_id)
        if group is None:
            answer(Synced(ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID))
        else:
            group.sync(identity, protocol, assignments, answer)

    def member_group(self, group_id: str) -> Group:
        """The group a member speaks of; Refusal (UNKNOWN_MEMBER_ID) when there is none."""
        if not group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "a group's name is not empty")
        group = self._groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id!r}")
        return group

    def check_commit(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> None:
        """Whether a commit may be made: by a member of the current generation, or by anyone while the group
        has no members. Raises Refusal.
        """
        if not group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "a group's name is not empty")
        group = self._groups.get(group_id)
        if generation < 0 and (group is None or group.state is GroupState.EMPTY):
            if group is None:
                self._create(group_id)
            return
        if group is None:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"there is no group {group_id!r}")
        member = group.verify(member_id, instance_id, generation)
        if group.state is GroupState.COMPLETING:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "the new generation has no assignment yet")
        group.touch(member)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Keep positions; ``check_commit`` comes first."""
        if offsets:
            self.offsets.commit(group_id, offsets)

    def delete(self, group_id: str) -> None:
        """Delete a group and its positions; Refusal when it has members or does not exist."""
        group = self._groups.get(group_id)
        if not group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "a group's name is not empty")
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        group.delete()
        del self._groups[group_id]
        self.offsets.delete_group(group_id)

    def close(self) -> None:
        for group in self._groups.values():
            group.stop()

    def _create(self, group_id: str) -> Group:
        if len(self._groups) >= _MAX_IDLE_GROUPS:
            self._forget_idle()
        group = self._groups[group_id] = Group(
            group_id,
            self._timers,
            initial_delay_ms=self._settings.group_initial_rebalance_delay_ms,
            max_size=self._settings.group_max_size,
            on_change=self._settled,
        )
        return group

    def _forget_idle(self) -> None:
        """Groups without members and without positions are names only; made up ones must not pile up."""
        for group in self.groups:
            if group.idle and not self.offsets.committed(group.group_id):
                del self._groups[group.group_id]
                if self.offsets.generation(group.group_id) is not None:
                    self.offsets.delete_group(group.group_id)

    def _settled(self, group: Group) -> None:
        self.offsets.settle(
            group.group_id,
            {
                "generation": group.generation,
                "protocol_type": group.protocol_type,
                "protocol": group.protocol,
                "leader": group.leader,
                "members": [_saved(member) for member in group.members.values()],
            },
        )

    def _restore(self, group_id: str) -> None:
        group = self._create(group_id)
        facts = self.offsets.generation(group_id)
        if facts is not None:
            group.restore(
                [_restored(saved) for saved in facts["members"]],
                generation=facts["generation"],
                protocol_type=facts["protocol_type"],
                protocol=facts["protocol"],
                leader=facts["leader"],
            )


def _saved(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [[name, b64encode(metadata).decode()] for name, metadata in member.protocols],
        "assignment": b64encode(member.assignment).decode(),
    }


def _restored(saved: dict[str, Any]) -> Member:
    protocols = [(name, b64decode(metadata)) for name, metadata in saved["protocols"]]
    return Member(**saved | {"protocols": protocols, "assignment": b64decode(saved["assignment"])})
