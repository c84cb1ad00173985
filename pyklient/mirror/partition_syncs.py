"""The offset syncs of the partitions that a task of a mirror copies. They are noted when copies are
confirmed, and stored in the target cluster after the offsets of the records were committed."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pyklient.admin import Admin
from pyklient.errors import KafkaError
from pyklient.kernel import Delivery
from pyklient.mirror.offset_syncs import OffsetSyncs
from pyklient.mirror.sent_records import ConfirmedRecords
from pyklient.mirror.sync_topic import SYNC_TOPIC, StoredSync, create_sync_topic, read_syncs, sync_record
from pyklient.mirror.target_admin import TargetAdmin
from pyklient.producer.producer import Producer
from pyklient.topic_partition import TopicPartition

__all__ = ["PartitionSyncs"]

_log = logging.getLogger("pyklient.mirror")

_CALL_TIMEOUT: Final = 10.0
"""The seconds that a call to a cluster may take."""


class _Sent(NamedTuple):
    """A slot that was sent to the target cluster."""

    source: TopicPartition
    syncs: OffsetSyncs
    slot: int
    delivery: Delivery


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
        admin: TargetAdmin,
        producer: Producer,
        source: Admin,
    ) -> None:
        self.latest: Mapping[TopicPartition, tuple[StoredSync, ...]] = {}
        """The syncs of each partition, as of the last commit. It is replaced as a whole, so that another
        thread may read it."""
        self._options = options
        self._mirror_group = mirror_group
        self._admin = admin
        self._producer = producer
        self._source = source
        self._syncs: dict[TopicPartition, OffsetSyncs] = {}
        self._topic_ids: dict[str, str] = {}
        """The ids of the target topics, as they were found last."""
        self._due: set[TopicPartition] = set()
        """The partitions whose syncs are to be stored: their offsets were committed."""
        self._sent: list[_Sent] = []
        """The slots that are not confirmed yet. No others are sent meanwhile."""

    def begin(self, partitions: Collection[TopicPartition], *, assigned: bool) -> None:
        """Forget what is known of *partitions*. If they are *assigned* now, continue with their stored syncs.

        If the stored syncs cannot be read, begin without syncs. Then the offsets of records that were copied
        before are translated to smaller ones.
        """
        for each in partitions:
            self._syncs.pop(each, None)
        self._due.difference_update(partitions)
        self.latest = {each: syncs for each, syncs in self.latest.items() if each not in partitions}
        if not assigned:
            return
        try:
            self._find_topics()
            stored = read_syncs(self._options, self._mirror_group)
        except KafkaError as error:
            _log.warning(
                "the offset syncs in %s cannot be read, so groups may get more records again: %s",
                SYNC_TOPIC,
                error,
            )
            stored = {}
        ends = self._source_ends(partitions)
        for each in partitions:
            topic_id = self._topic_ids.get(each.topic)
            slots = {slot: found.sync for slot, found in stored.get(each, {}).items() if found.fits(topic_id)}
            self._syncs[each] = OffsetSyncs(slots, ends.get(each))
        self._show(partitions)

    def note(self, confirmed: Iterable[ConfirmedRecords]) -> None:
        """Record that the target cluster has stored the records *confirmed*."""
        for each in confirmed:
            if each.target_offset >= 0 and (syncs := self._syncs.get(each.source)) is not None:
                syncs.note(each.offset, each.target_offset, each.record_count)

    def store(self, partitions: Iterable[TopicPartition]) -> None:
        """Store the syncs of *partitions*, whose offsets were committed, and those that could not be stored
        before. After a failure, the next call tries again."""
        self._due.update(each for each in partitions if each in self._syncs)
        self._look_for_results()
        if not self._due:
            return
        try:
            self._find_topics()
            self._show(self._due)
            if not self._sent:
                self._send()
        except KafkaError as error:
            _log.warning("the offset syncs are not stored yet, and will be with the next commit: %s", error)

    def flush(self, timeout: float) -> None:
        """Wait for *timeout* seconds at most until the syncs that were sent are stored."""
        if not self._sent:
            return
        try:
            self._producer.flush(timeout)
        except KafkaError as error:
            _log.warning(
                "the last offset syncs are not stored, so groups may get more records again: %s", error
            )
        self._look_for_results()

    def _show(self, partitions: Collection[TopicPartition]) -> None:
        """Make the present syncs of *partitions* those that ``latest`` has."""
        self.latest = {
            **self.latest,
            **{
                each: tuple(
                    StoredSync(sync, self._topic_ids.get(each.topic)) for sync in self._syncs[each].all
                )
                for each in partitions
            },
        }

    def _send(self) -> None:
        """Send the slots that have changed. Raises the first error; then the other slots are sent later."""
        for source in sorted(self._due):
            syncs = self._syncs[source]
            changes = syncs.pop_changes()
            try:
                for slot, sync in list(changes.items()):
                    stored = None if sync is None else StoredSync(sync, self._topic_ids.get(source.topic))
                    key, value = sync_record(self._mirror_group, source, slot, stored)
                    delivery = self._producer.send(SYNC_TOPIC, value, key=key, partition=0)
                    self._sent.append(_Sent(source, syncs, slot, delivery))
                    del changes[slot]
            finally:
                syncs.keep_changes(changes)
            self._due.discard(source)

    def _look_for_results(self) -> None:
        """Find the syncs that could not be stored, so that they are sent again."""
        waiting: list[_Sent] = []
        for each in self._sent:
            if not each.delivery.done():
                waiting.append(each)
            elif each.delivery.exception(0) is not None and self._syncs.get(each.source) is each.syncs:
                each.syncs.keep_changes([each.slot])
                self._due.add(each.source)
        self._sent = waiting

    def _find_topics(self) -> None:
        """Find the ids of the target topics. Forget the syncs of topics that were deleted and created again
        since the last call. If the topic of the syncs is gone, create it, and let all syncs be stored
        again."""
        found = self._admin.topic_ids(timeout=_CALL_TIMEOUT)
        is_new = SYNC_TOPIC not in found and create_sync_topic(self._admin)
        for topic, topic_id in found.items():
            known = self._topic_ids.get(topic)
            if topic_id is None or topic_id == known:
                continue
            self._topic_ids[topic] = topic_id
            if known is not None and topic == SYNC_TOPIC:
                is_new = True
            elif known is not None:
                self._forget_syncs(topic)
        if is_new:
            for each in self._syncs.values():
                each.store_all()
            self._due.update(self._syncs)

    def _forget_syncs(self, topic: str) -> None:
        """Forget the syncs of *topic*, whose offsets in the target cluster begin anew."""
        again = [each for each in self._syncs if each.topic == topic]
        for each in again:
            self._syncs[each].forget_all()
        self._due.update(again)
        if again:
            _log.warning(
                "topic %s was deleted and created again in the target cluster; groups are translated to the "
                "start of it until new offset syncs are known",
                topic,
            )

    def _source_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the ends of *partitions* in the source cluster; none if it cannot be reached."""
        try:
            return self._source.end_offsets(list(partitions), timeout=_CALL_TIMEOUT)
        except KafkaError as error:
            _log.debug("the ends of the source partitions are not known: %s", error)
            return {}
