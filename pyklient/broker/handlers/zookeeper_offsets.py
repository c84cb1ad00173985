"""Checks if a group can keep its offsets in ZooKeeper: version 0 of OffsetCommit and OffsetFetch."""

import re
from typing import Final

from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode

__all__ = ["zookeeper_error"]

_GROUP_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,255}")


def zookeeper_error(node: NodeState, group_id: str) -> ErrorCode:
    """Return the error code for a request about offsets that a group keeps in ZooKeeper (OffsetCommit or
    OffsetFetch, version 0); NONE if the broker can serve the request.

    There is an error if the broker does not use ZooKeeper, as in Kafka, and if the group id cannot be part of
    a path in ZooKeeper.
    """
    if node.cluster.registration is None:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE if _GROUP_ID.fullmatch(group_id) else ErrorCode.INVALID_GROUP_ID
