"""Decides what a failure means for a transaction: it must be aborted, or the producer can only be closed."""

from typing import Final, TypeVar

from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    AbortableTransactionError,
    AuthenticationError,
    BrokerError,
    CommitOutcomeUnknownError,
    FatalTransactionError,
    KafkaError,
    ProducerFencedError,
    UnsupportedVersionError,
)

__all__ = ["abortable", "fatal", "fenced", "is_fatal", "is_fenced", "timed_out", "unknown_outcome"]

_E = TypeVar("_E", bound=KafkaError)

_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))

_FATAL: Final = frozenset(
    (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_REQUEST,
    )
)


def is_fenced(error: KafkaError | None) -> bool:
    """Return True if *error* says that the epoch of this producer is too old.

    Either another producer has taken over the transactional id, or the brokers have aborted the transaction
    because it was open for too long.
    """
    return isinstance(error, BrokerError) and error.code in _FENCED


def is_fatal(error: KafkaError | None) -> bool:
    """Return True if the producer cannot recover from *error*."""
    if isinstance(error, BrokerError):
        return error.code in _FATAL
    return isinstance(error, UnsupportedVersionError | AuthenticationError)


def abortable(transactional_id: str, cause: KafkaError) -> AbortableTransactionError:
    """Return the error for a transaction that must be aborted because of *cause*."""
    return _caused(
        AbortableTransactionError(
            f"the transaction of {transactional_id!r} has failed: {cause}; call abort_transaction, and begin "
            "another transaction"
        ),
        cause,
    )


def timed_out(cause: KafkaError, age: float, timeout_ms: int) -> KafkaError:
    """Return the error for a transaction that the brokers have aborted because it was open for *age* seconds.
    *cause* is the error of the request by which the producer noticed this."""
    return _caused(
        KafkaError(
            f"the brokers have aborted the transaction, because it was open for {age:.1f} s, which is longer "
            f"than transaction_timeout_ms={timeout_ms} ({cause})"
        ),
        cause,
    )


def unknown_outcome(transactional_id: str, cause: BaseException) -> CommitOutcomeUnknownError:
    """Return the error for a commit that was not confirmed because of *cause*."""
    return _caused(
        CommitOutcomeUnknownError(
            f"the commit of a transaction of {transactional_id!r} was not confirmed: {cause}; call "
            "commit_transaction again until it succeeds or raises another error"
        ),
        cause,
    )


def fenced(transactional_id: str, cause: KafkaError, age: float, timeout_ms: int) -> ProducerFencedError:
    """Return the error for a producer that was fenced. *cause* is the error of the broker. The transaction
    was open for *age* seconds. If that is longer than *timeout_ms*, the error says that the brokers may have
    aborted the transaction for that reason: some brokers return the same *cause* after a time-out."""
    or_too_late = (
        f", or the brokers have aborted the transaction, because it was open for {age:.1f} s, which is "
        f"longer than transaction_timeout_ms={timeout_ms}"
        if age * 1000 > timeout_ms
        else ""
    )
    return _caused(
        ProducerFencedError(
            f"another producer with transactional_id={transactional_id!r} has taken over{or_too_late}: "
            f"{cause}. The transaction was aborted, unless an earlier attempt to commit it had succeeded. "
            "Close this producer, and let only one producer at a time use the id"
        ),
        cause,
    )


def fatal(transactional_id: str, cause: KafkaError) -> FatalTransactionError:
    """Return the error for a producer that cannot recover from *cause*."""
    return _caused(
        FatalTransactionError(
            f"the producer with transactional_id={transactional_id!r} cannot continue: {cause}; close it, "
            "correct the cause, and make a new producer"
        ),
        cause,
    )


def _caused(error: _E, cause: BaseException) -> _E:
    error.__cause__ = cause
    return error
