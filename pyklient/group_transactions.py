"""group_transaction, which commits the results of a group's messages and their offsets in one transaction."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    BrokerError,
    ClosedError,
    CommitError,
    CommitOutcomeUnknownError,
    KafkaError,
)
from pyklient.kernel import Message
from pyklient.log_events import log_fields
from pyklient.producer.producer import Producer

__all__ = ["group_transaction"]

log = logging.getLogger("pyklient.producer")

_COMMITS: Final = 3
"""The number of times that a commit is tried while its outcome is unknown. Each attempt takes at most
``max_block_ms``."""
_ABORT_TIMEOUT: Final = 10.0
_ABORTED: Final = "a transaction was aborted, and its messages are handed out again: %s"
_REFUSALS: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
"""The error codes with which a group coordinator refuses the offsets of a member that may have lost its
partitions."""


@contextmanager
def group_transaction(
    stream: KafkaStream, producer: Producer, max_records: int = 1_000, timeout: float = 1.0
) -> Iterator[list[Message]]:
    """Return a context manager that gets the next messages of *stream*, and commits their offsets together
    with the records that its ``with`` block sends.

    ::

        while True:
            with group_transaction(stream, producer) as messages:
                for message in messages:
                    producer.send("invoices", invoice(message.value), key=message.key)

    There are up to *max_records* messages, and none if no message has arrived within *timeout* seconds. At
    the end of the block, one transaction commits the records and the offsets. If an exception leaves the
    block, the transaction is aborted, and the next block gets the same messages.

    If this member has lost partitions of the messages meanwhile, the transaction is aborted, and the block
    ends without an error. The next block gets the messages of the partitions that this member still owns. So
    the records of each message are committed exactly once.

    The connector needs a ``group_id`` and ``enable_auto_commit=False``, and the producer a
    ``transactional_id``. Only one thread at a time may use *stream* and *producer* in this way. Raises the
    errors of ``Producer.commit_transaction``, and ClosedError when the connector is closed. After
    CommitOutcomeUnknownError, close both clients and make new ones: the group then continues at the
    committed offsets.
    """
    stream.batch_offsets(())  # raises an error if the options do not allow transactions
    batches = stream.batches(max_records, timeout)
    try:
        messages = next(batches, None)
        if messages is None:
            raise ClosedError(f"{stream!r} has ended, because its ConsumerConnector has been closed")
        handled = False
        try:
            producer.begin_transaction()
            try:
                yield messages
                handled = True
                found = stream.batch_offsets(messages)
                if found.offsets:
                    producer.send_offsets_to_transaction(*found)
                _commit(producer)
            except CommitOutcomeUnknownError:
                raise
            except BaseException:
                _abort(producer)
                raise
        except CommitOutcomeUnknownError:
            raise  # the messages may be committed, so they must not come again
        except BaseException as error:
            stream.redeliver()
            if not (handled and _says_lost(error)):
                raise
            log.info(_ABORTED, error, extra=log_fields("group_transaction_aborted", error=str(error)))
    finally:
        batches.close()


def _commit(producer: Producer) -> None:
    """Commit the transaction of *producer*. Repeat the commit if its outcome is unknown."""
    for attempt in range(_COMMITS):
        try:
            producer.commit_transaction()
            return
        except CommitOutcomeUnknownError:
            if attempt == _COMMITS - 1:
                raise


def _abort(producer: Producer) -> None:
    """Abort the transaction of *producer*. If the abort fails, only log its error, because another error is
    being raised."""
    try:
        producer.abort_transaction(_ABORT_TIMEOUT)
    except KafkaError as error:
        log.warning("the transaction could not be aborted: %s", error)


def _says_lost(error: BaseException) -> bool:
    """Return True if *error* says that this member may have lost partitions of the messages."""
    if isinstance(error, CommitError):
        return True
    cause = error.__cause__
    return isinstance(cause, BrokerError) and cause.code in _REFUSALS
