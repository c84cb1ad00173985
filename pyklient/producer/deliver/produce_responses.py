"""What becomes of records: what the broker's answer means for them, or that there is none in time.

An error code stands for an action, and an action for what happens to the batch in its partition's queue:
it is stored, goes again, goes again in halves, or has failed. Everything here runs in the sender's turn
(``threads``).
"""

import logging
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from pyklient.config import ProducerConfig
from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    broker_error,
    error_facts,
)
from pyklient.net.backoff import Backoff
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.sealed_batch import ProducerBatch
from pyklient.protocol.messages import ProduceResponse
from pyklient.protocol.records.kernel import Batch, Delivery, call_back

__all__ = ["Action", "Batches", "ProduceResponses", "action_for", "is_certainly_not_stored", "run_callbacks"]

log = logging.getLogger("pyklient.producer")

_NEVER: Final = float("inf")

Batches: TypeAlias = dict[tuple[str, int], tuple[PartitionQueue, ProducerBatch]]
"""The batches of a request by topic and partition, with the queues they are from."""

PartitionResponse: TypeAlias = ProduceResponse.TopicProduceResponse.PartitionProduceResponse


class Action(Enum):
    """What is to be done."""

    STORED = auto()
    RETRY = auto()
    """The failure may pass: send the very same again."""
    OUT_OF_SEQUENCE = auto()
    """Not stored, because something before it is missing, or the broker has forgotten this producer."""
    TOO_LARGE = auto()
    """Not stored; half of it may be."""
    NO_PRODUCER_IDS = auto()
    """Not stored, because the topic's record format is too old for idempotence."""
    REFUSED = auto()


_NONE: Final = 0
_DUPLICATE_SEQUENCE_NUMBER: Final = 46

_BY_CODE: Final = {
    _NONE: Action.STORED,
    # Stored long ago, by an attempt whose answer was lost; the broker does not know the offset any more.
    _DUPLICATE_SEQUENCE_NUMBER: Action.STORED,
    10: Action.TOO_LARGE,  # MESSAGE_TOO_LARGE (KIP-126)
    18: Action.TOO_LARGE,  # RECORD_LIST_TOO_LARGE
}

_OF_PRODUCER_IDS: Final = {
    43: Action.NO_PRODUCER_IDS,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
    45: Action.OUT_OF_SEQUENCE,  # OUT_OF_ORDER_SEQUENCE_NUMBER
    47: Action.OUT_OF_SEQUENCE,  # INVALID_PRODUCER_EPOCH: an id without transactions is nobody else's
    59: Action.OUT_OF_SEQUENCE,  # UNKNOWN_PRODUCER_ID
}

_REFUSED_BEFORE_STORING: Final = frozenset(
    (
        2,  # CORRUPT_MESSAGE
        3,  # UNKNOWN_TOPIC_OR_PARTITION
        5,  # LEADER_NOT_AVAILABLE
        10,  # MESSAGE_TOO_LARGE
        17,  # INVALID_TOPIC_EXCEPTION
        18,  # RECORD_LIST_TOO_LARGE
        19,  # NOT_ENOUGH_REPLICAS; its brother 20 comes after storing
        21,  # INVALID_REQUIRED_ACKS
        29,  # TOPIC_AUTHORIZATION_FAILED
        31,  # CLUSTER_AUTHORIZATION_FAILED
        32,  # INVALID_TIMESTAMP
        35,  # UNSUPPORTED_VERSION
        42,  # INVALID_REQUEST
        44,  # POLICY_VIOLATION
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        87,  # INVALID_RECORD
        89,  # THROTTLING_QUOTA_EXCEEDED
        *_OF_PRODUCER_IDS,
    )
)
"""NOT_LEADER_OR_FOLLOWER is not among them: a leader that steps down while it waits for its followers says
so of records that they may have."""


def is_certainly_not_stored(code: int) -> bool:
    """Whether an error *code* says that none of the records have been stored. Others leave it in doubt."""
    return code in _REFUSED_BEFORE_STORING


def action_for(code: int, *, idempotent: bool) -> Action:
    """The action for an error *code* on records with, or without, a producer id."""
    action = _BY_CODE.get(code) or (_OF_PRODUCER_IDS.get(code) if idempotent else None)
    if action is not None:
        return action
    return Action.RETRY if error_facts(code).retriable else Action.REFUSED


class ProduceResponses:
    """Applies them. *look* is told of every queue in which something has changed; *want_metadata* where an
    answer says that what is known of the cluster is out of date."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        config: ProducerConfig,
        backoff: Backoff,
        *,
        look: Callable[[PartitionQueue], None],
        want_metadata: Callable[[], None],
    ) -> None:
        self._accumulator = accumulator
        self._config = config
        self._backoff = backoff
        self._look = look
        self._want_metadata = want_metadata

    def apply(self, batches: Batches, response: ProduceResponse, node_id: int) -> None:
        """What broker *node_id* says of the *batches* of a request."""
        missing = dict(batches)
        for topic in response.responses:
            for one in topic.partition_responses:
                found = missing.pop((topic.name, one.index), None)
                if found is not None:
                    self._apply(*found, one)
        for queue, batch in missing.values():
            error = BrokerConnectionError(f"broker {node_id} left {queue.at} out of its answer")
            self.failed(queue, batch, error, in_doubt=True)

    def unanswered(self, batches: Batches, error: KafkaError, *, in_doubt: bool) -> None:
        """There is no answer, because of *error*. *in_doubt*: they may have been stored nevertheless."""
        for queue, batch in batches.values():
            self.failed(queue, batch, error, in_doubt=in_doubt)

    def sent(self, batches: Batches) -> None:
        """They are on their way, and with ``acks=0`` that is all."""
        for queue, batch in batches.values():
            self._stored(queue, batch, -1, -1)

    def failed(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool
    ) -> None:
        """It may go again, if its attempts and the error allow that."""
        # The client itself closes a connection that was idle or whose session is over: the next one serves.
        passes = error.retriable or isinstance(error, ClosedError)
        if not passes or not self._may_go_again(batch):
            self.refused(queue, batch, error, in_doubt=in_doubt)
        else:
            self._again(queue, batch, error, in_doubt=in_doubt)

    def refused(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool
    ) -> None:
        """It has failed for good."""
        batch.in_doubt |= in_doubt
        queue.lost(batch)
        if not batch.expired:
            queue.note(batch, -1, -1, error)
            self._tell(queue)
        self._look(queue)

    def expire(self, queue: PartitionQueue, now: float) -> None:
        """Fail what of *queue* has taken longer than ``delivery_timeout_ms``."""
        batches, unsealed = queue.expire(now)
        for batch in batches:
            queue.note(batch, -1, -1, self._too_late(queue, batch.count, batch.failure))
        self._tell(queue)
        for gathered in unsealed:
            self._accumulator.appender.take(gathered)
            self.settle(gathered, 0, gathered.count, -1, -1, self._too_late(queue, gathered.count, None))

    def fail_all(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Fail everything in *queue*."""
        batches, unsealed = queue.expire(_NEVER)
        for batch in batches:
            queue.note(batch, -1, -1, error)
        self._tell(queue)
        for gathered in unsealed:
            self._accumulator.appender.take(gathered)
            self.settle(gathered, 0, gathered.count, -1, -1, error)

    def _tell(self, queue: PartitionQueue) -> None:
        """Settle what may be told of *queue* by now."""
        for gathered, outcome in queue.tell():
            self.settle(gathered, *outcome)

    def settle(
        self,
        gathered: Batch,
        first: int,
        stop: int,
        base_offset: int,
        timestamp_ms: int,
        error: KafkaError | None,
    ) -> None:
        """The records of a batch from *first* up to *stop* are stored, or have failed with *error*. Runs
        their callbacks once that is known of all of the batch."""
        listeners = gathered.settle(first, stop, base_offset, timestamp_ms, error)
        if listeners is not None:
            self._accumulator.finished(gathered, listeners, run_callbacks)

    def _apply(self, queue: PartitionQueue, batch: ProducerBatch, one: PartitionResponse) -> None:
        """What the broker says of one batch."""
        code = one.error_code
        if not code:
            self._stored(queue, batch, one.base_offset, one.log_append_time_ms)
            return
        action = action_for(code, idempotent=batch.idempotent)
        if action is Action.STORED:
            self._stored(queue, batch, -1, one.log_append_time_ms)
            return
        error: KafkaError = broker_error(code, _context(queue, one))
        if action is Action.TOO_LARGE and batch.count == 1:
            refusal = error
            error = MessageTooLargeError(
                f"{queue.at}: the broker refused a record of {batch.size:,} bytes; raise "
                "max.message.bytes of the topic, or message.max.bytes of the broker "
                f"({error_facts(code).name}, {code})"
            )
            error.__cause__ = refusal
        if error_facts(code).refresh_metadata:
            self._want_metadata()
        in_doubt = not is_certainly_not_stored(code)
        if action is Action.NO_PRODUCER_IDS and not self._config.enable_idempotence:
            log.info("%s: no idempotence, because its record format is too old", queue.topic)
            queue.without_idempotence()
            self._again(queue, batch, error, in_doubt=False)
        elif action is Action.OUT_OF_SEQUENCE:
            log.info("%s: %s", queue.at, error)
            if self._may_go_again(batch):
                queue.out_of_sequence(batch, error, rest_until=self._rest(batch))
                self._look(queue)
            else:
                self.refused(queue, batch, error, in_doubt=False)
        elif action is Action.TOO_LARGE and self._may_be_split(batch):
            self._accumulator.appender.shrink(
                queue.topic, batch.gathered.size * batch.count // batch.gathered.count // 2
            )
            queue.split(batch)
            self._look(queue)
        elif action is Action.RETRY:
            self.failed(queue, batch, error, in_doubt=in_doubt)
        else:
            self.refused(queue, batch, error, in_doubt=in_doubt)

    def _stored(
        self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int, log_append_time_ms: int
    ) -> None:
        queue.stored(batch)
        if batch.attempts > 1 and log_append_time_ms == batch.timestamps[1]:
            # Of a batch that it has already, Kafka gives the newest timestamp, whoever made it.
            log_append_time_ms = -1
        if not batch.expired:
            queue.note(batch, base_offset, log_append_time_ms, None)
            self._tell(queue)
        if queue.has_more:
            self._look(queue)

    def _again(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool
    ) -> None:
        log.debug("%s: %d records go again: %s", queue.at, batch.count, error)
        queue.failed(batch, error, in_doubt=in_doubt, rest_until=self._rest(batch))
        self._look(queue)

    def _may_be_split(self, batch: ProducerBatch) -> bool:
        # If it has been stored after all, the broker would not know its halves again.
        doubtful = batch.in_doubt and batch.idempotent
        return batch.count > 1 and not batch.expired and not doubtful

    def _may_go_again(self, batch: ProducerBatch) -> bool:
        return batch.attempts <= self._config.retries

    def _rest(self, batch: ProducerBatch) -> float:
        return time.monotonic() + self._backoff.pause(batch.attempts)

    def _too_late(self, queue: PartitionQueue, count: int, failure: KafkaError | None) -> KafkaError:
        reason = queue.blocked_by or failure
        error = KafkaTimeoutError(
            f"{queue.at}: {count:,} record{' was' if count == 1 else 's were'} not confirmed within "
            f"delivery_timeout_ms={self._config.delivery_timeout_ms}; "
            + ("the broker has not answered" if reason is None else f"the last failure: {reason}")
        )
        error.__cause__ = reason
        return error


def run_callbacks(listeners: list[Any]) -> None:
    """Run them; what they raise is logged."""
    call_back(listeners, _log_failure)


def _log_failure(delivery: Delivery) -> None:
    log.exception("a callback for %r failed", delivery)


def _context(queue: PartitionQueue, one: PartitionResponse) -> str:
    """Where an answer belongs, with what the broker says beside its error code (KIP-467)."""
    said = [one.error_message] if one.error_message else []
    said += [
        f"record {item.batch_index} of the batch: {item.batch_index_error_message or 'refused'}"
        for item in one.record_errors[:3]
    ]
    return ": ".join((str(queue.at), *said))
