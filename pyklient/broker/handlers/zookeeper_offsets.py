"""Checks whether the broker can serve version 0 of OffsetCommit and OffsetFetch, which keeps offsets in
ZooKeeper."""

import re
from typing import Final

from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode

__all__ = ["zookeeper_error"]

_GROUP_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,255}")


def zookeeper_error(node: NodeState, group_id: str) -> ErrorCode:
    """Return the error code for an OffsetCommit or OffsetFetch request of version 0, which keeps the offsets
    of a group in ZooKeeper. Return NONE if the broker can serve the request.

    The broker cannot serve the request if it does not use ZooKeeper, or if the group id cannot be part of a
    path in ZooKeeper.
    """
    if node.cluster.registration is None:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE if _GROUP_ID.fullmatch(group_id) else ErrorCode.INVALID_GROUP_ID
