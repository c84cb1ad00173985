"""Begins and ends the transactions of a producer. The calls run in the threads of the program.

``transactions/states.py`` has the table of the states. Only a thread that holds the transaction lock changes
the state. The sender reports failures through the ``Transaction``.
"""

import logging
import time
from collections.abc import Mapping
from typing import NoReturn

from pyklient.config import ProducerConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    BrokerError,
    ClosedError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from pyklient.group_metadata import GroupMetadata
from pyklient.log_events import log_fields
from pyklient.net.network_client import NetworkClient
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.coordinator_requests import CoordinatorRequests
from pyklient.producer.deliver.producer_identity import ProducerIdentity
from pyklient.producer.deliver.sender import Sender
from pyklient.producer.deliver.transaction_batches import TransactionBatches
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.transactions.failure_kinds import (
    abortable,
    fatal,
    fenced,
    is_fatal,
    is_fenced,
    timed_out,
    unknown_outcome,
)
from pyklient.producer.transactions.state_machine import StateMachine
from pyklient.producer.transactions.states import Event, State
from pyklient.producer.transactions.transaction import Transaction
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["TransactionManager"]

log = logging.getLogger("pyklient.producer")


class TransactionManager:
    """The transactions of one producer. Several threads may use it; their calls wait for each other.

    Time-outs are in seconds; None means ``max_block_ms``.
    """

    def __init__(
        self,
        config: ProducerConfig,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        transaction: Transaction,
        identity: ProducerIdentity,
        sender: Sender,
        batches: TransactionBatches,
        thread: SenderThread,
    ) -> None:
        self._id = transaction.transactional_id
        self._timeout_ms = config.transaction_timeout_ms
        self._accumulator = accumulator
        self._transaction = transaction
        self._requests = CoordinatorRequests(
            client, transaction, identity, batches.coordinator, self._timeout_ms
        )
        self._sender = sender
        self._batches = batches
        self._thread = thread
        self._machine = StateMachine(transaction, accumulator, thread, config.max_block_ms / 1000)
        self._began = 0.0
        self._abort_unconfirmed = False

    # The calls of the program

    def init(self, timeout: float | None) -> None:
        """Get the producer id, if this has not been done yet. Fences other producers with the same
        transactional id."""
        with self._machine.call("init_transactions", timeout) as deadline:
            self._machine.require("init_transactions", *State)
            if self._machine.state is State.NEW:
                self._initialize(deadline)

    def begin(self, timeout: float | None) -> None:
        """Begin a transaction. If necessary, call ``init`` first, or complete an abort that was not
        confirmed."""
        with self._machine.call("begin_transaction", timeout) as deadline:
            if self._abort_unconfirmed and self._machine.state is State.FAILED:
                self._drop_and_abort(deadline)
            self._machine.require("begin_transaction", State.NEW, State.READY)
            if self._machine.state is State.NEW:
                self._initialize(deadline)
            self._transaction.begin()
            self._began = time.monotonic()
            self._machine.move(Event.BEGIN)

    def commit(self, timeout: float | None) -> None:
        """Send all records, and commit the transaction."""
        name = "commit_transaction"
        with self._machine.call(name, timeout) as deadline:
            self._machine.require(name, State.OPEN, State.FAILED, State.UNCONFIRMED)
            if self._machine.state is State.FAILED:
                self._raise_failed(deadline)
            repeated = self._machine.state is State.UNCONFIRMED
            self._machine.move(Event.COMMIT)
            if not repeated:
                self._deliver(deadline)
            self._commit(deadline)

    def abort(self, timeout: float | None) -> None:
        """Drop the records that are not sent yet, and abort the transaction."""
        name = "abort_transaction"
        with self._machine.call(name, timeout) as deadline:
            self._machine.require(name, State.OPEN, State.FAILED)
            self._drop_and_abort(deadline)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, timeout: float | None
    ) -> None:
        """Commit *offsets* of *group* together with the transaction."""
        name = "send_offsets_to_transaction"
        with self._machine.call(name, timeout) as deadline:
            self._machine.require(name, State.OPEN, State.FAILED)
            if self._machine.state is State.FAILED:
                self._raise_failed(deadline)
            if offsets:
                self._send_offsets(offsets, group, deadline)

    def close(self, timeout: float) -> None:
        """Abort the open transaction, because the producer closes. Failures are logged."""
        if self._machine.state in (State.OPEN, State.FAILED) and not self._thread.is_current():
            log.warning(
                "the producer with transactional_id=%r is closed, but its transaction is open, and is "
                "therefore aborted; call commit_transaction or abort_transaction before close",
                self._id,
                extra=log_fields("transaction_aborted", id=self._id),
            )
            self.abort_quietly(timeout)
        elif self._machine.state is State.UNCONFIRMED:
            log.warning(
                "the producer with transactional_id=%r is closed, but its last commit is not confirmed; the "
                "transaction is committed or aborted when another producer with this id begins",
                self._id,
                extra=log_fields("commit_unconfirmed", id=self._id),
            )

    def abort_quietly(self, timeout: float) -> None:
        """Abort the transaction, if one is open. Log a failure instead of raising it."""
        if self._machine.state not in (State.OPEN, State.FAILED):
            return
        try:
            self.abort(timeout)
        except (ClosedError, ForkError, ProducerFencedError):
            pass  # it is not open any more, or belongs to the parent process
        except KafkaError as error:
            log.warning(
                "a transaction with transactional_id=%r could not be aborted: %s; the brokers abort it after "
                "transaction_timeout_ms=%d",
                self._id,
                error,
                self._timeout_ms,
                extra=log_fields("abort_failed", id=self._id, error=str(error)),
            )

    # The steps of the calls

    def _initialize(self, deadline: float) -> None:
        try:
            self._requests.initialize(deadline)
        except KafkaError as error:
            if is_fenced(error):
                self._machine.fail(Event.FENCED, error, fenced(self._id, error, 0.0, self._timeout_ms))
            if not error.retriable:
                self._machine.fail(Event.FATAL, error, fatal(self._id, error))
            raise
        self._machine.move(Event.INITIALIZED)

    def _deliver(self, deadline: float) -> None:
        """Wait until all records of the transaction are stored. If that fails, the transaction is not
        committed."""
        try:
            self._await_batches(deadline, "commit_transaction")
        except BaseException as error:
            if self._transaction.failure is None or not isinstance(error, KafkaError):
                self._machine.move(Event.NOT_SENT)
                raise
        if self._transaction.failure is not None:
            self._machine.move(Event.FAILURE)
            self._raise_failed(deadline)

    def _raise_failed(self, deadline: float) -> NoReturn:
        """Raise the error for a transaction that has failed. Usually, this is an AbortableTransactionError.
        It is another error if the producer was fenced or cannot continue."""
        failure = self._transaction.failure
        assert failure is not None, "the sender, or the call that has failed, has set it"
        if is_fatal(failure):
            self._machine.fail(Event.FATAL, failure, fatal(self._id, failure))
        if is_fenced(failure) and self._transaction.attempted:
            failure = self._find_out(failure, deadline)
        raise abortable(self._id, failure)

    def _find_out(self, failure: KafkaError, deadline: float) -> KafkaError:
        """Abort the transaction, because *failure* says that the epoch is too old, and only the coordinator
        knows the reason. Return the error for a time-out, or *failure* if nothing more is known. Raise
        ProducerFencedError if another producer may have taken over."""
        try:
            self._drop(deadline)
            self._requests.end(deadline, committed=False)
        except KafkaError as error:
            return self._timed_out_or_fenced(error, deadline) if is_fenced(error) else failure
        self._transaction.attempted = False
        return self._aborted_by_brokers(failure)

    def _await_batches(self, deadline: float, name: str) -> None:
        """Wait until no batch is unfinished, and all callbacks have been called. *name* is the name of the
        calling method, for messages."""
        batches = self._accumulator.seal_open_batches()
        self._thread.post(self._sender.flush)
        in_time = self._accumulator.tracker.wait_for_all(batches, deadline)
        if in_time and self._thread.catch_up(max(deadline - time.monotonic(), 0.0)):
            return
        late = next((batch for batch in batches if not batch.done), None)
        cause = None if late is None else self._sender.last_failure(late)
        last_failure = "" if cause is None else f"; the last failure: {cause}"
        raise KafkaTimeoutError(
            f"{name} has not ended the transaction, because some records were not confirmed in time, "
            f"or their callbacks have not ended; call {name} again{last_failure}"
        ) from cause

    def _commit(self, deadline: float) -> None:
        try:
            try:
                self._requests.end(deadline, committed=True)
            except KafkaError as error:
                self._commit_failed(error, deadline)
        except BaseException:
            if self._machine.state is State.COMMITTING:  # Ctrl-C
                self._machine.move(Event.NO_ANSWER)
            raise
        self._machine.move(Event.CONFIRMED)

    def _commit_failed(self, error: KafkaError, deadline: float) -> NoReturn:
        code = error.code if isinstance(error, BrokerError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if error.retriable or code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self._machine.fail(Event.NO_ANSWER, error, unknown_outcome(self._id, error))
        if is_fatal(error):
            self._machine.fail(Event.FATAL, error, fatal(self._id, error))
        cause = error
        if is_fenced(error):
            cause = self._timed_out_or_fenced(error, deadline)
        elif code == ErrorCode.INVALID_TXN_STATE:
            cause = self._aborted_by_brokers(error)
        self._machine.fail(Event.FAILURE, cause, abortable(self._id, cause))

    def _drop_and_abort(self, deadline: float) -> None:
        self._machine.move(Event.ABORT)
        self._abort_unconfirmed = False
        try:
            self._drop(deadline)
            self._abort(deadline)
        except BaseException:
            if self._machine.state is State.ABORTING:
                self._abort_unconfirmed = True
                self._transaction.fail(KafkaError("the transaction coordinator has not confirmed the abort"))
                self._machine.move(Event.NO_ANSWER)
            raise

    def _drop(self, deadline: float) -> None:
        """Fail the records that are not sent, and wait for the responses for the records in flight."""
        self._transaction.drop("its transaction was aborted")
        self._await_batches(deadline, "abort_transaction")
        left = max(deadline - time.monotonic(), 0.0)
        if self._transaction.attempted and not self._batches.await_requests(left):
            raise KafkaTimeoutError(
                "abort_transaction has not ended the transaction, because the transaction coordinator has "
                "not answered in time; call abort_transaction again"
            )
        self._accumulator.tracker.report()  # the program has given up these records

    def _abort(self, deadline: float) -> None:
        transaction = self._transaction
        try:
            self._requests.end(deadline, committed=False)
        except BrokerError as error:
            if is_fatal(error):
                self._machine.fail(Event.FATAL, error, fatal(self._id, error))
            if is_fenced(error):
                self._timed_out_or_fenced(error, deadline)
            elif error.code != ErrorCode.INVALID_TXN_STATE:
                raise
            # The coordinator knows no open transaction, so there is nothing to abort.
        transaction.attempted = False
        if transaction.sequences_lost and transaction.version == 1:
            self._renew(deadline)
        self._thread.post(self._batches.end_of_transaction)
        self._thread.catch_up(max(deadline - time.monotonic(), 0.0))
        self._machine.move(Event.CONFIRMED)

    def _renew(self, deadline: float) -> None:
        try:
            self._requests.renew(deadline)
        except KafkaError as error:
            if is_fenced(error):
                self._fenced(error)
            if is_fatal(error):  # Kafka before 2.5 cannot do it
                self._machine.fail(Event.FATAL, error, fatal(self._id, error))
            raise

    def _timed_out_or_fenced(self, cause: KafkaError, deadline: float) -> KafkaError:
        """Return the error for a transaction that the brokers have aborted after its time-out, or raise
        ProducerFencedError. *cause* is the coordinator's answer that the epoch of this producer is too old.
        """
        late = time.monotonic() - self._began > self._timeout_ms / 1000
        if not (late and self._transaction.version == 1 and self._requests.find_time_out(deadline)):
            self._fenced(cause)
        return self._aborted_by_brokers(cause)

    def _fenced(self, cause: KafkaError) -> NoReturn:
        age = time.monotonic() - self._began
        self._machine.fail(Event.FENCED, cause, fenced(self._id, cause, age, self._timeout_ms))

    def _aborted_by_brokers(self, cause: KafkaError) -> KafkaError:
        return timed_out(cause, time.monotonic() - self._began, self._timeout_ms)

    def _send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline: float
    ) -> None:
        transaction = self._transaction
        try:
            self._requests.send_offsets(offsets, group, deadline)
        except KafkaError as error:
            transaction.sequences_lost |= not isinstance(error, BrokerError)
            transaction.fail(error)
            self._machine.move(Event.FAILURE)
            self._raise_failed(deadline)
        except BaseException:
            transaction.sequences_lost = True
            transaction.fail(KafkaError("send_offsets_to_transaction was interrupted"))
            self._machine.move(Event.FAILURE)
            raise
