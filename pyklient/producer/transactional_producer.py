"""The methods of a Producer for transactions."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:  # imported when they are used: most programs have no transactions
    from pyklient.group_metadata import GroupMetadata
    from pyklient.producer.transaction_manager import TransactionManager

__all__ = ["UNWIND_TIMEOUT", "TransactionalProducer"]

UNWIND_TIMEOUT: Final = 10.0
"""The time-out, in seconds, for the last work of a producer: to deliver the remaining records, or to abort
the transaction. It applies when an exception leaves a ``with`` block, or when the program ends."""


class TransactionalProducer:
    """The methods of Producer for transactions."""

    _transactions: "TransactionManager | None"
    """The transactions of the producer. None if it has no ``transactional_id``."""

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get the producer id of ``transactional_id``, if the producer has none yet.

        From then on, all earlier producers with the same ``transactional_id`` are fenced, and the transaction
        that one of them has left open is aborted. The first ``begin_transaction`` does the same if this
        method was not called. Waits for at most *timeout* seconds (None: ``max_block_ms``), and then raises
        KafkaTimeoutError; the call may be repeated. Raises FatalTransactionError if the brokers do not allow
        this ``transactional_id``, or are too old for transactions (older than Kafka 0.11).
        """
        self._manager().init(argument_checks.seconds_or_none(timeout, "timeout"))

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction. All records that are sent until its end become visible together, or never.

        If ``init_transactions`` was not called, this method first gets the producer id as
        ``init_transactions`` does, and raises the same errors. If the abort of the last transaction was not
        confirmed, this method first completes it, as ``abort_transaction`` does. Raises TransactionStateError
        if a transaction is open.
        """
        self._manager().begin(argument_checks.seconds_or_none(timeout, "timeout"))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send all records, wait until they are stored, and commit the transaction.

        The call waits for at most *timeout* seconds (None: ``max_block_ms``). It raises

        - KafkaTimeoutError if records were not stored in time. The transaction is still open.
        - AbortableTransactionError if a record failed, or if the brokers have aborted the transaction. Call
          ``abort_transaction``.
        - CommitOutcomeUnknownError if the coordinator has not answered in time. Repeat the call.
        - ProducerFencedError if another producer has taken over, and FatalTransactionError if the producer
          cannot continue. Close the producer.
        """
        self._manager().commit(argument_checks.seconds_or_none(timeout, "timeout"))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction. Records that are not sent yet fail with TransactionAbortedError.

        If the abort is not confirmed in *timeout* seconds (None: ``max_block_ms``), raises KafkaTimeoutError.
        Then repeat the call, or begin another transaction. Raises ProducerFencedError and
        FatalTransactionError as ``commit_transaction`` does.
        """
        self._manager().abort(argument_checks.seconds_or_none(timeout, "timeout"))

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: "GroupMetadata",
        timeout: float | None = None,
    ) -> None:
        """Commit *offsets* of a consumer group together with the transaction.

        *offsets* has, for each partition, the offset of the next message to read. *group_metadata* is the
        result of ``ConsumerConnector.group_metadata``: the group coordinator refuses the offsets if the
        member does not own its partitions any more (KIP-447; brokers before Kafka 2.5 do not check that).
        Waits for at most *timeout* seconds (None: ``max_block_ms``). Raises AbortableTransactionError if the
        offsets were refused or not confirmed, and the other errors of ``commit_transaction``.
        """
        from pyklient.group_metadata import GroupMetadata

        seconds = argument_checks.seconds_or_none(timeout, "timeout")
        positions = argument_checks.positions(offsets, "offsets")
        if not isinstance(group_metadata, GroupMetadata):
            raise TypeError(
                "group_metadata must be a GroupMetadata, such as connector.group_metadata(), not "
                f"{group_metadata!r}"
            )
        self._manager().send_offsets(positions, group_metadata, seconds)

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[None]:
        """Return a context manager that begins a transaction, commits it at the end of the ``with`` block,
        and aborts it if an exception leaves the block.

        *timeout* is passed to ``begin_transaction`` and ``commit_transaction``. Their errors leave the
        ``with`` statement. If the commit fails and the transaction can be aborted, it is aborted before the
        error of the commit is raised. An abort takes at most 10 seconds; if the abort fails, a warning is
        logged.
        """
        manager = self._manager()
        seconds = argument_checks.seconds_or_none(timeout, "timeout")
        manager.begin(seconds)
        try:
            yield
            manager.commit(seconds)
        except BaseException:
            manager.abort_quietly(UNWIND_TIMEOUT)
            raise

    def _close_transaction(self, deadline: float) -> None:
        """Abort the open transaction, if there is one, because the producer closes."""
        if self._transactions is not None:
            self._transactions.close(max(deadline - time.monotonic(), 0.0))

    def _manager(self) -> "TransactionManager":
        if self._transactions is None:
            raise ConfigurationError(
                "this producer has no transactions: create it with the option transactional_id"
            )
        return self._transactions
