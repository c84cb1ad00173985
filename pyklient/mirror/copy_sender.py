"""Sends copies of messages and whole batches to the target cluster of a mirror."""

import logging
import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from pyklient.admin import Admin
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, KafkaError
from pyklient.kernel import Batch, Delivery, Message, append_messages, decode
from pyklient.mirror.assignment_changes import AssignmentChanges
from pyklient.mirror.deleted_topics import DeletedTopics
from pyklient.mirror.failed_copies import FailedCopies
from pyklient.mirror.producer_record import ProducerRecord
from pyklient.mirror.rules import Rules
from pyklient.mirror.sent_records import Copies, FailedRecords, Sent, SentRecords
from pyklient.mirror.target_topics import TargetTopics
from pyklient.outage import Outage
from pyklient.producer.mirror_producer import MirrorProducer
from pyklient.protocol.records import RecordBatch
from pyklient.topic_partition import TopicPartition

__all__ = ["CopySender"]

_T = TypeVar("_T")
_log = logging.getLogger("pyklient.mirror")

_PAUSE: Final = 0.5
"""The seconds between two attempts to send a record that the producer does not accept."""


class CopySender:
    """Sends copies of the messages that a task has read. The thread of the task uses it.

    *source* is a client of the source cluster. *producer* and *targets* belong to the target cluster.
    *records* gets the records that were sent, and *failures* gets the records that can never be sent. While
    the target cluster cannot be reached, the sender makes the *changes* of the assignment, and tries again
    until *stopping* is set.
    """

    def __init__(
        self,
        source: Admin,
        producer: MirrorProducer,
        targets: TargetTopics,
        rules: Rules,
        records: SentRecords,
        failures: FailedCopies,
        changes: AssignmentChanges,
        stopping: threading.Event,
    ) -> None:
        self._source = source
        self._producer = producer
        self._targets = targets
        self._rules = rules
        self._records = records
        self._failures = failures
        self._changes = changes
        self._stopping = stopping
        self._deleted = DeletedTopics(source)
        self._lost: set[TopicPartition] = set()
        self._outage = Outage(_log, f"mirroring to {producer!r}", "mirror_outage")

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Stop sending the messages of *partitions* that the task has read, because this member has lost
        *partitions*. If :meth:`send` is running, the copies of these messages that it has already sent are
        not recorded as sent."""
        self._lost.update(partitions)

    def forget_lost(self) -> None:
        """Forget which partitions are lost, because no message of them is left to send."""
        self._lost.clear()

    def send(self, messages: list[Message]) -> None:
        """Send a copy of each message, except for the messages of lost partitions. Stop when the mirror is
        closed."""
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
            self._records.add([each for each in sent if each[0] not in self._lost] if self._lost else sent)

    def _is_lost(self, message: Message) -> bool:
        return bool(self._lost) and TopicPartition(message.topic, message.partition) in self._lost

    def _pass_on(self, message: Message, sent: list[Sent]) -> None:
        """Send *message*, which may be a whole batch. A whole batch is decoded only if the producer uses
        another compression, or cannot send the batch as it is."""
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
        """Send *batch*, and return the new batch of the producer with the same records. Return *batch* itself
        if it is too large for the producer."""
        return self._producer.send_batch(message.topic, message.partition, batch) or batch

    def _send_copies(self, messages: list[Message], sent: list[Sent]) -> None:
        """Send a copy of each message. The kernel appends as many messages as it can at once.
        ``_send_message`` handles everything unusual, such as a topic that is not known, a full batch or an
        error."""
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
        """Send the records that the handler returns for *message*. Only the last of them moves the position
        past *message*, so the offset of *message* is committed after all of them are confirmed."""
        source, offset = TopicPartition(message.topic, message.partition), message.offset
        deliveries = [self._send(message, record) for record in self._handled(message)] or [None]
        sent += [(source, offset, offset, delivery) for delivery in deliveries[:-1]]
        sent.append((source, offset, offset + 1, deliveries[-1]))

    def _handled(self, message: Message) -> list[ProducerRecord]:
        """Return the records that the handler returns for *message*. An exception gets a note with the
        message."""
        assert self._rules.handler is not None
        try:
            records = self._rules.handler(message)
            if isinstance(records, ProducerRecord) or not isinstance(records, Iterable):
                raise TypeError(f"handler must return an iterable of ProducerRecords, not {records!r}")
            found = list(records)
            for each in found:
                if not isinstance(each, ProducerRecord):
                    raise TypeError(
                        f"handler must return an iterable of ProducerRecords, but it contains {each!r}"
                    )
        except Exception as error:
            error.add_note(f"message: {message.topic}-{message.partition} at offset {message.offset}")
            raise
        return found

    def _send(self, message: Message, record: ProducerRecord) -> Delivery | None:
        """Send *record*, a copy of *message*. Return None if the record was dropped, or if the partition of
        *message* was lost or deleted."""
        return self._deliver(message, record.topic, partial(self._producer.send, *record))

    def _deliver(self, message: Message, topic: str, send: Callable[[], _T], count: int = 1) -> _T | None:
        """Call *send*, which sends a copy of *message* to *topic*, and return its result. The copy has
        *count* records.

        While the target cluster cannot be reached, try again; if the mirror is closed meanwhile, raise
        _StoppedError. Return None if the copy was dropped, or if the partition of *message* was lost or
        deleted."""
        source = TopicPartition(message.topic, message.partition)
        while not self._lost or source not in self._lost:
            try:
                if not self._targets.has(topic, message.partition):
                    self._targets.prepare(self._source, message.topic, topic)
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
                    self._changes.make_all()
                    continue
                if error.retriable:
                    raise _StoppedError from error
                self._failures.note(FailedRecords(source, message.offset, count, error))
                return None
            self._outage.ended()
            return delivery
        return None


class _StoppedError(Exception):
    """The mirror was closed while a record could not be sent."""
