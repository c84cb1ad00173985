"""One partition of ``__transaction_state``, in which the state of some transactional ids is stored.

The state is in memory and in the log of the partition. After a restart the state is loaded from the log.
"""

import logging
from collections.abc import Generator
from typing import Final

from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.transactions.states import STATE_NUMBERS, TransactionState
from pyklient.broker.transactions.transaction import Transaction
from pyklient.errors import ProtocolError
from pyklient.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue
from pyklient.protocol.records import NewRecord
from pyklient.topic_partition import TopicPartition, numbers_by_topic

__all__ = ["TransactionLog"]

_logger = logging.getLogger("pyklient.broker")

_STATES: Final = {number: state for state, number in STATE_NUMBERS.items()}
_RECORDS_PER_STEP: Final = 1_000
_MIN_RECORDS: Final = 1_000
_MAX_RECORDS_PER_ENTRY: Final = 4


class TransactionLog:
    """The transactional ids that one partition of ``__transaction_state`` stores, and the *log* of this
    partition.

    ``transactions`` has the state of each transactional id. ``loaded`` becomes true when :meth:`load` has
    read the whole log. An empty log needs no loading. *value_version* is the version of the format in which
    the values of records are written.
    """

    def __init__(self, log: PartitionLog, value_version: int) -> None:
        self.loaded = not log.size
        self.transactions: dict[str, Transaction] = {}
        self._log = log
        self._value_version = value_version
        self._records = 0

    def load(self) -> Generator[None]:
        """Read the state of all transactional ids from the log.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        since_step = 0
        for _, records in self._log.batches():
            for record in records:
                if record.key is not None:
                    self._apply(record.key, record.value)
            self._records += len(records)
            since_step += len(records)
            if since_step >= _RECORDS_PER_STEP:
                since_step = 0
                yield
        self.loaded = True

    def store(self, transaction: Transaction, now_ms: int) -> None:
        """Store the new state of a transactional id. It is in the log when this method returns."""
        value = _value(transaction).encode_blob(self._value_version)
        self._append(NewRecord(now_ms, _key(transaction.transactional_id), value))
        self.transactions[transaction.transactional_id] = transaction

    def delete(self, transactional_id: str, now_ms: int) -> None:
        """Delete the state of a transactional id."""
        self._append(NewRecord(now_ms, _key(transactional_id), None))
        del self.transactions[transactional_id]

    def compact(self) -> Generator[None]:
        """Compact the log if most of its records are outdated.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        if self._records <= max(_MIN_RECORDS, _MAX_RECORDS_PER_ENTRY * len(self.transactions)):
            return
        before = self._records
        try:
            kept = yield from self._log.compact()
        except OSError as error:
            name = self._log.directory.name
            _logger.error("%s: the log could not be compacted: %s; the next check tries again", name, error)
            return
        self._records += kept - before

    def _append(self, record: NewRecord) -> None:
        self._log.append_own([record])
        self._records += 1

    def _apply(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the log: change or delete the state of the transactional id that *key* names. A
        record of an unknown kind is skipped."""
        try:
            transactional_id = TransactionLogKey.decode_blob(key).transactional_id
            if value is None:
                self.transactions.pop(transactional_id, None)
            else:
                self.transactions[transactional_id] = _transaction(
                    transactional_id, TransactionLogValue.decode_blob(value)
                )
        except ProtocolError as error:
            _logger.warning("%s: a record was skipped: %s", self._log.directory.name, error)


def _key(transactional_id: str) -> bytes:
    return TransactionLogKey(transactional_id=transactional_id).encode_blob()


def _value(transaction: Transaction) -> TransactionLogValue:
    # As in Kafka, an empty transaction has no list of partitions at all.
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = [
            TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=sorted(indexes))
            for topic, indexes in sorted(numbers_by_topic(transaction.partitions).items())
        ]
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=STATE_NUMBERS[transaction.state],
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
    )


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise ProtocolError(
            f"the transactional id {transactional_id!r} has the unknown state {value.transaction_status}"
        )
    return Transaction(
        transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        epoch=value.producer_epoch,
        state=state,
        partitions=frozenset(
            TopicPartition(each.topic, index)
            for each in value.transaction_partitions or ()
            for index in each.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        version=value.client_transaction_version,
    )
