"""The keys and values of the records in the topic ``__transaction_state``, in which brokers store the state
of transactional ids.

A key and a value each begin with their version. A record without a value deletes its key.
"""

from pyklient.protocol.schema import (
    EMPTY,
    Blob,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    always,
    message,
    struct,
    tagged,
)

__all__ = ["TransactionLogKey", "TransactionLogValue"]


@message(versions=(0, 0))
class TransactionLogKey(Blob):
    """The key of a transactional id."""

    transactional_id: String = ""


@message(versions=(0, 1), flexible=1)
class TransactionLogValue(Blob):
    """The producer id and epoch of a transactional id, and the state of its transaction.

    Only version 1 has the fields for Kafka's ``transaction.version`` 2 (KIP-890): the producer id of the
    previous transaction, the producer id and epoch that the producer gets when the transaction has ended, and
    the version of transactions that the producer uses.
    """

    @struct
    class PartitionsSchema(Struct):
        topic: String = ""
        partition_ids: list[Int32] = EMPTY

    producer_id: Int64 = 0
    previous_producer_id: Int64 = tagged(0, since=1, default=-1, ignorable=True)
    next_producer_id: Int64 = tagged(1, since=1, default=-1, ignorable=True)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = tagged(3, since=1, default=-1, ignorable=True)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = always()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = tagged(2, since=1, ignorable=True)
