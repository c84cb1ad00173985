"""The handler of InitProducerId, which gives producer ids to idempotent producers."""

from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["init_producer_id"]


def init_producer_id(
    node: NodeState, request: InitProducerIdRequest, _: RequestContext
) -> InitProducerIdResponse:
    """Assign a new producer id to an idempotent producer, with producer epoch 0.

    A producer needs no new id after a failure: it increments its epoch by itself (KIP-360), and the
    partitions accept the new epoch.
    """
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=node.cluster.producer_ids.new(), producer_epoch=0)
