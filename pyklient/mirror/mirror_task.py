"""Copies the records of one source cluster: reads them as a member of a group, sends them, and commits their
offsets in the source cluster after the target cluster has confirmed them."""

import logging
import threading
import time
from array import array
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from pyklient.admin import Admin
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.mirror_connector import MirrorConnector
from pyklient.consumer.topic_filters.topic_filter import TopicFilter
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, CommitError, DeliveryError, KafkaError
from pyklient.kernel import Batch, Delivery, Message, append_messages, decode
from pyklient.log_events import log_fields
from pyklient.mirror.assignment_changes import AssignmentChange, AssignmentChanges
from pyklient.mirror.deleted_topics import DeletedTopics
from pyklient.mirror.partition_syncs import PartitionSyncs
from pyklient.mirror.producer_record import Handler, ProducerRecord
from pyklient.mirror.sent_records import Copies, FailedRecords, Sent, SentRecords
from pyklient.mirror.sync_topic import SYNC_TOPIC
from pyklient.mirror.target_topics import TargetTopics
from pyklient.outage import Outage
from pyklient.producer.mirror_producer import MirrorProducer
from pyklient.protocol.records import Compression, RecordBatch
from pyklient.topic_partition import TopicPartition

__all__ = ["MirrorTask", "Rules"]

_T = TypeVar("_T")
_log = logging.getLogger("pyklient.mirror")

_MOST_MESSAGES: Final = 2_000
"""The largest number of messages that a task sends before it looks for confirmed records."""
_LONGEST_WAIT: Final = 0.2
"""The seconds after which a task that gets no messages looks for confirmed records, and checks if the mirror
was closed."""
_PAUSE: Final = 0.5
"""The seconds between two attempts to send a record that the producer does not accept."""
_FLUSH_TIMEOUT: Final = 30.0
"""The seconds for which a task waits for unconfirmed records, before it gives up their partitions."""
_SYNC_TIMEOUT: Final = 5.0
"""The seconds for which a task waits until the last offset syncs are stored."""
_MOST_SHOWN: Final = 5
"""The largest number of partitions that an error names."""


class Rules(NamedTuple):
    """The arguments of a Mirror that say how records are copied. ``commit_interval`` is in seconds."""

    topics: TopicFilter
    keep_partitions: bool
    handler: Handler | None
    abort_on_send_failure: bool
    commit_interval: float
    codec: Compression | None
    """The compression that the user has chosen for the target cluster. None if batches keep theirs."""

    @property
    def passes_batches(self) -> bool:
        """True if whole batches may be sent as they were fetched."""
        return self.keep_partitions and self.handler is None


class MirrorTask:
    """Copies the records of the source cluster that *connector* reads. *admin* is a client of this cluster
    too.

    Several tasks share *producer* and *targets*, which belong to the target cluster. :meth:`run` ends when
    *stopping* is set.
    """

    def __init__(
        self,
        connector: MirrorConnector,
        admin: Admin,
        producer: MirrorProducer,
        targets: TargetTopics,
        rules: Rules,
        syncs: PartitionSyncs | None,
        stopping: threading.Event,
    ) -> None:
        self.connector = connector
        self.syncs = syncs
        """The offset syncs of the copied partitions; None if no offsets of groups are translated."""
        self.sent = SentRecords(skip_failed=not rules.abort_on_send_failure, tell_confirmed=syncs is not None)
        self.dropped_count = 0
        """The number of records that could not be sent, and were dropped."""
        self._admin = admin
        self._producer = producer
        self._targets = targets
        self._deleted = DeletedTopics(admin)
        self._rules = rules
        self._stopping = stopping
        self.changes = AssignmentChanges(self._make)
        self._lost: set[TopicPartition] = set()
        """The partitions that this member has lost since it got the messages in hand. No more of these
        messages are sent, and those that were sent do not count."""
        self._ending = False
        """True if the task sends no more records, and has waited for those that were sent."""
        self._unfinished: set[TopicPartition] = set()
        """The partitions of which some records were not confirmed or committed when the task ended."""
        self._last_failure: KafkaError | None = None
        """Why records were not confirmed, or offsets not committed, when that failed last."""
        self._outage = Outage(_log, f"mirroring to {producer!r}", "mirror_outage")

    def run(self) -> None:
        """Copy records until the mirror is closed. Raises the error because of which a record could not be
        copied, or CommitError if not all records that were sent could be confirmed and committed in the
        end."""
        try:
            self.connector.set_rebalance_listener(self.changes)
            stream = self.connector.mirror_stream(
                self._rules.topics, whole_batches=self._rules.passes_batches, excluded=[SYNC_TOPIC]
            )
            self.changes.task_makes_them = True
            self._copy(stream)
            self._finish()
        finally:
            self._ending, self.changes.task_makes_them = True, False
            try:
                self.connector.close()
            finally:
                self._admin.close()
        if self._unfinished:
            raise _unfinished_error(self._unfinished, self._last_failure)

    def _finish(self) -> None:
        """Wait for the records that were sent, and commit their offsets."""
        self._flush()
        self._commit()
        if self.syncs is not None:
            self.syncs.flush(_SYNC_TIMEOUT)
        self._unfinished = self.sent.unfinished()

    def _copy(self, stream: KafkaStream) -> None:
        commit_at = time.monotonic() + self._rules.commit_interval
        for messages in stream.batches(_MOST_MESSAGES, _LONGEST_WAIT):
            self.changes.make_all()
            if messages:
                self._send_all(messages)
                self.changes.make_all()
            self._look_for_results()
            if self._stopping.is_set():
                return
            if (now := time.monotonic()) >= commit_at:
                commit_at = now + self._rules.commit_interval
                self._commit()
                self.changes.make_all()
            self._lost.clear()

    # Sending

    def _send_all(self, messages: list[Message]) -> None:
        """Send a copy of each message, except for those of lost partitions. Leave out the others when the
        mirror is closed."""
        sent: list[Sent] = []
        try:
            if self._rules.handler is None and not self._rules.passes_batches:
                self._send_copies(messages, sent)
                return
            send = self._pass_on if self._rules.passes_batches else self._handle_message
            for message in messages:
                if self._stopping.is_set():
                    return
                if not self._is_lost(message):
                    send(message, sent)
        except _StoppedError:
            pass
        finally:
            self.sent.add([each for each in sent if each[0] not in self._lost] if self._lost else sent)

    def _is_lost(self, message: Message) -> bool:
        return bool(self._lost) and TopicPartition(message.topic, message.partition) in self._lost

    def _pass_on(self, message: Message, sent: list[Sent]) -> None:
        """Send *message*, which may be a whole batch. A batch is decoded only if the producer would compress
        it in another way, or would not accept it as a batch."""
        batch = message.value
        if not isinstance(batch, RecordBatch):
            self._send_message(message, sent)
            return
        passed: Batch | RecordBatch | None = batch
        if self._rules.codec is None or self._rules.codec == batch.compression:
            append = partial(self._append_batch, message, batch)
            passed = self._deliver(message, message.topic, append, batch.count)
        if not isinstance(passed, RecordBatch):
            source = TopicPartition(message.topic, message.partition)
            sent.append((source, batch.base_offset, batch.next_offset, passed))
            return
        chunk = decode(batch.buffer, message.topic, message.partition, batch.base_offset)
        self._send_copies(chunk.hand_out(chunk.remaining), sent)

    def _append_batch(self, message: Message, batch: RecordBatch) -> Batch | RecordBatch:
        """Send *batch*, and return the new batch. Return *batch* itself if it is too large for the
        producer."""
        return self._producer.send_batch(message.topic, message.partition, batch) or batch

    def _send_copies(self, messages: list[Message], sent: list[Sent]) -> None:
        """Send a copy of each message. The kernel appends as many as it can at once; everything unusual, such
        as a topic that is not known, a full batch or an error, is left to ``_send_message``."""
        appender, keep = self._producer.appender, self._rules.keep_partitions
        done = 0
        while done < len(messages) and not self._stopping.is_set():
            message, count = messages[done], 0
            source = TopicPartition(message.topic, message.partition)
            if source not in self._lost and self._targets.has(*source):
                count, runs, targets = append_messages(appender, messages, done, keep)
            if not count:
                self._send_message(message, sent)
                done += 1
                continue
            first, last = message.offset, messages[done + count - 1].offset
            offsets: Sequence[int] = range(first, last + 1)
            if len(offsets) > count:
                offsets = array("q", [each.offset for each in messages[done : done + count]])
            sent.append((source, first, last + 1, Copies(offsets, runs, targets)))
            done += count

    def _send_message(self, message: Message, sent: list[Sent]) -> None:
        topic, partition, offset = message.topic, message.partition, message.offset
        record = ProducerRecord(
            topic,
            message.value,
            message.key,
            partition if self._rules.keep_partitions else None,
            message.timestamp_ms if message.timestamp_ms >= 0 else None,
            message.headers,
        )
        delivery = self._send(message, record)
        sent.append((TopicPartition(topic, partition), offset, offset + 1, delivery))

    def _handle_message(self, message: Message, sent: list[Sent]) -> None:
        """Send the records that the handler returns for *message*. Only the last one moves the position, so
        that the message counts as copied when all of them are confirmed."""
        assert self._rules.handler is not None
        source, offset = TopicPartition(message.topic, message.partition), message.offset
        deliveries = [self._send(message, record) for record in self._rules.handler(message)] or [None]
        sent += [(source, offset, offset, delivery) for delivery in deliveries[:-1]]
        sent.append((source, offset, offset + 1, deliveries[-1]))

    def _send(self, message: Message, record: ProducerRecord) -> Delivery | None:
        """Send *record*, a copy of *message*. Return None if the record was dropped."""
        return self._deliver(message, record.topic, partial(self._producer.send, *record))

    def _deliver(self, message: Message, topic: str, send: Callable[[], _T], count: int = 1) -> _T | None:
        """Return the result of *send*, which sends a copy of *message*, of *count* records, to *topic*.

        While the target cluster cannot be reached, try again. Return None if the copy was dropped, or if the
        partition of *message* was lost."""
        source = TopicPartition(message.topic, message.partition)
        while not self._lost or source not in self._lost:
            try:
                if not self._targets.has(topic, message.partition):
                    self._targets.prepare(self._admin, message.topic, topic)
                delivery = send()
            except KafkaError as error:
                if error.retriable and not self._stopping.is_set():
                    self._outage.failed(error, "trying again")
                    if isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        self._targets.forget(topic)
                        if self._deleted.has(source):
                            self._lost.add(source)
                            continue
                    self._stopping.wait(_PAUSE)
                    self.changes.make_all()
                    continue
                if error.retriable:
                    raise _StoppedError from error
                self._note_failed(FailedRecords(source, message.offset, count, error))
                return None
            self._outage.ended()
            return delivery
        return None

    # Results

    def _look_for_results(self) -> None:
        """Count the records that are confirmed or have failed. Raises the first failure, unless failed
        records are dropped."""
        confirmed, failed = self.sent.pop_done()
        if self.syncs is not None:
            self.syncs.note(confirmed)
        for each in failed:
            self._note_failed(each)

    def _note_failed(self, failed: FailedRecords) -> None:
        """Count and log *failed* as dropped, or raise the error that ends the mirror."""
        if self._rules.abort_on_send_failure:
            raise _abort_error(failed) from failed.error
        self.dropped_count += failed.record_count
        _log_dropped(failed)

    # Commits

    def _commit(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit the positions of *partitions*, or of all partitions, as far as records are confirmed."""
        positions = self.sent.positions(partitions)
        if not positions:
            self._store_syncs(())
            return
        try:
            self.connector.commit_offsets(positions)
        except CommitError as error:
            # Another member owns some of the partitions now, and mirrors their records again.
            self._last_failure = error
            _log.warning("some records are mirrored again, as their offsets were not committed: %s", error)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._last_failure = error
            _log.warning("the offsets of mirrored records were not committed, and will be later: %s", error)
        else:
            self.sent.committed(positions)
            self._store_syncs(positions)

    def _store_syncs(self, partitions: Collection[TopicPartition]) -> None:
        if self.syncs is not None:
            self.syncs.store(partitions)

    def _flush(self) -> None:
        """Wait for some time until the records that were sent are confirmed."""
        try:
            self._producer.flush(_FLUSH_TIMEOUT)
        except KafkaError as error:
            self._last_failure = error
            _log.debug("some records are not confirmed yet: %s", error)
        self._look_for_results()

    # Rebalances

    def _make(self, change: AssignmentChange) -> None:
        """Commit the offsets of revoked partitions, and forget what is known of all partitions of
        *change*."""
        try:
            if change.revoked and not change.expired:
                if not self._ending:
                    self._flush()
                self._look_for_results()
                self._commit(change.partitions)
                if self.syncs is not None:
                    self.syncs.flush(_SYNC_TIMEOUT)
                if self._ending:
                    self._unfinished.difference_update(change.partitions)
                    self._unfinished |= self.sent.unfinished(change.partitions)
        finally:
            if not change.assigned:
                self._lost.update(change.partitions)
            self.sent.begin(change.partitions)
            if self.syncs is not None:
                self.syncs.begin(change.partitions, assigned=change.assigned)


def _log_dropped(failed: FailedRecords) -> None:
    _log.error(
        "%s of %s, from offset %d on, could not be mirrored and %s dropped: %s",
        counted(failed.record_count, "record"),
        failed.source,
        failed.offset,
        "is" if failed.record_count == 1 else "are",
        failed.error,
        extra=log_fields(
            "mirror_records_dropped",
            partition=str(failed.source),
            offset=failed.offset,
            records=failed.record_count,
            error=str(failed.error),
        ),
    )


def _abort_error(failed: FailedRecords) -> DeliveryError:
    return DeliveryError(
        f"mirroring ends, because the record at offset {failed.offset} of {failed.source} could not be sent: "
        f"{failed.error}; no offset from this one on is committed. Remove the cause and start the mirror "
        "again, or let it drop such records (abort_on_send_failure=False)"
    )


def _unfinished_error(partitions: Collection[TopicPartition], reason: KafkaError | None) -> CommitError:
    shown = ", ".join(map(str, sorted(partitions)[:_MOST_SHOWN]))
    more = len(partitions) - _MOST_SHOWN
    return CommitError(
        "the mirror has ended, but not all records that it has sent are confirmed and committed, in "
        f"{counted(len(partitions), 'partition')} ({shown}{f' and {more} more' if more > 0 else ''}): "
        f"{reason}; the next run copies the records since the last commit again",
        dict.fromkeys(partitions, reason) if reason is not None else None,
    )


class _StoppedError(Exception):
    """The mirror was closed while a record could not be sent."""
