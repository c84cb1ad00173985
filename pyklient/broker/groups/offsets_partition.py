"""One partition of ``__consumer_offsets``, in which the state of some groups is stored: their committed
offsets, and their last generations.

The state is in memory and in the log of the partition. After a restart the state is loaded from the log.
"""

import logging
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import Final

from pyklient.broker.groups.committed_offset import CommittedOffset, offset_key, offset_value, read_offset
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.errors import ProtocolError
from pyklient.protocol.messages.offsets_topic import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from pyklient.protocol.records import NewRecord
from pyklient.topic_partition import TopicPartition

__all__ = ["OffsetsPartition", "generation_key", "generation_value"]

_logger = logging.getLogger("pyklient.broker")

_OFFSET_KEYS: Final = (0, 1)
_GENERATION_KEY: Final = 2
_GENERATION: Final = 3
_RECORDS_PER_STEP: Final = 1_000
_RECORDS_PER_BATCH: Final = 1_000
_MIN_RECORDS: Final = 1_000
_MAX_RECORDS_PER_ENTRY: Final = 4


class OffsetsPartition:
    """The groups that one partition of ``__consumer_offsets`` stores, and the *log* of this partition.

    ``loaded`` becomes true when :meth:`load` has read the whole log. An empty log needs no loading.
    """

    def __init__(self, log: PartitionLog) -> None:
        self.loaded = not log.size
        self._log = log
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._generations: dict[str, GroupMetadataValue] = {}
        self._records = 0

    @property
    def name(self) -> str:
        """The name of the partition with the name of its topic, for log messages."""
        return self._log.directory.name

    @property
    def groups(self) -> set[str]:
        """The ids of all groups of which the partition has committed offsets or a generation."""
        return self._committed.keys() | self._generations.keys()

    @property
    def topics(self) -> set[str]:
        """The names of all topics for which a group has committed offsets."""
        return {partition.topic for offsets in self._committed.values() for partition in offsets}

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group; empty if there are none."""
        return self._committed.get(group_id, {})

    def generation(self, group_id: str) -> GroupMetadataValue | None:
        return self._generations.get(group_id)

    def load(self) -> Generator[None]:
        """Read the state of all groups from the log.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        since_step = 0
        for records in self._log.records():
            for record in records:
                if record.key is not None:
                    self._apply(record.key, record.value)
            self._records += len(records)
            since_step += len(records)
            if since_step >= _RECORDS_PER_STEP:
                since_step = 0
                yield
        self.loaded = True

    def compact(self) -> Generator[None]:
        """Compact the log if most of its records are outdated.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        live = sum(map(len, self._committed.values())) + len(self._generations)
        if self._records > max(_MIN_RECORDS, _MAX_RECORDS_PER_ENTRY * live):
            before = self._records
            kept = yield from self._log.compact()
            self._records += kept - before
            _logger.info("%s: the log was compacted from %d records to %d", self.name, before, kept)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], now_ms: int) -> None:
        """Store the *offsets* that a group commits. They are in the log when this method returns."""
        self._append(
            [
                NewRecord(now_ms, offset_key(group_id, partition), offset_value(committed))
                for partition, committed in offsets.items()
            ]
        )
        self._committed.setdefault(group_id, {}).update(offsets)

    def store_generation(self, group_id: str, generation: GroupMetadataValue, now_ms: int) -> None:
        """Store a completed *generation* of the group, so that the group can be restored after a restart.

        Raises OSError if the log cannot be written. Even then, a generation without members replaces the
        previous generation in memory, because its time decides when the offsets of the group expire.
        """
        if not generation.members:
            self._generations[group_id] = generation
        self._append([NewRecord(now_ms, generation_key(group_id), generation_value(generation))])
        self._generations[group_id] = generation

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Delete the committed offsets of a group for *partitions*."""
        offsets = self.committed(group_id)
        self._delete([(group_id, partition) for partition in partitions if partition in offsets], now_ms)

    def delete_group(self, group_id: str, now_ms: int) -> None:
        """Delete all committed offsets and the generation of a group."""
        keys = [offset_key(group_id, partition) for partition in self.committed(group_id)]
        if group_id in self._generations:
            keys.append(generation_key(group_id))
        if keys:
            self._append([NewRecord(now_ms, key, None) for key in keys])
        self._committed.pop(group_id, None)
        self._generations.pop(group_id, None)

    def delete_topics(self, topics: Collection[str], now_ms: int) -> None:
        """Delete the committed offsets of all groups for the deleted *topics*, so that a new topic of the
        same name starts without any."""
        found = [
            (group_id, partition)
            for group_id, offsets in self._committed.items()
            for partition in offsets
            if partition.topic in topics
        ]
        self._delete(found, now_ms)

    def _delete(self, offsets: Sequence[tuple[str, TopicPartition]], now_ms: int) -> None:
        """Delete committed *offsets*, which are given as pairs of group id and partition."""
        for start in range(0, len(offsets), _RECORDS_PER_BATCH):
            deleted = offsets[start : start + _RECORDS_PER_BATCH]
            self._append([NewRecord(now_ms, offset_key(*each), None) for each in deleted])
            for group_id, partition in deleted:
                del self._committed[group_id][partition]
                if not self._committed[group_id]:
                    del self._committed[group_id]

    def _append(self, records: list[NewRecord]) -> None:
        self._log.append_own(records)
        self._records += len(records)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        """Change the state as a record of the log says. A record of an unknown kind or version is skipped."""
        try:
            version = int.from_bytes(key[:2], "big")
            if version in _OFFSET_KEYS:
                self._apply_offset(OffsetCommitKey.decode_blob(key), value)
            elif version == _GENERATION_KEY:
                group_id = GroupMetadataKey.decode_blob(key).group
                if value is None:
                    self._generations.pop(group_id, None)
                else:
                    self._generations[group_id] = GroupMetadataValue.decode_blob(value)
            else:
                raise ProtocolError(f"the key has the unknown version {version}")
        except ProtocolError as error:
            _logger.warning("%s: a record was skipped: %s", self.name, error)

    def _apply_offset(self, key: OffsetCommitKey, value: bytes | None) -> None:
        partition = TopicPartition(key.topic, key.partition)
        offsets = self._committed.setdefault(key.group, {})
        if value is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = read_offset(value)
        if not offsets:
            del self._committed[key.group]


def generation_key(group_id: str) -> bytes:
    """Return the key of the record that stores the last generation of *group_id*."""
    return GroupMetadataKey(group=group_id).encode_blob()


def generation_value(generation: GroupMetadataValue) -> bytes:
    """Return the value of the record that stores *generation*, in version 3, which every Kafka since 2.3 can
    read."""
    return generation.encode_blob(_GENERATION)
