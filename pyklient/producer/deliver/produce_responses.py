"""Applies Produce responses and failed requests to batches, and reports the outcomes of records.

``RetryPolicy`` decides what happens to a batch. This module carries the decision out in the batch's queue,
and reports outcomes to the threads of users.
"""

import logging
import time
from typing import Any, Final, Self, TypeAlias

from pyklient.counted import counted
from pyklient.errors import (
    BrokerConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    broker_error,
    error_facts,
)
from pyklient.kernel import Batch
from pyklient.log_events import log_fields
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.retry_policy import (
    TOO_LARGE,
    Action,
    RetryPolicy,
    is_certainly_not_stored,
    is_out_of_sequence,
)
from pyklient.producer.deliver.sealed_batch import SealedBatch
from pyklient.producer.metadata_refresher import MetadataRefresher
from pyklient.producer.threads.timers import NEVER
from pyklient.producer.transactions.transaction import Transaction
from pyklient.protocol.messages import ProduceResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["Batches", "ProduceResponses"]

log = logging.getLogger("pyklient.producer")

_UNKNOWN: Final = -1
"""The value that stands for an unknown offset or timestamp."""

Batches: TypeAlias = dict[tuple[str, int], tuple[PartitionQueue, SealedBatch]]
"""The batches of a request by topic and partition, each with the queue of its partition."""

PartitionResponse: TypeAlias = ProduceResponse.TopicProduceResponse.PartitionProduceResponse


class ProduceResponses:
    """Applies Produce responses to the batches of their requests, and counts the outcomes. Callers must
    hold the sender lock.

    *delivery_timeout_ms* is used only in error messages.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        policy: RetryPolicy,
        metadata: MetadataRefresher,
        delivery_timeout_ms: int,
        transaction: Transaction | None,
    ) -> None:
        self._transaction = transaction
        self._accumulator = accumulator
        self._policy = policy
        self._metadata = metadata
        self._delivery_timeout_ms = delivery_timeout_ms
        self.counts = accumulator.counts
        """The counts of the producer's batches."""

    def apply(self, batches: Batches, response: ProduceResponse, node_id: int) -> None:
        """Apply the response of broker *node_id* to the *batches* of the request."""
        missing = dict(batches)
        errors: list[tuple[PartitionQueue, SealedBatch, PartitionResponse]] = []
        with _Confirmed(self._accumulator) as confirmed:
            for topic in response.responses:
                for one in topic.partition_responses:
                    found = missing.pop((topic.name, one.index), None)
                    if found is None:
                        continue
                    if one.error_code:
                        errors.append((*found, one))
                    else:
                        self._stored(*found, one.base_offset, one.log_append_time_ms, confirmed)
        if errors:  # the callbacks of failed batches may use the memory of the confirmed ones
            with _Confirmed(self._accumulator) as confirmed:
                for each in errors:
                    self._apply_error(*each, confirmed)
        for queue, batch in missing.values():
            error = BrokerConnectionError(
                f"the response of broker {node_id} to a Produce request has no result for {queue.at}"
            )
            self._retry_or_fail(queue, batch, error, in_doubt=True)

    def unanswered(self, batches: Batches, error: KafkaError, *, in_doubt: bool) -> None:
        """Retry or fail the batches of a request that gets no response because of *error*.

        If *in_doubt*, the broker may have stored the batches nevertheless.
        """
        for queue, batch in batches.values():
            self._retry_or_fail(queue, batch, error, in_doubt=in_doubt)

    def sent(self, batches: Batches) -> None:
        """Report *batches*, which were sent with ``acks=0``, as delivered, because no response will come."""
        with _Confirmed(self._accumulator) as confirmed:
            for queue, batch in batches.values():
                self._stored(queue, batch, _UNKNOWN, _UNKNOWN, confirmed)

    def failed(self, queue: PartitionQueue, batch: SealedBatch, error: KafkaError, *, in_doubt: bool) -> None:
        """Report *batch* as failed permanently. If *in_doubt*, the broker may have stored the batch
        nevertheless."""
        batch.in_doubt |= in_doubt
        self._fail_transaction(batch, error)
        queue.failed(batch)
        if not batch.expired:
            queue.outcomes.add(batch, _UNKNOWN, _UNKNOWN, error)
            self._report_outcomes(queue)

    def expire(self, queue: PartitionQueue, now: float) -> None:
        """Report the batches of *queue* that are older than ``delivery_timeout_ms`` as failed."""
        sealed, unsealed = queue.expire(now)
        for batch in sealed:
            error = self._timeout_error(queue, batch.count, batch.failure)
            self._fail_transaction(batch, error)
            queue.outcomes.add(batch, _UNKNOWN, _UNKNOWN, error)
        self._report_outcomes(queue)
        for open_batch in unsealed:
            error = self._timeout_error(queue, open_batch.count, None)
            self._fail_transaction(None, error)
            self._fail_unsealed(open_batch, error)

    def fail_all(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Report all batches of *queue* as failed with *error*."""
        self._fail_lists(queue, *queue.expire(NEVER), error)

    def drop_unsent(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Report the batches of *queue* that are not in flight as failed with *error*, because their
        transaction cannot be committed."""
        self._fail_lists(queue, *queue.remove_unsent(), error)

    def _fail_lists(
        self, queue: PartitionQueue, sealed: list[SealedBatch], unsealed: list[Batch], error: KafkaError
    ) -> None:
        for batch in sealed:
            self._fail_transaction(batch, error)
            queue.outcomes.add(batch, _UNKNOWN, _UNKNOWN, error)
        self._report_outcomes(queue)
        for open_batch in unsealed:
            self._fail_transaction(None, error)
            self._fail_unsealed(open_batch, error)

    def _fail_transaction(self, batch: SealedBatch | None, error: KafkaError) -> None:
        """Remember that the open transaction cannot be committed, because a batch has failed with *error*.
        *batch* is None if the batch was never sent."""
        if self._transaction is None:
            return
        self._transaction.fail(error)
        if batch is not None and batch.in_doubt:
            self._transaction.sequences_lost = True

    def _apply_error(
        self, queue: PartitionQueue, batch: SealedBatch, one: PartitionResponse, confirmed: "_Confirmed"
    ) -> None:
        """Apply *one*, which is the part of a response for *batch*, and contains an error code. Report the
        batch, send it again or split it. If the broker has stored the batch nevertheless, add it to
        *confirmed*."""
        code = one.error_code
        action = self._policy.after_error_code(batch, code)
        if action is Action.RETRY_IN_SEQUENCE and queue.transactional and queue.is_oldest(batch):
            action = Action.FAIL  # the batch needs a new epoch, which comes with the end of the transaction
        if action is Action.STORED:
            self._stored(queue, batch, _UNKNOWN, one.log_append_time_ms, confirmed)
            return
        self.counts.error(queue.at, code)
        error: KafkaError = broker_error(code, _context(queue, one))
        if error_facts(code).refresh_metadata:
            self._metadata.want()
        if action is Action.SPLIT:
            self._accumulator.appender.limit_batch_size(
                queue.topic, batch.batch.size * batch.count // batch.batch.count // 2
            )
            queue.split(batch)
        elif action is Action.RETRY_WITHOUT_IDEMPOTENCE:
            log.info(
                "idempotence is off for topic %s: the topic's record format is too old",
                queue.topic,
                extra=log_fields("idempotence_off", topic=queue.topic, error=str(error)),
            )
            queue.without_idempotence()
            self._retry(queue, batch, error, in_doubt=False)
        elif action is Action.RETRY_IN_SEQUENCE:
            log.info(
                "a batch of %s is sent again, after the batches that precede it, because of an error: %s",
                queue.at,
                error,
            )
            self.counts.retry(queue.at)
            queue.retry_in_sequence(batch, error, not_before=self._policy.not_before(batch))
        elif action is Action.RETRY:
            self._retry(queue, batch, error, in_doubt=not is_certainly_not_stored(code))
        else:
            if code in TOO_LARGE and batch.count == 1:
                error = _too_large(queue, batch, error, code)
            self._note_lost_sequences(queue, code)
            self.failed(queue, batch, error, in_doubt=not is_certainly_not_stored(code))

    def _note_lost_sequences(self, queue: PartitionQueue, code: int) -> None:
        """Remember that the next transaction needs a new epoch, if two conditions are true: a leader has
        rejected a batch with *code* because of its sequence number or epoch, and no earlier batch of *queue*
        has failed."""
        if self._transaction is None or queue.sequences is None or not is_out_of_sequence(code):
            return
        if not queue.sequences.broken:
            self._transaction.sequences_lost = True

    def _retry_or_fail(
        self, queue: PartitionQueue, batch: SealedBatch, error: KafkaError, *, in_doubt: bool
    ) -> None:
        if self._policy.after_failure(batch, error) is Action.RETRY:
            self._retry(queue, batch, error, in_doubt=in_doubt)
        else:
            self.failed(queue, batch, error, in_doubt=in_doubt)

    def _retry(self, queue: PartitionQueue, batch: SealedBatch, error: KafkaError, *, in_doubt: bool) -> None:
        log.debug(
            "a batch (%s) of %s is sent again, because of an error: %s",
            counted(batch.count, "record"),
            queue.at,
            error,
        )
        self.counts.retry(queue.at)
        queue.retry(batch, error, in_doubt=in_doubt, not_before=self._policy.not_before(batch))

    def _stored(
        self,
        queue: PartitionQueue,
        batch: SealedBatch,
        base_offset: int,
        log_append_time_ms: int,
        confirmed: "_Confirmed",
    ) -> None:
        """Report *batch*, which the broker has stored. If it is finished, add it to *confirmed*."""
        is_next = queue.stored(batch)
        if batch.attempts > 1 and log_append_time_ms == batch.timestamps[1]:
            # For a batch that it stored before, Kafka returns the newest timestamp of its records, whether
            # the broker or the producer set that.
            log_append_time_ms = _UNKNOWN
        if not batch.expired:
            whole, first = batch.batch, batch.first
            seconds = confirmed.now - whole.created
            self.counts.deliver(queue.at, batch.count, batch.size, seconds, confirmed.now)
            if is_next:
                stop = first + batch.count
                listeners = whole.report(first, stop, base_offset, log_append_time_ms, None)
                if listeners:
                    confirmed.with_callbacks.append((whole, listeners))
                elif listeners is not None:
                    confirmed.done.append(whole)
            else:
                queue.outcomes.add(batch, base_offset, log_append_time_ms, None)
                self._report_outcomes(queue)

    def _fail_unsealed(self, batch: Batch, error: KafkaError) -> None:
        self._accumulator.sealer.seal(batch)
        self._report(batch, 0, batch.count, _UNKNOWN, _UNKNOWN, error)

    def _report_outcomes(self, queue: PartitionQueue) -> None:
        """Report the outcomes of *queue* that need not wait for earlier batches."""
        for batch, outcome in queue.drain_outcomes():
            self._report(batch, *outcome)

    def _report(
        self,
        batch: Batch,
        first: int,
        stop: int,
        base_offset: int,
        timestamp_ms: int,
        error: KafkaError | None,
    ) -> None:
        """Report the outcome of the records *first* to *stop* - 1 of *batch*.

        When the outcomes of all records of *batch* are known, run the callbacks of *batch*.
        """
        if error is not None:
            self.counts.fail(TopicPartition(batch.topic, batch.partition), stop - first)
        listeners = batch.report(first, stop, base_offset, timestamp_ms, error)
        if listeners is not None:
            self._accumulator.finished([batch], listeners)

    def _timeout_error(self, queue: PartitionQueue, count: int, failure: KafkaError | None) -> KafkaError:
        reason = queue.blocked_by or failure
        error = KafkaTimeoutError(
            f"{queue.at}: {count:,} record{' was' if count == 1 else 's were'} not confirmed within "
            f"delivery_timeout_ms={self._delivery_timeout_ms}; "
            + ("the broker has not answered" if reason is None else f"the last failure: {reason}")
        )
        error.__cause__ = reason
        return error


class _Confirmed:
    """The batches of one request that are finished: the broker has stored them, and the outcome of each of
    their records is known.

    At the end of the ``with`` block, their callbacks are run, and their memory is released.
    """

    def __init__(self, accumulator: RecordAccumulator) -> None:
        self._accumulator = accumulator
        self.now = time.monotonic()
        """The time at which the outcome of the request became known."""
        self.done: list[Batch] = []
        """The finished batches without callbacks."""
        self.with_callbacks: list[tuple[Batch, list[Any]]] = []
        """The finished batches with callbacks, each with its callbacks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        if self.done:
            self._accumulator.finished(self.done, [])
        for batch, listeners in self.with_callbacks:
            self._accumulator.finished([batch], listeners)


def _too_large(
    queue: PartitionQueue, batch: SealedBatch, cause: KafkaError, code: int
) -> MessageTooLargeError:
    error = MessageTooLargeError(
        f"{queue.at}: the broker rejected a record of {batch.size:,} bytes; raise max.message.bytes of the "
        f"topic, or message.max.bytes of the broker ({error_facts(code).name}, {code})"
    )
    error.__cause__ = cause
    return error


def _context(queue: PartitionQueue, one: PartitionResponse) -> str:
    """Return the name of the partition, and the broker's error message if the response has one (KIP-467)."""
    messages = [one.error_message] if one.error_message else []
    messages += [
        f"record {item.batch_index} of the batch: {item.batch_index_error_message or 'rejected'}"
        for item in one.record_errors[:3]
    ]
    return ": ".join((str(queue.at), *messages))
