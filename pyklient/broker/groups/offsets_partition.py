"""One partition of ``__consumer_offsets``, in which the state of some groups is stored: their committed
offsets, their pending offsets, and their last generations.

The state is in memory and in the log of the partition. After a restart the state is loaded from the log.
"""

import logging
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import Final

from pyklient.broker.groups.committed_offset import CommittedOffset, offset_key, offset_value, read_offset
from pyklient.broker.groups.pending_offsets import PendingOffsets
from pyklient.broker.log.partition_log import PartitionLog, ProducerIdentity
from pyklient.broker.log.transaction_markers import read_marker
from pyklient.errors import ProtocolError
from pyklient.protocol.messages.offsets_topic import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from pyklient.protocol.records import DecodedRecord, NewRecord, RecordBatch
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
        self._pending = PendingOffsets()
        self._generations: dict[str, GroupMetadataValue] = {}
        self._records = 0

    @property
    def name(self) -> str:
        """The topic and number of the partition, such as ``__consumer_offsets-7``, for log messages."""
        return self._log.directory.name

    @property
    def groups(self) -> set[str]:
        """The ids of all groups that have offsets or a generation in the partition."""
        return self._committed.keys() | self._generations.keys() | self._pending.groups

    @property
    def topics(self) -> set[str]:
        """The names of all topics for which groups have committed offsets. This includes offsets in
        transactions that have not ended yet."""
        committed = {partition.topic for offsets in self._committed.values() for partition in offsets}
        return committed | self._pending.topics

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group; empty if there are none."""
        return self._committed.get(group_id, {})

    def pending(self, group_id: str) -> set[TopicPartition]:
        """Return the partitions for which a group has committed offsets in transactions that have not ended
        yet."""
        return self._pending.partitions(group_id)

    def generation(self, group_id: str) -> GroupMetadataValue | None:
        return self._generations.get(group_id)

    def load(self) -> Generator[None]:
        """Read the state of all groups from the log.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        since_step = 0
        for batch, records in self._log.batches():
            if batch.is_control:
                self._apply_marker(batch)
            for record in records:
                if record.key is not None and not batch.is_control:
                    self._apply(batch, record, record.key)
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
        self._append(_offset_records(group_id, offsets, now_ms))
        self._set(group_id, offsets)

    def commit_in_transaction(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer: ProducerIdentity,
        now_ms: int,
    ) -> None:
        """Store the *offsets* that a group commits in the open transaction of *producer*. They are in the log
        when this method returns, but stay pending until the transaction commits."""
        log_offset = self._log.end_offset
        self._append(_offset_records(group_id, offsets, now_ms), producer)
        self._pending.add(producer.producer_id, group_id, offsets, log_offset)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or discard the offsets that belong to a producer's transaction. The caller has written the
        marker that ends the transaction into the log."""
        self._records += 1
        self._end_transaction(producer_id, is_commit=is_commit)

    def store_generation(self, group_id: str, generation: GroupMetadataValue, now_ms: int) -> None:
        """Store a completed *generation* of the group, so that the group can be restored after a restart.

        Raises OSError if the log cannot be written. In memory, a generation without members replaces the
        previous one even then: its timestamp decides when the offsets of the group expire.
        """
        if not generation.members:
            self._generations[group_id] = generation
        self._append([NewRecord(now_ms, generation_key(group_id), generation_value(generation))])
        self._generations[group_id] = generation

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Delete the committed offsets of a group for *partitions*."""
        known = self._stored(group_id)
        self._delete([(group_id, partition) for partition in partitions if partition in known], now_ms)

    def delete_group(self, group_id: str, now_ms: int) -> None:
        """Delete all committed offsets and the generation of a group."""
        partitions = self._stored(group_id)
        keys = [offset_key(group_id, partition) for partition in partitions]
        if group_id in self._generations:
            keys.append(generation_key(group_id))
        if keys:
            self._append([NewRecord(now_ms, key, None) for key in keys])
        self._committed.pop(group_id, None)
        self._pending.outdate(group_id, partitions)
        self._generations.pop(group_id, None)

    def delete_topics(self, topics: Collection[str], now_ms: int) -> None:
        """Delete the committed offsets of all groups for the deleted *topics*, so that a new topic of the
        same name starts without committed offsets."""
        found = [
            (group_id, partition)
            for group_id in self._committed.keys() | self._pending.groups
            for partition in self._stored(group_id)
            if partition.topic in topics
        ]
        self._delete(found, now_ms)

    def _stored(self, group_id: str) -> set[TopicPartition]:
        """Return the partitions for which a group has committed offsets, in or outside transactions."""
        return self._committed.get(group_id, {}).keys() | self._pending.partitions(group_id)

    def _delete(self, offsets: Sequence[tuple[str, TopicPartition]], now_ms: int) -> None:
        """Delete committed *offsets*, which are given as pairs of group id and partition."""
        for start in range(0, len(offsets), _RECORDS_PER_BATCH):
            deleted = offsets[start : start + _RECORDS_PER_BATCH]
            self._append([NewRecord(now_ms, offset_key(*each), None) for each in deleted])
            for group_id, partition in deleted:
                self._unset(group_id, partition)

    def _append(self, records: list[NewRecord], producer: ProducerIdentity | None = None) -> None:
        self._log.append_own(records, producer)
        self._records += len(records)

    def _set(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Set the committed *offsets* of a group, whose records are at the end of the log. Older pending
        offsets for the same partitions are then outdated."""
        self._committed.setdefault(group_id, {}).update(offsets)
        self._pending.outdate(group_id, offsets)

    def _unset(self, group_id: str, partition: TopicPartition) -> None:
        offsets = self._committed.get(group_id, {})
        offsets.pop(partition, None)
        if not offsets:
            self._committed.pop(group_id, None)
        self._pending.outdate(group_id, [partition])

    def _end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for group_id, offsets in self._pending.end(producer_id, is_commit=is_commit).items():
            if offsets:
                self._committed.setdefault(group_id, {}).update(offsets)

    def _apply(self, batch: RecordBatch, record: DecodedRecord, key: bytes) -> None:
        """Apply *record* of the log: change or delete the offset or the generation that *key* names. A record
        of an unknown kind or version is skipped."""
        try:
            version = int.from_bytes(key[:2], "big")
            if version in _OFFSET_KEYS:
                self._apply_offset(batch, record, OffsetCommitKey.decode_blob(key))
            elif version == _GENERATION_KEY:
                group_id = GroupMetadataKey.decode_blob(key).group
                if record.value is None:
                    self._generations.pop(group_id, None)
                else:
                    self._generations[group_id] = GroupMetadataValue.decode_blob(record.value)
            else:
                raise ProtocolError(f"the key of the record has the unknown version {version}")
        except ProtocolError as error:
            _logger.warning("%s: a record was skipped: %s", self.name, error)

    def _apply_offset(self, batch: RecordBatch, record: DecodedRecord, key: OffsetCommitKey) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if record.value is None:
            self._unset(key.group, partition)
            return
        offsets = {partition: read_offset(record.value)}
        if batch.is_transactional:
            self._pending.add(batch.producer_id, key.group, offsets, record.offset)
        else:
            self._set(key.group, offsets)

    def _apply_marker(self, batch: RecordBatch) -> None:
        try:
            marker = read_marker(batch.buffer)
        except ProtocolError as error:
            _logger.warning("%s: a control batch was skipped: %s", self.name, error)
            return
        if marker is not None:
            self._end_transaction(marker.producer_id, is_commit=marker.is_commit)


def _offset_records(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], now_ms: int
) -> list[NewRecord]:
    return [
        NewRecord(now_ms, offset_key(group_id, partition), offset_value(committed))
        for partition, committed in offsets.items()
    ]


def generation_key(group_id: str) -> bytes:
    """Return the key of the record that stores the last generation of *group_id*."""
    return GroupMetadataKey(group=group_id).encode_blob()


def generation_value(generation: GroupMetadataValue) -> bytes:
    """Return the value of the record that stores *generation*, in version 3, which every Kafka since 2.3 can
    read."""
    return generation.encode_blob(_GENERATION)
