"""The group coordinator of a node: the groups that the node coordinates, and the offsets that they commit."""

import logging
import time
from collections.abc import Callable, Generator, Mapping
from typing import Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.topics import Topics
from pyklient.broker.config import BrokerConfig
from pyklient.broker.groups.committed_offset import NO_TIMESTAMP, CommittedOffset
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.member import JoinRequest, JoinResult, Member, SyncRequest, SyncResult
from pyklient.broker.groups.offset_expiry import expired_offsets
from pyklient.broker.groups.offsets_partition import OffsetsPartition
from pyklient.broker.groups.offsets_partitions import OffsetsPartitions
from pyklient.broker.groups.states import GroupState
from pyklient.broker.groups.timers import Timers
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.log.partition_log import ProducerIdentity
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages.offsets_topic import GroupMetadataValue
from pyklient.topic_partition import TopicPartition

__all__ = ["GroupCoordinator"]

_logger = logging.getLogger("pyklient.broker")

_MAX_IDLE_GROUPS: Final = 10_000
_GROUPS_PER_STEP: Final = 100


class GroupCoordinator:
    """The groups that one node coordinates. They are stored in those partitions of ``__consumer_offsets`` of
    which the node is the leader.

    *topics* tells how many partitions ``__consumer_offsets`` has, and *logs* has the logs of the node's
    partitions. ``load`` restores the groups that the logs store: the committed offsets, and the members and
    assignments of the last generation. The attribute ``partitions`` has the partitions of
    ``__consumer_offsets`` that the node leads.
    """

    def __init__(self, config: BrokerConfig, topics: Topics, logs: LogManager, timers: Timers) -> None:
        self._config = config
        self._topics = topics
        self.partitions = OffsetsPartitions(topics, logs)
        self._timers = timers
        self._groups: dict[str, Group] = {}
        self._deleted_topics: set[str] = set()
        """The topics that were deleted before all groups were loaded. ``load`` deletes their offsets."""
        self._forget_idle_at = _MAX_IDLE_GROUPS
        """If there are this many groups when a group is created, idle groups are deleted first."""

    @property
    def groups(self) -> list[Group]:
        return list(self._groups.values())

    @property
    def loading(self) -> bool:
        """True until all groups are loaded."""
        return not all(self.partitions.is_loaded(partition) for partition in self.partitions.all())

    def check_loaded(self, group_id: str) -> None:
        """Raise ApiError (COORDINATOR_LOAD_IN_PROGRESS) if the partition that stores the group *group_id* is
        not loaded yet."""
        if not self.partitions.is_loaded(self.partitions.of_group(group_id)):
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id!r} is still being loaded; ask again"
            )

    def load(self) -> Generator[None]:
        """Restore all groups, delete the committed offsets of missing topics, and compact the logs.

        If a log cannot be written, its groups are restored nevertheless, and the error is logged. This is a
        generator, so that the event loop can serve clients between two steps.
        """
        for partition in self.partitions.all():
            if partition.loaded:
                continue
            yield from partition.load()
            self.partitions.restoring = partition
            self._delete_missing_topics(partition)
            for count, group_id in enumerate(sorted(partition.groups), 1):
                self._restore(group_id)
                if not count % _GROUPS_PER_STEP:
                    yield
            self.partitions.restoring = None
            yield from self._compact(partition)
        self._deleted_topics.clear()

    def _delete_missing_topics(self, partition: OffsetsPartition) -> None:
        """Delete the committed offsets of topics that do not exist.

        Such offsets exist if the broker was killed after it deleted a topic and before it deleted the
        offsets, or if it could not write the log.
        """
        missing = {topic for topic in partition.topics if self._topics.find(topic) is None}
        try:
            partition.delete_topics(missing | self._deleted_topics, _now_ms())
        except OSError as error:
            _logger.error(
                "%s: the committed offsets of deleted topics could not be deleted: %s; "
                "the next check of expired offsets tries again",
                partition.name,
                error,
            )

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def join(self, group_id: str, request: JoinRequest, answer: Callable[[JoinResult], object]) -> None:
        """Handle a JoinGroup request for the group *group_id*, and call *answer* with the response.

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
        """Handle a SyncGroup request for the group *group_id*, and call *answer* with the response."""
        group = self._groups.get(group_id)
        if group is None:
            answer(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID))
        else:
            group.sync(request, answer)

    def group_of_member(self, group_id: str) -> Group:
        """Return the group *group_id*, to which a member has sent a request. Raises ApiError
        (UNKNOWN_MEMBER_ID) if the group does not exist."""
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
                f"offsets cannot be committed yet, because generation {generation} of group {group_id!r} "
                "has no assignments",
            )
        group.restart_session(member)

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group; empty if there are none."""
        return self.partitions.of_group(group_id).committed(group_id)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Store the offsets that a group commits. The caller must call ``check_commit`` first."""
        if offsets:
            self.partitions.of_group(group_id).commit(group_id, offsets, _now_ms())

    def check_transactional_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Raise ApiError if the client that sent a request may not commit offsets of the group in a
        transaction.

        Only members of the current generation may commit (KIP-447), so that a consumer that has lost its
        partitions cannot. Clients from before KIP-447 send no generation and no member, and may always
        commit.
        """
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if generation < 0 and not member_id and instance_id is None:
            if group is None:
                self._create(group_id)
        elif group is None:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"group {group_id!r} does not exist")
        else:
            group.verify(member_id, instance_id, generation)

    def commit_in_transaction(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], producer: ProducerIdentity
    ) -> None:
        """Store the offsets that a group commits in the open transaction of *producer*. The caller must call
        ``check_transactional_commit`` first."""
        self.partitions.of_group(group_id).commit_in_transaction(group_id, offsets, producer, _now_ms())

    def delete_topic(self, topic: str) -> None:
        """Delete the committed offsets of all groups for the deleted topic *topic*, so that a new topic of
        the same name starts without committed offsets."""
        for partition in self.partitions.all():
            if partition.loaded:
                partition.delete_topics({topic}, _now_ms())
            else:
                self._deleted_topics.add(topic)

    def clean_up(self, now_ms: int) -> Generator[None]:
        """Delete expired offsets, offsets of topics that do not exist, and groups that have neither members
        nor offsets. Then compact the logs.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        for count, group in enumerate(self.groups, 1):
            if self._groups.get(group.group_id) is group:  # it may have been deleted since the last step
                self._expire(group, now_ms)
            if not count % _GROUPS_PER_STEP:
                yield
        for partition in self.partitions.all():
            yield
            self._delete_missing_topics(partition)
            yield from self._compact(partition)

    def _compact(self, partition: OffsetsPartition) -> Generator[None]:
        try:
            yield from partition.compact()
        except OSError as error:
            _logger.error(
                "%s: the log could not be compacted: %s; the next check tries again",
                partition.name,
                error,
            )

    def _expire(self, group: Group, now_ms: int) -> None:
        partition = self.partitions.of_group(group.group_id)
        generation = partition.generation(group.group_id)
        expired = expired_offsets(
            group,
            NO_TIMESTAMP if generation is None else generation.current_state_timestamp,
            partition.committed(group.group_id),
            self._config.offsets_retention_minutes * 60_000,
            now_ms,
        )
        pending = partition.pending(group.group_id)
        partition.delete_offsets(group.group_id, [each for each in expired if each not in pending], now_ms)
        self._forget_if_idle(group)

    def delete(self, group_id: str) -> None:
        """Delete a group and its committed offsets. Raises ApiError if the group has members or does not
        exist."""
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
        group.delete()
        del self._groups[group_id]
        self.partitions.of_group(group_id).delete_group(group_id, _now_ms())

    def close(self) -> None:
        for group in self._groups.values():
            group.stop()

    def _create(self, group_id: str) -> Group:
        if len(self._groups) >= self._forget_idle_at:
            self._forget_idle()
        return self._add(group_id)

    def _add(self, group_id: str) -> Group:
        group = self._groups[group_id] = Group(
            group_id,
            self._timers,
            initial_delay_ms=self._config.group_initial_rebalance_delay_ms,
            max_size=self._config.group_max_size,
            on_generation=self._store_generation,
        )
        return group

    def _forget_idle(self) -> None:
        """Delete the groups that have neither members nor committed offsets, so that unused groups do not
        accumulate in memory.

        The next call is due when the number of groups has doubled, so that the average cost for a new group
        does not grow with the number of groups.
        """
        for group in self.groups:
            self._forget_if_idle(group)
        self._forget_idle_at = max(_MAX_IDLE_GROUPS, 2 * len(self._groups))

    def _forget_if_idle(self, group: Group) -> None:
        partition = self.partitions.of_group(group.group_id)
        stored = partition.committed(group.group_id) or partition.pending(group.group_id)
        if group.idle and not stored:
            del self._groups[group.group_id]
            partition.delete_group(group.group_id, _now_ms())

    def _store_generation(self, group: Group) -> None:
        now_ms = _now_ms()
        partition = self.partitions.of_group(group.group_id)
        try:
            partition.store_generation(group.group_id, _saved(group, now_ms), now_ms)
        except OSError as error:
            if group.members:
                raise
            _logger.warning(
                "%s: group %s lost its last member, but the log could not be written: %s; "
                "after a restart of the broker, the group has its former members until their sessions expire",
                partition.name,
                group.group_id,
                error,
            )

    def _restore(self, group_id: str) -> None:
        group = self._add(group_id)
        saved = self.partitions.of_group(group_id).generation(group_id)
        if saved is not None:
            group.restore(
                [_restored(member, saved.protocol or "") for member in saved.members],
                generation=saved.generation,
                protocol_type=saved.protocol_type or None,
                protocol=saved.protocol,
                leader_id=saved.leader,
            )


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id in the request is empty")


def _saved(group: Group, now_ms: int) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.members.leader_id,
        current_state_timestamp=now_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(group.protocol or ""),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def _restored(saved: GroupMetadataValue.MemberMetadata, protocol: str) -> Member:
    return Member(
        member_id=saved.member_id,
        instance_id=saved.group_instance_id,
        client_id=saved.client_id,
        client_host=saved.client_host,
        session_timeout_ms=saved.session_timeout,
        rebalance_timeout_ms=saved.rebalance_timeout,
        protocols=[(protocol, saved.subscription)],
        assignment=saved.assignment,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
