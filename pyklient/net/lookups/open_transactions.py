"""Looks up the producers of a partition, the offsets at which their open transactions begin, and the
transactional ids of producers (KIP-664).

Brokers since Kafka 2.8 describe producers, and those since Kafka 3.0 list transactions.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from pyklient.errors import BrokerError, ProtocolError, broker_error
from pyklient.net.dialogue import Ask, Dialogue, Refresh
from pyklient.net.lookups.partition_leaders import by_leader
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from pyklient.topic_partition import TopicPartition, numbers_by_topic

__all__ = ["PartitionProducer", "TransactionListing", "describe_producers", "list_transactions"]

_WITH_DURATION: Final = 1
"""The first version of ListTransactions with a filter for how long a transaction has been open."""


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """An idempotent or transactional producer, as the leader of a partition knows it.

    ``transaction_start`` is the first offset of the producer's open transaction in this partition. It is None
    if the producer has no open transaction there. ``coordinator_epoch`` is the epoch of the transaction
    coordinator that wrote the end of the producer's last transaction; -1 if there was none.
    ``last_timestamp_ms`` is the timestamp of the producer's last batch.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id. ``state`` is, for example, ``Ongoing`` while a transaction is open.
    ``coordinator`` is the node id of its transaction coordinator."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


def describe_producers(
    partitions: Iterable[TopicPartition],
) -> Dialogue[dict[TopicPartition, list[PartitionProducer]]]:
    """Ask the leader of each of *partitions* once for the producers that have written to the partition.

    Raises the first error of a partition, and UnsupportedVersionError if a broker is older than Kafka 2.8.
    """
    wanted = list(partitions)
    metadata: Metadata = yield Refresh({each.topic for each in wanted})
    leaders, errors = by_leader(metadata, wanted)
    for error in errors.values():
        raise error
    found: dict[TopicPartition, list[PartitionProducer]] = {}
    for node_id, led in leaders.items():
        topics = [
            DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(led).items()
        ]
        response = yield Ask(node_id, DescribeProducersRequest(topics=topics))
        found |= _producers(response)
    if left_out := [each for each in wanted if each not in found]:
        raise ProtocolError(
            f"cannot describe the producers of {', '.join(map(str, left_out))}: the response does not "
            "contain them"
        )
    return {each: found[each] for each in wanted}


def list_transactions(
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int | None = None,
) -> Dialogue[list[TransactionListing]]:
    """Ask each broker once for its transactional ids. Return the ids of all brokers, sorted.

    Each returned id has one of *states*, belongs to one of *producer_ids*, and has a transaction that has
    been open for longer than *longer_than_ms*. An argument that is empty or None excludes no id. Raises
    UnsupportedVersionError if a broker is older than Kafka 3.0, or older than 3.8 if *longer_than_ms* is
    given.
    """
    metadata: Metadata = yield Refresh(())
    found: list[TransactionListing] = []
    for node_id in sorted(metadata.nodes):
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
        )
        response: ListTransactionsResponse = yield Ask(
            node_id, request, min_version=0 if longer_than_ms is None else _WITH_DURATION
        )
        if response.error_code:
            raise broker_error(response.error_code, f"cannot list the transactions of broker {node_id}")
        found += (
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
            for each in response.transaction_states
        )
    return sorted(found, key=lambda each: each.transactional_id)


def _producers(
    response: DescribeProducersResponse,
) -> dict[TopicPartition, list[PartitionProducer]]:
    found: dict[TopicPartition, list[PartitionProducer]] = {}
    for topic in response.topics:
        for data in topic.partitions:
            where = TopicPartition(topic.name, data.partition_index)
            if data.error_code:
                raise _error(where, data)
            found[where] = [
                PartitionProducer(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.coordinator_epoch,
                    each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                )
                for each in data.active_producers
            ]
    return found


def _error(
    where: TopicPartition, data: DescribeProducersResponse.TopicResponse.PartitionResponse
) -> BrokerError:
    said = f" (broker: {data.error_message})" if data.error_message else ""
    return broker_error(data.error_code, f"cannot describe the producers of {where}{said}")
