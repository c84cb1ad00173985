"""Dialogues about transactions: they describe transactional ids, find open transactions, and abort a
transaction in one partition (KIP-664)."""

from collections.abc import Collection, Mapping
from functools import partial

from pyklient.admin.descriptions import OpenTransaction, TransactionDescription
from pyklient.admin.requests import AdminRequest, ask, only
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConfigurationError
from pyklient.net.dialogue import Dialogue, Refresh, retried
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.net.lookups.open_transactions import PartitionProducer, describe_producers, list_transactions
from pyklient.net.lookups.partition_leaders import by_leader
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pyklient.topic_partition import TopicPartition

__all__ = ["abort_transaction", "describe_transaction", "open_transactions"]

_TRANSACTIONAL_ID = 1
"""The key type with which a FindCoordinator request asks for a transaction coordinator."""

_WITHOUT_TRANSACTION = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
"""The states of a transactional id without an open transaction. In these states, a coordinator still
reports the time at which the last transaction began."""


def describe_transaction(transactional_id: str) -> Dialogue[TransactionDescription]:
    """Return the state of a transactional id.

    Raises BrokerError TRANSACTIONAL_ID_NOT_FOUND if the transaction coordinator does not know the id.
    """
    order = AdminRequest(
        f"cannot describe the transactional id {transactional_id}",
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        lambda response: only(response.transaction_states),
    )
    node_id, found = yield from ask(order, partial(find_coordinator, transactional_id, _TRANSACTIONAL_ID))
    return _description(found, node_id)


def open_transactions(partitions: Collection[TopicPartition]) -> Dialogue[list[OpenTransaction]]:
    """Return the transactions that are open in *partitions*, in the order of the partitions and offsets."""
    found = yield from _open_in(partitions)
    ids = {producer_id for _, _, producer_id in found}
    listed = (yield from retried(partial(list_transactions, producer_ids=ids))) if ids else []
    known: dict[int, TransactionDescription] = {}
    for each in listed:
        if (described := (yield from _described(each.transactional_id))) is not None:
            known[each.producer_id] = described
    transactions = [_open_transaction(key, producer, known) for key, producer in found.items()]
    if not any(each.hangs for each in transactions):
        return transactions
    # Those that have ended meanwhile do not hang: a coordinator forgets a partition after its marker.
    still_open = yield from _open_in({each.partition for each in transactions if each.hangs})
    return [
        each
        for each in transactions
        if not each.hangs or (each.partition, each.start, each.producer_id) in still_open
    ]


def abort_transaction(where: TopicPartition, start: int, *, force: bool) -> Dialogue[OpenTransaction]:
    """Write an abort marker for the transaction that begins at the offset *start* of the partition *where*.
    Return the transaction.

    Raises ConfigurationError if no open transaction begins there, or if the transaction does not hang and
    *force* is false.
    """
    found = yield from open_transactions([where])
    transaction = next((each for each in found if each.start == start), None)
    if transaction is None:
        others = ", ".join(str(each.start) for each in found)
        raise ConfigurationError(
            f"no open transaction begins at offset {start} of {where}; "
            + (
                f"the open transactions of this partition begin at {others}"
                if found
                else "the partition has no open transaction"
            )
        )
    if not transaction.hangs and not force:
        raise ConfigurationError(
            f"the transaction at offset {start} of {where} does not hang: it belongs to the transactional id "
            f"{transaction.transactional_id}, and the transaction coordinator aborts it "
            f"{transaction.timeout_ms} ms after it has begun. Wait until then, or start a new producer with "
            "this transactional id, or abort the transaction in this partition alone (force)"
        )
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                name=where.topic, partition_indexes=[where.partition]
            )
        ],
        coordinator_epoch=max(0, transaction.coordinator_epoch),
    )
    order = AdminRequest(
        f"cannot abort the transaction at offset {start} of {where}",
        WriteTxnMarkersRequest(markers=[marker]),
        _marker_result,
    )
    yield from ask(order, partial(_leader, where))
    return transaction


def _open_in(
    partitions: Collection[TopicPartition],
) -> Dialogue[dict[tuple[TopicPartition, int, int], PartitionProducer]]:
    """Return the producers with open transactions in *partitions*. A key of the result is the partition, the
    offset at which the transaction begins, and the producer id."""
    producers = yield from retried(partial(describe_producers, sorted(partitions)))
    found = {
        (where, each.transaction_start, each.producer_id): each
        for where, some in producers.items()
        for each in some
        if each.transaction_start is not None
    }
    return dict(sorted(found.items()))


def _described(transactional_id: str) -> Dialogue[TransactionDescription | None]:
    """Return the description of a transactional id, or None if it has expired since it was listed."""
    try:
        return (yield from describe_transaction(transactional_id))
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return None


def _open_transaction(
    key: tuple[TopicPartition, int, int],
    producer: PartitionProducer,
    known: Mapping[int, TransactionDescription],
) -> OpenTransaction:
    where, start, producer_id = key
    description = known.get(producer_id)
    return OpenTransaction(
        partition=where,
        start=start,
        producer_id=producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        last_timestamp_ms=producer.last_timestamp_ms,
        transactional_id=None if description is None else description.transactional_id,
        timeout_ms=None if description is None else description.timeout_ms,
        hangs=description is None or where not in description.partitions,
    )


def _leader(where: TopicPartition) -> Dialogue[int]:
    metadata: Metadata = yield Refresh([where.topic])
    leaders, errors = by_leader(metadata, [where])
    if errors:
        raise errors[where]
    [node_id] = leaders
    return node_id


def _marker_result(response: WriteTxnMarkersResponse) -> object:
    return only(only(only(response.markers).topics).partitions)


def _description(
    found: DescribeTransactionsResponse.TransactionState, node_id: int
) -> TransactionDescription:
    began = None if found.transaction_state in _WITHOUT_TRANSACTION else found.transaction_start_time_ms
    partitions = (TopicPartition(each.topic, number) for each in found.topics for number in each.partitions)
    return TransactionDescription(
        transactional_id=found.transactional_id,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        began_ms=began,
        partitions=tuple(sorted(partitions)),
        coordinator=node_id,
    )
