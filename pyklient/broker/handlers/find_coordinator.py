"""The handler of FindCoordinator, which returns the node that coordinates a group or a transactional id."""

from pyklient.broker.handlers.request_context import RequestContext
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["find_coordinator"]

_GROUP, _TRANSACTION = 0, 1
_SEVERAL_KEYS = 4


def find_coordinator(
    node: NodeState, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    """Return the node that coordinates a group or a transactional id. From version 4 on, a request can name
    several groups or ids."""
    if context.version >= _SEVERAL_KEYS:
        found = [_coordinator(node, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    only = _coordinator(node, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(node: NodeState, key: str, key_type: int) -> FindCoordinatorResponse.Coordinator:
    if key_type == _GROUP:
        partition = node.controller.group_partition(key)
    elif key_type == _TRANSACTION:
        partition = node.controller.transaction_partition(key)
    else:
        return FindCoordinatorResponse.Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"unknown type of coordinator: {key_type}",
        )
    endpoint = node.cluster.nodes[partition.leader_id]
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port
    )
