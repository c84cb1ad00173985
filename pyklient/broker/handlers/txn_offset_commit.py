"""The handler of TxnOffsetCommit, which stores offsets that a group commits in a transaction."""

from typing import Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.broker.handlers.fenced_code import fenced_code
from pyklient.broker.handlers.offset_check import check_offset
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.log.partition_log import ProducerIdentity
from pyklient.broker.node_state import NodeState
from pyklient.broker.transactions.transaction import EPOCH_BUMP
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["txn_offset_commit"]

_ABORTABLE: Final = 4
_ADDS_GROUP: Final = 5


def txn_offset_commit(
    node: NodeState, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    """Store offsets that stay pending until the transaction of the producer commits.

    From version 5 on, the request also adds the group to the transaction (KIP-890). If the group or the
    producer may not commit, every partition gets the same error.
    """
    codes = {
        TopicPartition(topic.name, one.partition_index): check_offset(
            node, topic.name, one.partition_index, one.committed_metadata
        )
        for topic in request.topics
        for one in topic.partitions
    }
    offsets = {
        partition: CommittedOffset(
            one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "", node.now_ms()
        )
        for topic in request.topics
        for one in topic.partitions
        if not codes[partition := TopicPartition(topic.name, one.partition_index)]
    }
    try:
        _commit(node, request, context.version, offsets)
    except ApiError as error:
        code = fenced_code(error.code)
        if code is ErrorCode.TRANSACTION_ABORTABLE and context.version < _ABORTABLE:
            code = ErrorCode.INVALID_TXN_STATE
        codes = dict.fromkeys(codes, code)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=codes[TopicPartition(topic.name, one.partition_index)],
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _commit(
    node: NodeState,
    request: TxnOffsetCommitRequest,
    version: int,
    offsets: dict[TopicPartition, CommittedOffset],
) -> None:
    groups = node.group_coordinator_of(request.group_id)
    groups.check_transactional_commit(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    where = TopicPartition(OFFSETS_TOPIC, node.controller.group_partition(request.group_id).index)
    transactions = node.controller.transaction_coordinator_of(request.transactional_id)
    if version >= _ADDS_GROUP:
        transactions.add_partitions(request.transactional_id, producer, {where}, EPOCH_BUMP, node.now_ms())
    else:
        transactions.check_partition(request.transactional_id, producer, where)
    if offsets:
        groups.commit_in_transaction(request.group_id, offsets, producer)
