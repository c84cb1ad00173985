"""Copies the records of one source cluster: reads them as a member of a group, sends them, and commits their
offsets in the source cluster after the target cluster has confirmed them."""

import logging
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from pyklient.admin import Admin
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.mirror_connector import MirrorConnector
from pyklient.counted import counted
from pyklient.errors import CommitError, DeliveryError, KafkaError
from pyklient.mirror.assignment_changes import AssignmentChange, AssignmentChanges
from pyklient.mirror.copy_sender import CopySender
from pyklient.mirror.failed_copies import FailedCopies
from pyklient.mirror.partition_syncs import PartitionSyncs
from pyklient.mirror.rules import Rules
from pyklient.mirror.sent_records import SentRecords
from pyklient.mirror.sync_topic import SYNC_TOPIC
from pyklient.mirror.target_topics import TargetTopics
from pyklient.outage import Outage
from pyklient.producer.mirror_producer import MirrorProducer
from pyklient.topic_partition import TopicPartition

__all__ = ["MirrorTask"]

_log = logging.getLogger("pyklient.mirror")

_MOST_MESSAGES: Final = 2_000
"""The largest number of messages that a task sends before it looks for confirmed records."""
_LONGEST_WAIT: Final = 0.2
"""The seconds after which a task that gets no messages looks for confirmed records, and checks if the mirror
was closed."""
_CALL_TIMEOUT: Final = 10.0
"""The seconds after which a call to the source cluster is given up and made again."""
_PAUSE: Final = 0.5
"""The seconds between two calls to the source cluster if the first call has failed."""
_FLUSH_TIMEOUT: Final = 30.0
"""The seconds for which a task waits for unconfirmed records, before it gives up their partitions."""
_SYNC_TIMEOUT: Final = 5.0
"""The seconds for which a task that ends waits until its last offset syncs are stored."""
_MOST_SHOWN: Final = 5
"""The largest number of partitions that an error names."""


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
        """The offset syncs (pairs of source and target offsets) of the copied partitions. None if no offsets
        of groups are translated."""
        self.sent = SentRecords(skip_failed=not rules.abort_on_send_failure, tell_confirmed=syncs is not None)
        self.failures = FailedCopies(abort=rules.abort_on_send_failure)
        self.changes = AssignmentChanges(self._make)
        self._admin = admin
        self._producer = producer
        self._rules = rules
        self._stopping = stopping
        self._sender = CopySender(
            admin, producer, targets, rules, self.sent, self.failures, self.changes, stopping
        )
        self._ending = False
        """True when the task is ending. It then sends no more records, and waits for no more
        confirmations."""
        self._unfinished: set[TopicPartition] = set()
        """The partitions with records that were not confirmed or not committed when the task ended."""
        self._last_failure: KafkaError | None = None
        """The last error that kept records from being confirmed, or offsets from being committed."""

    def run(self) -> None:
        """Copy records until the mirror is closed. Raises the error of a record that could not be copied.
        Raises CommitError if not all records that were sent could be confirmed and committed in the end."""
        try:
            self.connector.set_rebalance_listener(self.changes)
            if not self._await_source():
                return
            stream = self.connector.mirror_stream(
                self._rules.topics, whole_batches=self._rules.passes_batches, excluded=[SYNC_TOPIC]
            )
            self.changes.task_makes_them = True
            try:
                self._copy(stream)
            except DeliveryError:
                with suppress(DeliveryError):  # of another partition
                    self._flush()
                raise
            self._finish()
        finally:
            self._ending, self.changes.task_makes_them = True, False
            try:
                self.connector.close()
            finally:
                self._admin.close()
        if self._unfinished:
            raise _unfinished_error(self._unfinished, self._last_failure)

    def _await_source(self) -> bool:
        """Wait until the source cluster answers. Return False if the mirror is closed before that."""
        outage = Outage(_log, f"reading with {self.connector!r}", "mirror_source_outage")
        while not self._stopping.is_set():
            try:
                self._admin.topics(timeout=_CALL_TIMEOUT)
            except KafkaError as error:
                if not error.retriable:
                    raise
                outage.failed(error, "trying again")
                self._stopping.wait(_PAUSE)
            else:
                outage.ended()
                return True
        return False

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
                self._sender.send(messages)
                self.changes.make_all()
            self._look_for_results()
            if self._stopping.is_set():
                return
            if (now := time.monotonic()) >= commit_at:
                commit_at = now + self._rules.commit_interval
                self._commit()
                self.changes.make_all()
            elif self.syncs is not None:
                self.syncs.retry()
            self._sender.forget_lost()

    # Results

    def _look_for_results(self) -> None:
        """Count the records that are confirmed or have failed. Raises the first failure, unless failed
        records are dropped."""
        confirmed, failed = self.sent.pop_done()
        if self.syncs is not None:
            self.syncs.note(confirmed)
        for each in failed:
            self.failures.note(each)

    # Commits

    def _commit(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit the positions of *partitions*, or of all partitions. A position is the offset before which
        all records are confirmed."""
        positions = self.sent.positions(partitions)
        if not positions:
            self._store_syncs(())
            return
        try:
            self.connector.commit_offsets(positions)
        except CommitError as error:
            # Another member owns some of the partitions now, and mirrors their records again.
            self._last_failure = error
            _log.warning("some records are copied again, because their offsets were not committed: %s", error)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._last_failure = error
            _log.warning(
                "the offsets of copied records were not committed. The mirror tries again. The error: %s",
                error,
            )
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
        """Commit the offsets of revoked partitions, and forget the state of all partitions of *change*."""
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
                self._sender.lose(change.partitions)
            self.sent.begin(change.partitions)
            if self.syncs is not None:
                self.syncs.begin(change.partitions, assigned=change.assigned)


def _unfinished_error(partitions: Collection[TopicPartition], reason: KafkaError | None) -> CommitError:
    shown = ", ".join(map(str, sorted(partitions)[:_MOST_SHOWN]))
    if (more := len(partitions) - _MOST_SHOWN) > 0:
        shown += f" and {more:,} more"
    because = "" if reason is None else f", because of an error: {reason}"
    return CommitError(
        f"the mirror has ended, but in {counted(len(partitions), 'partition')} ({shown}), some records that "
        f"it has sent are not confirmed or not committed{because}; the next run copies the records since the "
        "last commit again",
        dict.fromkeys(partitions, reason) if reason is not None else None,
    )
