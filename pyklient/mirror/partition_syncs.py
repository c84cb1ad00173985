"""The offset syncs of the partitions that a task of a mirror copies. They are noted when copies are
confirmed, and stored in the target cluster after the offsets of the records were committed."""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pyklient.admin import Admin
from pyklient.counted import counted
from pyklient.errors import KafkaError
from pyklient.kernel import Delivery
from pyklient.mirror.offset_syncs import OffsetSyncs
from pyklient.mirror.sent_records import ConfirmedRecords
from pyklient.mirror.sync_topic import SYNC_TOPIC, StoredSync, create_sync_topic, read_syncs, sync_record
from pyklient.mirror.target_admin import TargetAdmin
from pyklient.net.backoff import Backoff
from pyklient.outage import Outage
from pyklient.producer.producer import Producer
from pyklient.topic_partition import TopicPartition

__all__ = ["PartitionSyncs"]

_log = logging.getLogger("pyklient.mirror")

_CALL_TIMEOUT: Final = 10.0
"""The seconds that a call to a cluster may take."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
"""The longest pause, in seconds, between two attempts to store offset syncs in the target cluster."""


class _Sent(NamedTuple):
    """An offset sync that was sent to the target cluster. *delivery* tells if it is stored there."""

    source: TopicPartition
    syncs: OffsetSyncs
    slot: int
    delivery: Delivery


class PartitionSyncs:
    """The offset syncs of the partitions that a task of a mirror copies. Only the thread of the task uses
    this object.

    *options* are those of a consumer of the target cluster, and *admin* and *producer* are clients of it.
    *source* is a client of the source cluster.

    Offset syncs are stored only after the offsets of their records have been committed. A member that has
    lost a partition cannot commit, and so stores no offset syncs of this partition.
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
        """The offset syncs of each partition, as of the last commit. The mapping is replaced as a whole, so
        that another thread may read it."""
        self._options = options
        self._mirror_group = mirror_group
        self._admin = admin
        self._producer = producer
        self._source = source
        self._syncs: dict[TopicPartition, OffsetSyncs] = {}
        self._topic_ids: dict[str, str] = {}
        """The ids of the target topics, as of the last look-up."""
        self._unread: set[TopicPartition] = set()
        """The partitions whose offset syncs could not be read from the target cluster yet."""
        self._due: set[TopicPartition] = set()
        """The partitions whose offsets were committed, and whose offset syncs must be stored next."""
        self._sent: list[_Sent] = []
        """The offset syncs that were sent to the target cluster, and whose results are not known yet. Until
        these are known, no other offset syncs are sent."""
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._failures = 0
        """The number of failed attempts to store offset syncs. It is set to 0 when all offset syncs are
        stored."""
        self._try_at = 0.0
        """The time of the next attempt after a failure."""
        self._outage = Outage(_log, f"storing offset syncs in topic {SYNC_TOPIC}", "mirror_syncs_outage")

    def begin(self, partitions: Collection[TopicPartition], *, assigned: bool) -> None:
        """Forget the offset syncs of *partitions* in memory. If *assigned* is true, this task copies
        *partitions* from now on, and continues with the offset syncs that are stored in the target cluster.

        If the stored offset syncs cannot be read now, they are read when the target cluster has confirmed the
        first copied records.
        """
        for each in partitions:
            self._syncs.pop(each, None)
        self._due.difference_update(partitions)
        self._unread.difference_update(partitions)
        self.latest = {each: syncs for each, syncs in self.latest.items() if each not in partitions}
        if not assigned:
            return
        try:
            self._read(partitions)
        except KafkaError as error:
            self._unread.update(partitions)
            _log.warning(
                "the mirror cannot read its offset syncs (the offsets of copied records in both clusters) "
                "from topic %s. It tries again. The error: %s",
                SYNC_TOPIC,
                error,
            )

    def note(self, confirmed: Iterable[ConfirmedRecords]) -> None:
        """Remember which offsets the records *confirmed* have in the target cluster, which has stored
        them."""
        for each in confirmed:
            if each.source in self._unread:
                self._read_unread()
            if each.target_offset >= 0 and (syncs := self._syncs.get(each.source)) is not None:
                syncs.note(each.offset, each.target_offset, each.record_count)

    def _read_unread(self) -> None:
        """Read the stored offset syncs that could not be read before. If that fails again, begin without any.
        A committed offset that is smaller than the offset of the next copied record is then translated to the
        start of the log."""
        partitions, self._unread = self._unread, set()
        try:
            self._read(partitions)
        except KafkaError as error:
            self._continue_with({}, partitions)
            _log.warning(
                "the mirror cannot read its offset syncs (the offsets of copied records in both clusters) "
                "from topic %s, so groups that move to the target cluster may read more records twice: %s",
                SYNC_TOPIC,
                error,
            )

    def _read(self, partitions: Collection[TopicPartition]) -> None:
        self._find_topics(_CALL_TIMEOUT)
        self._continue_with(read_syncs(self._options, self._mirror_group), partitions)

    def _continue_with(
        self,
        stored: Mapping[TopicPartition, Mapping[int, StoredSync]],
        partitions: Collection[TopicPartition],
    ) -> None:
        ends = self._source_ends(partitions)
        for each in partitions:
            topic_id = self._topic_ids.get(each.topic)
            slots = {slot: found.sync for slot, found in stored.get(each, {}).items() if found.fits(topic_id)}
            self._syncs[each] = OffsetSyncs(slots, ends.get(each))
        self._show(partitions)

    def store(self, partitions: Iterable[TopicPartition]) -> None:
        """Store the offset syncs (pairs of source and target offsets) of *partitions*, whose offsets were
        committed. After a failure, :meth:`retry` tries again."""
        self._due.update(each for each in partitions if each in self._syncs)
        self._look_for_results()
        if self._due and time.monotonic() >= self._try_at:
            self._try(_CALL_TIMEOUT)

    def retry(self) -> None:
        """Store the offset syncs that could not be stored yet, if the pause after the last failure is over.
        The task calls this often."""
        self._look_for_results()
        if self._due and not self._sent and time.monotonic() >= self._try_at:
            self._try(_CALL_TIMEOUT)

    def flush(self, timeout: float) -> None:
        """Store the offset syncs of all records whose offsets are committed. Wait until they are stored, for
        *timeout* seconds at most, and try again after failures."""
        deadline = time.monotonic() + timeout
        while True:
            self._look_for_results()
            if not self._sent and not self._due:
                return
            if (left := deadline - time.monotonic()) <= 0:
                _log.warning(
                    "the last offset syncs of %s were not stored in topic %s within %g s. They tell which "
                    "offsets the copied records have, so groups that move to the target cluster may read "
                    "more records twice",
                    counted(len(self._due.union(each.source for each in self._sent)), "partition"),
                    SYNC_TOPIC,
                    timeout,
                )
                return
            if self._sent:
                self._wait_until_sent(left)
            elif (pause := self._try_at - time.monotonic()) > 0:
                time.sleep(min(pause, left))
            else:
                self._try(min(left, _CALL_TIMEOUT))

    def _try(self, timeout: float) -> None:
        """Send the offset syncs that are due, unless earlier ones are not confirmed yet. *timeout* is the
        time-out of a call to the target cluster, in seconds."""
        try:
            self._find_topics(timeout)
            self._show(self._due)
            if not self._sent:
                self._send()
        except KafkaError as error:
            self._failed(error)
        else:
            self._succeeded()

    def _wait_until_sent(self, timeout: float) -> None:
        try:
            self._producer.flush(timeout)
        except KafkaError as error:
            _log.debug("some offset syncs (the offsets of copied records) are not stored yet: %s", error)

    def _succeeded(self) -> None:
        """If all offset syncs are stored after a failure, forget the earlier failures, and log that storing
        works again."""
        if self._failures and not self._sent and not self._due:
            self._failures, self._try_at = 0, 0.0
            self._outage.ended()

    def _failed(self, error: BaseException) -> None:
        """Count an attempt to store offset syncs that has failed with *error*, and set the time of the next
        attempt."""
        self._failures += 1
        self._try_at = time.monotonic() + self._backoff.pause(self._failures)
        self._outage.failed(error, "trying again")

    def _show(self, partitions: Collection[TopicPartition]) -> None:
        """Copy the present offset syncs of *partitions* to ``latest``, where another thread may read them."""
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
        """Send the offset syncs that have changed. If one of them cannot be sent, raise the error; the
        remaining ones are then sent later."""
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
        """Find the offset syncs that the target cluster could not store, so that they are sent to it
        again."""
        waiting: list[_Sent] = []
        failure: BaseException | None = None
        for each in self._sent:
            if not each.delivery.done():
                waiting.append(each)
            elif (error := each.delivery.exception(0)) is not None:
                failure = error
                if self._syncs.get(each.source) is each.syncs:
                    each.syncs.keep_changes([each.slot])
                    self._due.add(each.source)
        if failure is not None:
            self._failed(failure)
        self._sent = waiting
        self._succeeded()

    def _find_topics(self, timeout: float) -> None:
        """Find the ids of the target topics. Forget the offset syncs of topics that were deleted and created
        again since the last call. If the topic that stores the syncs is gone, create it, and let all syncs be
        stored again."""
        found = self._admin.topic_ids(timeout)
        is_new = SYNC_TOPIC not in found and create_sync_topic(self._admin, timeout)
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
        """Forget the offset syncs (pairs of source and target offsets) of *topic*, because its target offsets
        begin again at 0."""
        again = [each for each in self._syncs if each.topic == topic]
        for each in again:
            self._syncs[each].forget_all()
        self._due.update(again)
        if again:
            _log.warning(
                "topic %s was deleted and created again in the target cluster; until the mirror has copied "
                "records to it, the offsets of groups are translated to its start",
                topic,
            )

    def _source_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the ends of *partitions* in the source cluster. Return no ends if the source cluster cannot
        be reached."""
        try:
            return self._source.end_offsets(list(partitions), timeout=_CALL_TIMEOUT)
        except KafkaError as error:
            _log.debug("the end offsets of the source partitions are not known: %s", error)
            return {}
