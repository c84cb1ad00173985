"""Checks an offset that a client wants to commit."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode

__all__ = ["check_offset"]


def check_offset(node: NodeState, topic: str, partition: int, metadata: str | None) -> ErrorCode:
    """Return the error code for the commit of an offset for *partition* of *topic*, with the text *metadata*:
    UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE or NONE."""
    try:
        node.cluster.topics.partition(topic, partition)
    except ApiError as error:
        return error.code
    if len(metadata or "") > node.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE
