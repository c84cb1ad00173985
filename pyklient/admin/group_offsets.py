"""Shows, resets and copies the committed offsets of one group, in Kafka and in ZooKeeper.

Each call uses both the brokers and ZooKeeper, within one time-out. A reset fails if the group has members. A
copy is allowed while the group runs, because it makes no offset smaller unless the caller asks for that.
``GroupOffsets.copy`` explains why no commit is lost.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pyklient.admin.descriptions import OffsetCopy, OffsetReset, Storage, StoredOffsets
from pyklient.admin.groups import group_offsets
from pyklient.admin.offset_reset import NewOffsets, new_offsets
from pyklient.admin.stored_offsets import (
    ZooKeeperOffsets,
    commit_to_kafka,
    kafka_stores_offsets,
    log_bounds,
    members_at_brokers,
    members_in_zookeeper,
    read_zookeeper_offsets,
)
from pyklient.admin.topics import list_partitions
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode
from pyklient.errors import CommitError, ConfigurationError, KafkaError, NodeVersionError, broker_error
from pyklient.net.dialogue import Dialogue
from pyklient.net.network_client import NetworkClient
from pyklient.registry.committed_offsets import replace_offsets
from pyklient.registry.requests import RegistryDialogue
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["GroupOffsets"]

_Result = TypeVar("_Result")

_log = logging.getLogger("pyklient.admin")

_MOST_PASSES: Final = 5
"""The largest number of times that a copy reads the offsets. It reads them again after each write, to copy
those that have changed meanwhile."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The offsets of a group in both storages. ``in_use`` is false if no group has committed to Kafka yet."""

    kafka: Mapping[TopicPartition, OffsetAndMetadata]
    zookeeper: ZooKeeperOffsets
    in_use: bool = True

    def of(self, storage: Storage) -> Mapping[TopicPartition, int]:
        """Return the offsets that are committed to *storage*."""
        if storage == "zookeeper":
            return self.zookeeper.offsets
        return {each: position.offset for each, position in self.kafka.items()}

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that have an offset in Kafka or a node in ZooKeeper."""
        return {*self.kafka, *self.zookeeper.versions}


class GroupOffsets:
    """The committed offsets of the group *group_id*, for a call that may take *timeout* seconds."""

    def __init__(self, client: NetworkClient, group_id: str, timeout: float) -> None:
        self._client = client
        self._registry = client.registry
        self._group_id = group_id
        self._deadline = time.monotonic() + timeout

    def stored(self, wanted: Sequence[str | TopicPartition]) -> dict[TopicPartition, StoredOffsets]:
        """Return the committed offsets for the topics and the partitions in *wanted*. If *wanted* is empty,
        return those of all partitions for which the group has offsets."""
        return self._described(self._read("zookeeper"), wanted)

    def reset(
        self,
        to: NewOffsets,
        wanted: Sequence[str | TopicPartition],
        storage: Storage | None,
        *,
        execute: bool,
    ) -> OffsetReset:
        """Compute the new offsets that *to* describes, and commit them if *execute* is true.

        *wanted* has topics and partitions. If it is empty, all partitions for which the group has offsets are
        reset. If *storage* is None, they are reset in each storage in which the group has offsets.

        Raises BrokerError NON_EMPTY_GROUP if *execute* is true and the group has members, and BrokerError for
        a partition that does not exist.
        """
        found = self._read("zookeeper")
        storages = self._chosen(storage, found)
        partitions = wanted if to.positions is None else list(to.positions)
        stored = self._described(found, partitions) if partitions or to.positions is None else {}
        for each, offsets in stored.items():
            if offsets.end is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                what = f"cannot reset the offset of {each} for group {self._group_id}: {offsets.error}"
                raise broker_error(code, what)
        changes = self._ask(new_offsets(to, stored, storages))
        members = self._members(found)
        if execute:
            if members:
                raise broker_error(
                    ErrorCode.NON_EMPTY_GROUP,
                    f"cannot reset the offsets of group {self._group_id} while it has "
                    f"{counted(members, 'member')}",
                )
            positions = {each: change.after for each, change in changes.items()}
            self._commit(positions, storages, found.zookeeper.versions)
        return OffsetReset(self._group_id, storages, changes, members, execute)

    def copy(
        self, to: Storage, wanted: Sequence[str | TopicPartition], *, execute: bool, lower: bool
    ) -> dict[TopicPartition, OffsetCopy]:
        """Copy the offsets of the other storage to the storage *to*, even while members of the group commit.

        This function first reads the storage that it copies from. A member that commits to both storages
        commits to Kafka first. So a copy to Kafka finds no smaller offset there than in ZooKeeper for such a
        member, and replaces none. A copy to ZooKeeper replaces a node only if the node has not changed since
        the function read it. Kafka has no such check. Therefore, after a write, the function reads both
        storages again, and copies the offsets that have changed. So no offset is lost if a member begins to
        commit to both storages meanwhile.

        If *lower* is true, larger offsets in the storage *to* are replaced too.
        """
        self._check_zookeeper()
        source: Storage = "kafka" if to == "zookeeper" else "zookeeper"
        if to == "kafka":
            self._check_that_kafka_accepts_copies()
        before: dict[TopicPartition, int] = {}
        for number in range(_MOST_PASSES):
            found = self._read(source)
            offsets, after = self._selected(found.of(source), wanted), dict(found.of(to))
            before = before if number else dict(after)
            due = {
                each: offset
                for each, offset in offsets.items()
                if (at := after.get(each)) is None or at < offset or (lower and at != offset)
            }
            after.update(self._write_copy(to, due, found) if execute else due)
            if not due or not execute:
                break
        else:
            _log.warning(
                "the offsets of group %s may still differ between ZooKeeper and Kafka: each of %d copies to "
                "%s found new differences. Copy them again when the group commits less often",
                self._group_id,
                _MOST_PASSES,
                "Kafka" if to == "kafka" else "ZooKeeper",
            )
        return {
            each: OffsetCopy(offset, before.get(each), after.get(each))
            for each, offset in sorted(offsets.items())
        }

    def _write_copy(
        self, to: Storage, due: Mapping[TopicPartition, int], found: _Read
    ) -> Mapping[TopicPartition, int]:
        """Write the offsets *due* to the storage *to*. Return those that were written: offsets in ZooKeeper
        that have changed since *found* was read are not replaced."""
        if to == "kafka":
            positions = {each: OffsetAndMetadata(offset) for each, offset in due.items()}
            self._ask(commit_to_kafka(self._group_id, positions))
            return due
        changed = self._ask_zookeeper(replace_offsets(self._group_id, due, found.zookeeper.versions))
        return {each: offset for each, offset in due.items() if each not in changed}

    def _read(self, first: Storage) -> _Read:
        """Read the offsets of both storages, beginning with the storage *first*."""
        if self._registry is None:
            return _Read(self._ask(group_offsets(self._group_id)), ZooKeeperOffsets())
        # Asking for the coordinator of a group makes brokers create the topic in which they store offsets.
        in_use = self._ask_zookeeper(kafka_stores_offsets())
        kafka: Mapping[TopicPartition, OffsetAndMetadata] = {}
        if in_use and first == "kafka":
            kafka = self._ask(group_offsets(self._group_id))
        zookeeper = self._ask_zookeeper(read_zookeeper_offsets(self._group_id))
        if in_use and first == "zookeeper":
            kafka = self._ask(group_offsets(self._group_id))
        return _Read(kafka, zookeeper, in_use)

    def _described(
        self, found: _Read, wanted: Sequence[str | TopicPartition]
    ) -> dict[TopicPartition, StoredOffsets]:
        partitions = sorted(self._partitions(found, wanted))
        bounds = self._ask(log_bounds(partitions))
        described = {}
        for each in partitions:
            errors = [found.zookeeper.errors.get(each), bounds.errors.get(each)]
            described[each] = StoredOffsets(
                found.kafka.get(each),
                found.zookeeper.offsets.get(each),
                bounds.starts.get(each),
                bounds.ends.get(each),
                "; ".join(each for each in errors if each is not None) or None,
            )
        return described

    def _partitions(self, found: _Read, wanted: Sequence[str | TopicPartition]) -> set[TopicPartition]:
        if not wanted:
            return found.partitions
        topics = [each for each in wanted if isinstance(each, str)]
        named = {each for each in wanted if isinstance(each, TopicPartition)}
        return named | set(self._ask(list_partitions(topics, internal=True))) if topics else named

    def _selected(
        self, offsets: Mapping[TopicPartition, int], wanted: Sequence[str | TopicPartition]
    ) -> dict[TopicPartition, int]:
        topics = {each for each in wanted if isinstance(each, str)}
        return {
            each: at for each, at in offsets.items() if not wanted or each in wanted or each.topic in topics
        }

    def _chosen(self, storage: Storage | None, found: _Read) -> tuple[Storage, ...]:
        """Return *storage*, or if it is None, the storages in which the group has offsets."""
        if storage == "zookeeper":
            self._check_zookeeper()
        if storage is not None:
            return (storage,)
        if self._registry is None:
            return ("kafka",)
        kinds: tuple[Storage, ...] = ("kafka", "zookeeper")
        storages = tuple(each for each in kinds if found.of(each))
        if not storages:
            raise ConfigurationError(
                f"group {self._group_id} has offsets neither in Kafka nor in ZooKeeper, so it is not known "
                "where its members will look for them: pass storage='kafka' or storage='zookeeper'"
            )
        return storages

    def _members(self, found: _Read) -> int:
        """Return the number of members that the group has at the brokers and in ZooKeeper, in total. Raises
        ConfigurationError if the brokers do not know their number, and the client does not use ZooKeeper."""
        if not found.in_use:
            return found.zookeeper.members
        at_brokers = self._ask(members_at_brokers(self._group_id))
        if at_brokers is None and self._registry is None:
            raise ConfigurationError(
                f"cannot reset the offsets of group {self._group_id}: brokers before Kafka 0.9 do not know "
                "if a group has members, but ZooKeeper does; pass the address of ZooKeeper (option zookeeper)"
            )
        return (at_brokers or 0) + found.zookeeper.members

    def _check_that_kafka_accepts_copies(self) -> None:
        if self._ask(members_at_brokers(self._group_id)):
            raise broker_error(
                ErrorCode.NON_EMPTY_GROUP,
                f"cannot copy offsets to Kafka for group {self._group_id}, because a broker coordinates its "
                "members, and accepts commits only from them. Let these members commit to both storages "
                "(dual_commit_enabled), or stop them",
            )

    def _commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        storages: Collection[Storage],
        versions: Mapping[TopicPartition, int],
    ) -> None:
        """Write *positions* to *storages*: first to Kafka, because a broker rejects them if members have
        joined the group meanwhile. A node in ZooKeeper is replaced only if it has its version in *versions*.
        """
        if "kafka" in storages:
            self._ask(commit_to_kafka(self._group_id, positions))
        if "zookeeper" in storages:
            try:
                self._replace({each: position.offset for each, position in positions.items()}, versions)
            except KafkaError as error:
                if "kafka" not in storages:
                    raise
                raise CommitError(
                    f"the offsets of group {self._group_id} were reset in Kafka, but not all of them in "
                    f"ZooKeeper: {error}. Compare the offsets in both, and then copy the offsets from Kafka "
                    "to ZooKeeper"
                ) from error
        if self._registry is not None and (
            members := self._ask_zookeeper(members_in_zookeeper(self._group_id))
        ):
            raise broker_error(
                ErrorCode.NON_EMPTY_GROUP,
                f"the offsets of group {self._group_id} were reset, but meanwhile "
                f"{counted(members, 'member')} joined the group in ZooKeeper, and may have read the old "
                "offsets. Stop these members, and reset the offsets again",
            )

    def _replace(self, offsets: Mapping[TopicPartition, int], versions: Mapping[TopicPartition, int]) -> None:
        if changed := self._ask_zookeeper(replace_offsets(self._group_id, offsets, versions)):
            raise NodeVersionError(
                f"the offsets of group {self._group_id} in {', '.join(map(str, changed))} were not reset in "
                "ZooKeeper, because another client has just changed them; check if the group has members, "
                "and try again"
            )

    def _check_zookeeper(self) -> None:
        if self._registry is None:
            raise ConfigurationError(
                "offsets in ZooKeeper need its address: set the option zookeeper, such as host:port/chroot"
            )

    def _ask(self, dialogue: Dialogue[_Result]) -> _Result:
        return self._client.play(dialogue, self._left())

    def _ask_zookeeper(self, dialogue: RegistryDialogue[_Result]) -> _Result:
        assert self._registry is not None
        return self._registry.play(dialogue, self._left())

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)
