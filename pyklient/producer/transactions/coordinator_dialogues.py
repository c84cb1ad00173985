"""The dialogues of a transactional producer with the coordinators of its transactions and of groups."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, TypeVar

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, KafkaError, ProtocolError, UnsupportedVersionError, broker_error
from pyklient.group_metadata import GroupMetadata
from pyklient.net.connection.api_versions import api_versions_request
from pyklient.net.dialogue import Ask, Dialogue, Pause
from pyklient.net.lookups.find_coordinator import GROUP, TRANSACTION, find_coordinator
from pyklient.producer.transactions.identity import Identity
from pyklient.producer.transactions.transaction import Transaction
from pyklient.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    ApiVersionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition, numbers_by_topic

__all__ = [
    "Coordinator",
    "add_group",
    "add_partitions",
    "commit_offsets",
    "end",
    "epoch_of_time_out",
    "initialize",
]

_T = TypeVar("_T")

_FEATURE: Final = "transaction.version"
_NEWEST_INIT: Final = 5
"""The newest version of InitProducerId that brokers support without unstable features."""
_FIRST_WITH_EPOCH: Final = 3
"""The first version of InitProducerId that raises the epoch of a known producer id (KIP-360)."""
_LAST_FOR_CLIENTS: Final = 3
"""The last version of AddPartitionsToTxn for clients. Later versions have another layout, for brokers."""
_FIRST_WITH_MEMBER: Final = 3
"""The first version of TxnOffsetCommit that names the member of the group (KIP-447)."""
_LAST_OF_VERSION_1: Final = 4
"""The last version of EndTxn and of TxnOffsetCommit for version 1 of the protocol. Later versions belong to
version 2 (KIP-890)."""
_TRIES_FOR_NEW_TOPIC: Final = 10
_PAUSE_FOR_NEW_TOPIC: Final = 0.5
"""The seconds between two attempts to send offsets if the group coordinator does not know a partition,
because its topic may be new. There are at most ``_TRIES_FOR_NEW_TOPIC`` attempts."""
_ABORTED: Final = ("PrepareAbort", "CompleteAbort")
"""The states of a transactional id whose last transaction is aborted."""
_SHORTEST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.1
"""The longest pause, in seconds, before a request is sent again because the coordinator still completes the
previous transaction. That usually takes some milliseconds, so the first pause is ``_SHORTEST_PAUSE``."""


class Coordinator:
    """The coordinator of the transactional id or group *key*. *key_type* is TRANSACTION or GROUP.

    The coordinator is looked up when it is first needed, and again after it has moved. Dialogues in several
    threads may share one Coordinator.
    """

    def __init__(self, key: str, key_type: int = TRANSACTION) -> None:
        self._key = key
        self._key_type = key_type
        self._node: int | None = None

    @classmethod
    def of_group(cls, group_id: str) -> "Coordinator":
        """Return the coordinator of the group *group_id*."""
        return cls(group_id, GROUP)

    def ask(self, attempt: Callable[[int], Dialogue[_T]]) -> Dialogue[_T]:
        """Run the dialogue ``attempt(node_id)``, again and again until it succeeds. *node_id* is the id of
        the broker that is the coordinator.

        Raises the error of an attempt if the error is not ``retriable``.
        """
        pause = _SHORTEST_PAUSE
        while True:
            try:
                if self._node is None:
                    self._node = yield from find_coordinator(self._key, self._key_type)
                return (yield from attempt(self._node))
            except KafkaError as error:
                if not error.retriable:
                    raise
                problem = error
            if isinstance(problem, BrokerError) and problem.code == ErrorCode.CONCURRENT_TRANSACTIONS:
                yield Pause(pause, because=problem)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._node = None
                yield Pause(because=problem)


def initialize(
    coordinator: Coordinator, transactional_id: str, timeout_ms: int, known: Identity | None
) -> Dialogue[tuple[Identity, int]]:
    """Return a producer id with a new epoch, and the version of the protocol for transactions.

    The coordinator aborts the open transaction of *transactional_id*, if there is one. If *known* is given,
    the coordinator raises the epoch of this identity, unless another producer has taken over. In that case,
    the coordinator returns an error (KIP-360).
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1 if known is None else known.producer_id,
        producer_epoch=-1 if known is None else known.epoch,
    )

    def attempt(node: int) -> Dialogue[tuple[Identity, int]]:
        versions: ApiVersionsResponse = yield Ask(node, api_versions_request())
        response: InitProducerIdResponse = yield Ask(
            node,
            request,
            max_version=_NEWEST_INIT,
            min_version=0 if known is None else _FIRST_WITH_EPOCH,
        )
        _check(response.error_code, f"cannot get a producer id for transactional_id={transactional_id!r}")
        levels = {feature.name: feature.max_version_level for feature in versions.finalized_features}
        return Identity(response.producer_id, response.producer_epoch), max(levels.get(_FEATURE, 1), 1)

    return (yield from coordinator.ask(attempt))


def add_partitions(
    coordinator: Coordinator,
    transactional_id: str,
    identity: Identity,
    partitions: Collection[TopicPartition],
) -> Dialogue[dict[TopicPartition, int]]:
    """Add *partitions* to the transaction (version 1 of the protocol). Return the error code of each
    partition.

    The coordinator adds either all partitions or none. After an error that concerns the whole request, tries
    again if the error is retriable, and otherwise raises the error.
    """
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in numbers_by_topic(partitions).items()
        ],
    )

    def attempt(node: int) -> Dialogue[dict[TopicPartition, int]]:
        response: AddPartitionsToTxnResponse = yield Ask(node, request, max_version=_LAST_FOR_CLIENTS)
        codes = {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        found = {at: codes.get(at, int(ErrorCode.UNKNOWN_SERVER_ERROR)) for at in partitions}
        for at, code in found.items():
            if code not in _OF_A_PARTITION:
                _check(code, f"cannot add {at} to the transaction of {transactional_id!r}")
        return found

    return (yield from coordinator.ask(attempt))


_OF_A_PARTITION: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    )
)
"""The error codes of AddPartitionsToTxn that do not concern all partitions of the request."""


def add_group(
    coordinator: Coordinator, transactional_id: str, identity: Identity, group_id: str
) -> Dialogue[None]:
    """Add the offsets of the group *group_id* to the transaction (version 1 of the protocol)."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )

    def attempt(node: int) -> Dialogue[None]:
        response: AddOffsetsToTxnResponse = yield Ask(node, request)
        _check(
            response.error_code, f"cannot add group {group_id!r} to the transaction of {transactional_id!r}"
        )

    yield from coordinator.ask(attempt)


def commit_offsets(
    coordinator: Coordinator,
    transactional_id: str,
    identity: Identity,
    version: int,
    member: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> Dialogue[None]:
    """Send *offsets* of the group of *member* to *coordinator*, the coordinator of the group. The offsets are
    committed together with the transaction. *version* is the transaction version.

    Raises BrokerError UNKNOWN_TOPIC_OR_PARTITION if the group coordinator does not know a partition, even
    after several attempts.
    """
    send = partial(_commit_offsets, transactional_id, identity, version)
    for attempt in range(_TRIES_FOR_NEW_TOPIC):
        try:
            missing = yield from coordinator.ask(partial(send, member, offsets))
        except UnsupportedVersionError:
            alone = GroupMetadata(member.group_id)
            if version > 1 or member == alone:
                raise
            member = alone  # Brokers before Kafka 2.5 cannot check the member.
            missing = yield from coordinator.ask(partial(send, member, offsets))
        if missing is None:
            return
        if attempt == _TRIES_FOR_NEW_TOPIC - 1:
            raise missing
        yield Pause(_PAUSE_FOR_NEW_TOPIC, because=missing)


def _commit_offsets(
    transactional_id: str,
    identity: Identity,
    version: int,
    member: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    node: int,
) -> Dialogue[BrokerError | None]:
    """Send *offsets* once. Return the error if a partition does not exist, and raise all other errors."""
    topics: dict[
        str, list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.TxnOffsetCommitRequestPartition]
    ] = {}
    for (topic, partition), position in offsets.items():
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=member.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    alone = member == GroupMetadata(member.group_id)
    response: TxnOffsetCommitResponse = yield Ask(
        node,
        request,
        max_version=_LAST_OF_VERSION_1 if version == 1 else None,
        min_version=_LAST_OF_VERSION_1 + 1 if version > 1 else 0 if alone else _FIRST_WITH_MEMBER,
    )
    codes = {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }
    missing: BrokerError | None = None
    for at in offsets:
        if at not in codes:
            raise ProtocolError(
                f"cannot tell whether the offset of {at} for group {member.group_id!r} is in the "
                "transaction: the response does not contain this partition"
            )
        context = f"cannot commit the offset of {at} for group {member.group_id!r} in the transaction of "
        context += repr(transactional_id)
        if codes[at] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            missing = missing or broker_error(codes[at], context)
        else:
            _check(codes[at], context)
    return missing


def end(
    coordinator: Coordinator, transaction: Transaction, identity: Identity, *, committed: bool
) -> Dialogue[Identity]:
    """Return a dialogue that commits or aborts *transaction*. The result of the dialogue is the identity for
    the producer's next transaction. In version 2 of the protocol, this identity has a new epoch."""
    transactional_id, version = transaction.transactional_id, transaction.version
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=committed,
    )

    # The quotes keep Python from evaluating the type each time that a transaction ends.
    def attempt(node: int) -> "Dialogue[Identity]":
        transaction.end_requests += 1
        response: EndTxnResponse = yield Ask(
            node,
            request,
            max_version=_LAST_OF_VERSION_1 if version == 1 else None,
            min_version=0 if version == 1 else _LAST_OF_VERSION_1 + 1,
        )
        if response.error_code:
            what = "commit" if committed else "abort"
            raise broker_error(response.error_code, f"cannot {what} the transaction of {transactional_id!r}")
        if response.producer_id < 0:
            return identity
        return Identity(response.producer_id, response.producer_epoch)

    return coordinator.ask(attempt)


def epoch_of_time_out(
    coordinator: Coordinator, transactional_id: str, identity: Identity
) -> Dialogue[Identity | None]:
    """Return the identity that the producer has after the coordinator has aborted its transaction because of
    a time-out. The epoch is one higher than in *identity*, and no other producer has it. Return None if
    another producer has taken over.

    Call this in version 1 of the protocol, in which the coordinator answers that the epoch of *identity* is
    too old, both after a time-out and after a takeover. Two conditions must be true: the coordinator has
    confirmed a request that adds something to the transaction, and no earlier request to end the transaction
    has succeeded. Otherwise, the next epoch may belong to another producer. Needs Kafka 3.0.
    """
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    # To abort an open transaction, the coordinator raises the epoch. A producer that takes over then raises
    # the epoch once more.
    raised = Identity(identity.producer_id, identity.epoch + 1)

    def attempt(node: int) -> Dialogue[Identity | None]:
        response: DescribeTransactionsResponse = yield Ask(node, request)
        for found in response.transaction_states:
            _check(found.error_code, f"cannot describe the transaction of {transactional_id!r}")
            aborted = found.transaction_state in _ABORTED
            if aborted and (found.producer_id, found.producer_epoch) == raised:
                return raised
        return None

    return (yield from coordinator.ask(attempt))


def _check(code: int, context: str) -> None:
    if code:
        raise broker_error(code, context)
