"""The topic in the target cluster in which mirrors keep their offset syncs.

The topic is compacted. Each record stores one slot of one source partition: its key has the group of the
mirror, the topic, the partition and the number of the slot. Its value has the sync, or is null if the slot is
empty.
"""

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from pyklient.admin import Admin
from pyklient.consumer.bounded_read import read
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, KafkaError
from pyklient.kernel import Delivery
from pyklient.mirror.offset_syncs import OffsetSync, OffsetSyncs
from pyklient.mirror.sent_records import ConfirmedRecords
from pyklient.producer.producer import Producer
from pyklient.topic_partition import TopicPartition

__all__ = ["SYNC_TOPIC", "PartitionSyncs", "create_sync_topic", "read_syncs"]

_log = logging.getLogger("pyklient.mirror")

SYNC_TOPIC: Final = "pyklient-mirror-syncs"
_REPLICAS: Final = 3
"""The number of replicas of the topic, if the target cluster has as many brokers."""
_CALL_TIMEOUT: Final = 10.0
"""The seconds that a call to the source cluster may take."""


def create_sync_topic(admin: Admin) -> None:
    """Create the topic in the cluster of *admin*, unless it exists."""
    if SYNC_TOPIC in admin.topics():
        return
    replicas = min(_REPLICAS, max(1, len(admin.cluster().brokers)))
    try:
        admin.create_topic(SYNC_TOPIC, 1, replicas, {"cleanup.policy": "compact"})
    except BrokerError as error:
        # Another task or process may create the topic at the same time.
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def read_syncs(options: Mapping[str, Any], mirror_group: str) -> dict[TopicPartition, dict[int, OffsetSync]]:
    """Return the syncs of the mirror whose group is *mirror_group*: those of each source partition, by slot.

    *options* are those of a consumer of the target cluster. Records that this release cannot read are left
    out, so the partition's offsets are translated to smaller ones.
    """
    found: dict[TopicPartition, dict[int, OffsetSync]] = {}
    with read(topics=SYNC_TOPIC, **options) as messages:
        for message in messages:
            try:
                group, topic, partition, slot = json.loads(message.key)
                sync = None if message.value is None else OffsetSync(*map(int, json.loads(message.value)))
            except (ValueError, TypeError):
                _log.warning(
                    "the record at offset %d of %s is not an offset sync, and is ignored",
                    message.offset,
                    SYNC_TOPIC,
                )
                continue
            if group != mirror_group:
                continue
            slots = found.setdefault(TopicPartition(topic, partition), {})
            slots.pop(slot, None)
            if sync is not None:
                slots[slot] = sync
    return found


class PartitionSyncs:
    """The offset syncs of the partitions that a task of a mirror copies. The thread of the task uses it.

    *options* are those of a consumer of the target cluster, and *admin* and *producer* are clients of it.
    *source* is a client of the source cluster.

    Syncs are stored only after the mirror's group has accepted the offsets of their records. So a member that
    has lost a partition stores no syncs of it.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        mirror_group: str,
        admin: Admin,
        producer: Producer,
        source: Admin,
    ) -> None:
        self.latest: Mapping[TopicPartition, tuple[OffsetSync, ...]] = {}
        """The syncs of each partition, as of the last commit. It is replaced as a whole, so that another
        thread may read it."""
        self._options = options
        self._mirror_group = mirror_group
        self._admin = admin
        self._producer = producer
        self._source = source
        self._syncs: dict[TopicPartition, OffsetSyncs] = {}
        self._sent: list[tuple[OffsetSyncs, int, Delivery]] = []

    def begin(self, partitions: Collection[TopicPartition], *, assigned: bool) -> None:
        """Forget what is known of *partitions*. If they are *assigned* now, continue with their stored syncs.

        If the stored syncs cannot be read, begin without syncs. Then the offsets of records that were copied
        before are translated to smaller ones.
        """
        for each in partitions:
            self._syncs.pop(each, None)
        self.latest = {each: syncs for each, syncs in self.latest.items() if each not in partitions}
        if not assigned:
            return
        try:
            create_sync_topic(self._admin)
            stored = read_syncs(self._options, self._mirror_group)
        except KafkaError as error:
            _log.warning(
                "the offset syncs in %s cannot be read, so groups may get more records again: %s",
                SYNC_TOPIC,
                error,
            )
            stored = {}
        ends = self._source_ends(partitions)
        self._syncs |= {each: OffsetSyncs(stored.get(each), ends.get(each)) for each in partitions}
        self.latest = {**self.latest, **{each: self._syncs[each].all for each in partitions}}

    def _source_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the ends of *partitions* in the source cluster; none if it cannot be reached."""
        try:
            return self._source.end_offsets(list(partitions), timeout=_CALL_TIMEOUT)
        except KafkaError as error:
            _log.debug("the ends of the source partitions are not known: %s", error)
            return {}

    def note(self, confirmed: Iterable[ConfirmedRecords]) -> None:
        """Record that the target cluster has stored the records *confirmed*."""
        for each in confirmed:
            if each.target_offset >= 0 and (syncs := self._syncs.get(each.source)) is not None:
                syncs.note(each.offset, each.target_offset, each.record_count)

    def store(self, partitions: Iterable[TopicPartition]) -> None:
        """Store the syncs of *partitions*, whose offsets were committed."""
        self._look_for_failures()
        latest = dict(self.latest)
        for each in partitions:
            if (syncs := self._syncs.get(each)) is None:
                continue
            latest[each] = syncs.all
            for slot, sync in syncs.pop_changes().items():
                key = json.dumps([self._mirror_group, each.topic, each.partition, slot]).encode()
                value = None if sync is None else json.dumps(sync).encode()
                try:
                    delivery = self._producer.send(SYNC_TOPIC, value, key=key, partition=0)
                except KafkaError as error:
                    syncs.keep_changes([slot])
                    _log.debug("an offset sync was not sent, and will be sent again: %s", error)
                else:
                    self._sent.append((syncs, slot, delivery))
        self.latest = latest

    def _look_for_failures(self) -> None:
        """Find the syncs that could not be stored, so that they are sent again."""
        unknown: list[tuple[OffsetSyncs, int, Delivery]] = []
        for syncs, slot, delivery in self._sent:
            if not delivery.done():
                unknown.append((syncs, slot, delivery))
            elif delivery.exception(0) is not None:
                syncs.keep_changes([slot])
        self._sent = unknown
