"""The handler of InitProducerId, which gives producer ids to idempotent and transactional producers."""

from typing import Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.handlers.fenced_code import fenced_code
from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.log.partition_log import ProducerIdentity
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["init_producer_id"]

_PRODUCER_FENCED: Final = 4


def init_producer_id(
    node: NodeState, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    """Return a new producer id for an idempotent producer, with producer epoch 0. For a transactional
    producer, return the producer id of its transactional id, with a new epoch.

    An idempotent producer needs no new id after a failure: it increments its epoch by itself (KIP-360), and
    the partitions accept the new epoch.
    """
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=node.cluster.producer_ids.new(), producer_epoch=0)
    try:
        identity = _initialized(node, request, request.transactional_id)
    except ApiError as error:
        return InitProducerIdResponse(
            error_code=fenced_code(error.code, knows_fenced=context.version >= _PRODUCER_FENCED),
            producer_id=-1,
            producer_epoch=-1,
        )
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _initialized(node: NodeState, request: InitProducerIdRequest, transactional_id: str) -> ProducerIdentity:
    if request.enable2_pc:
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "this broker does not support two-phase commit (KIP-939)",
        )
    if request.keep_prepared_txn:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, "this broker does not support prepared transactions (KIP-939)"
        )
    expected = None
    if request.producer_id >= 0 and request.producer_epoch >= 0:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    return node.transaction_coordinator_of(transactional_id).init_producer(
        transactional_id, request.transaction_timeout_ms, expected, node.now_ms()
    )
