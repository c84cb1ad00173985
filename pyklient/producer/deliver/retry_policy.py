"""Decides what happens to a batch that was not stored: it is sent again, split, or failed.

The decision depends on the error of the broker or of the connection, the number of attempts so far, and
whether the batch may nevertheless have been stored. ``ProduceResponses`` carries the decision out.
"""

import time
from enum import Enum, auto
from typing import Final

from pyklient.config import ProducerConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import ClosedError, KafkaError, error_facts
from pyklient.net.backoff import Backoff
from pyklient.producer.deliver.sealed_batch import SealedBatch

__all__ = ["TOO_LARGE", "Action", "RetryPolicy", "is_certainly_not_stored", "is_out_of_sequence"]


class Action(Enum):
    """The ways to treat a batch after a response, or after a failure of its request."""

    STORED = auto()
    """Report the batch as delivered."""
    RETRY = auto()
    """Send the same bytes again, because the failure may be temporary."""
    RETRY_IN_SEQUENCE = auto()
    """Send the batch again after the earlier batches. If no earlier batch is left, send it in a new epoch. It
    was not stored, because the broker lacks an earlier batch or has forgotten this producer."""
    RETRY_WITHOUT_IDEMPOTENCE = auto()
    """Send the batch again without a producer id. It was not stored, because the record format of the topic
    is too old for idempotence."""
    SPLIT = auto()
    """Send the batch again in two halves. It was not stored, because it is too large."""
    FAIL = auto()
    """Report the batch as failed."""


_STORED: Final = frozenset(
    (
        ErrorCode.NONE,
        # An earlier attempt was stored, but its response was lost. The broker no longer knows the offset.
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    )
)

TOO_LARGE: Final = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))  # KIP-126

_OUT_OF_SEQUENCE: Final = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,  # without transactions, nobody else uses the producer id
        ErrorCode.UNKNOWN_PRODUCER_ID,
    )
)

_NEEDS_ABORT: Final = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID))
"""The error codes after which a transactional producer needs a new epoch, which it gets only by ending the
transaction."""

_NOT_STORED: Final = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND comes after storing
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.PRODUCER_FENCED,
        *TOO_LARGE,
        *_OUT_OF_SEQUENCE,
    )
)
"""The error codes that mean that no record was stored. NOT_LEADER_OR_FOLLOWER is not one of them: a leader
that steps down while it waits for its followers returns this code, and the followers may have stored the
records."""


def is_certainly_not_stored(code: int) -> bool:
    """Return True if the error *code* means that no record of the batch was stored.

    After other error codes, the records may have been stored.
    """
    return code in _NOT_STORED


def is_out_of_sequence(code: int) -> bool:
    """Return True if the error *code* means that the broker expects another sequence number or epoch."""
    return code in _OUT_OF_SEQUENCE


class RetryPolicy:
    """Decides what happens to a batch after a response or a failure, by the option ``retries`` and the rules
    for error codes."""

    def __init__(self, config: ProducerConfig, backoff: Backoff) -> None:
        self._retries = config.retries
        self._transactional = config.transactional_id is not None
        self._requires_idempotence = bool(config.enable_idempotence) or self._transactional
        self._backoff = backoff

    def after_error_code(self, batch: SealedBatch, code: int) -> Action:
        """Return the action for *batch*, for which the broker returned *code*."""
        if code in _STORED:
            return Action.STORED
        if code in TOO_LARGE:
            return Action.SPLIT if _can_be_split(batch) else Action.FAIL
        if batch.idempotent:
            if code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT and not self._requires_idempotence:
                return Action.RETRY_WITHOUT_IDEMPOTENCE
            if self._transactional and code in _NEEDS_ABORT:
                return Action.FAIL
            if code in _OUT_OF_SEQUENCE:
                return Action.RETRY_IN_SEQUENCE if self._has_retries_left(batch) else Action.FAIL
        return Action.RETRY if error_facts(code).retriable and self._has_retries_left(batch) else Action.FAIL

    def after_failure(self, batch: SealedBatch, error: KafkaError) -> Action:
        """Return the action for *batch*, which got no response because of *error*."""
        # A ClosedError comes from a connection that this client closed itself, because it was idle or its
        # session had expired. The next connection will do.
        may_pass = error.retriable or isinstance(error, ClosedError)
        return Action.RETRY if may_pass and self._has_retries_left(batch) else Action.FAIL

    def not_before(self, batch: SealedBatch) -> float:
        """Return the time before which *batch* must not be sent again, in monotonic seconds."""
        return time.monotonic() + self._backoff.pause(batch.attempts)

    def _has_retries_left(self, batch: SealedBatch) -> bool:
        return batch.attempts <= self._retries


def _can_be_split(batch: SealedBatch) -> bool:
    # If an earlier attempt was stored after all, the broker would not recognize the halves.
    may_be_duplicate = batch.in_doubt and batch.idempotent
    return batch.count > 1 and not batch.expired and not may_be_duplicate
