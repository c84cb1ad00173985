"""The group coordinator of a node: the groups that the node coordinates, and the offsets that they commit."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any

from pyklient.broker.api_errors import ApiError
from pyklient.broker.config import BrokerConfig
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.member import JoinRequest, JoinResult, Member, SyncRequest, SyncResult
from pyklient.broker.groups.offsets_journal import CommittedOffset, OffsetsJournal
from pyklient.broker.groups.states import GroupState
from pyklient.broker.groups.timers import Timers
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

__all__ = ["GroupCoordinator"]

_MAX_IDLE_GROUPS = 10_000


class GroupCoordinator:
    """The groups that one node coordinates, by group id.

    After a restart of the broker, a group has its members again if its generation was complete.
    """

    def __init__(self, config: BrokerConfig, offsets: OffsetsJournal, timers: Timers) -> None:
        self.offsets = offsets
        self._config = config
        self._timers = timers
        self._groups: dict[str, Group] = {}
        for group_id in offsets.groups:
            self._restore(group_id)

    @property
    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def join(self, group_id: str, request: JoinRequest, answer: Callable[[JoinResult], object]) -> None:
        """Pass *request* to ``Group.join`` of the group *group_id*.

        If there is no such group, a request without a member id creates it.
        """
        group = self._groups.get(group_id)
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not group_id:
            answer(JoinResult(ErrorCode.INVALID_GROUP_ID, request.member_id))
        elif not low <= request.session_timeout_ms <= high:
            answer(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        elif group is None and request.member_id:
            answer(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        else:
            (group or self._create(group_id)).join(request, answer)

    def sync(self, group_id: str, request: SyncRequest, answer: Callable[[SyncResult], object]) -> None:
        """Pass *request* to ``Group.sync`` of the group *group_id*."""
        group = self._groups.get(group_id)
        if group is None:
            answer(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID))
        else:
            group.sync(request, answer)

    def group_of_member(self, group_id: str) -> Group:
        """Return the group *group_id*, which a member's request names. Raises ApiError (UNKNOWN_MEMBER_ID) if
        it does not exist."""
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} does not exist")
        return group

    def check_commit(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> None:
        """Raise ApiError if the client that sent a request may not commit offsets of the group.

        Members of the current generation may commit. While the group has no members, every client may.
        """
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if generation < 0 and (group is None or group.state is GroupState.EMPTY):
            if group is None:
                self._create(group_id)
            return
        if group is None:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"group {group_id!r} does not exist")
        member = group.verify(member_id, instance_id, generation)
        if group.state is GroupState.COMPLETING:
            raise ApiError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"generation {generation} of group {group_id!r} has no assignments yet",
            )
        group.restart_session(member)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Store the offsets that a group commits. The caller must call ``check_commit`` first."""
        if offsets:
            self.offsets.commit(group_id, offsets)

    def delete(self, group_id: str) -> None:
        """Delete a group and its committed offsets. Raises ApiError if the group has members or does not
        exist."""
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
        group.delete()
        del self._groups[group_id]
        self.offsets.delete_group(group_id)

    def close(self) -> None:
        for group in self._groups.values():
            group.stop()
        self.offsets.close()

    def _create(self, group_id: str) -> Group:
        if len(self._groups) >= _MAX_IDLE_GROUPS:
            self._forget_idle()
        group = self._groups[group_id] = Group(
            group_id,
            self._timers,
            initial_delay_ms=self._config.group_initial_rebalance_delay_ms,
            max_size=self._config.group_max_size,
            on_generation=self._store_generation,
        )
        return group

    def _forget_idle(self) -> None:
        """Forget the groups that have neither members nor committed offsets, so that unused group ids do not
        accumulate."""
        for group in self.groups:
            if group.idle and not self.offsets.committed(group.group_id):
                del self._groups[group.group_id]
                if self.offsets.generation(group.group_id) is not None:
                    self.offsets.delete_group(group.group_id)

    def _store_generation(self, group: Group) -> None:
        self.offsets.store_generation(
            group.group_id,
            {
                "generation": group.generation,
                "protocol_type": group.protocol_type,
                "protocol": group.protocol,
                "leader": group.members.leader_id,
                "members": [_saved(member) for member in group.members.values()],
            },
        )

    def _restore(self, group_id: str) -> None:
        group = self._create(group_id)
        saved = self.offsets.generation(group_id)
        if saved is not None:
            group.restore(
                [_restored(member) for member in saved["members"]],
                generation=saved["generation"],
                protocol_type=saved["protocol_type"],
                protocol=saved["protocol"],
                leader_id=saved["leader"],
            )


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id in the request is empty")


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
