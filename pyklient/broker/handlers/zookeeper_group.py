"""Checks if the offsets of a group can be kept in ZooKeeper."""

import re
from typing import Final

from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode

__all__ = ["zookeeper_error"]

_GROUP_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,255}")


def zookeeper_error(node: NodeState, group_id: str) -> ErrorCode:
    """Return the error for a request of version 0 about the offsets of a group; NONE if the request can be
    served.

    A broker without ZooKeeper answers with an error, as Kafka does. The group id must be allowed in a path of
    ZooKeeper.
    """
    if node.cluster.registration is None:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE if _GROUP_ID.fullmatch(group_id) else ErrorCode.INVALID_GROUP_ID
