"""Parses and writes the content of the ZooKeeper nodes of a cluster as a whole: the cluster id, the
controller, and the controller epoch."""

from typing import Final

from pyklient.registry import paths
from pyklient.registry.node_content import NodeFields, json_content, text_content, whole_number

__all__ = [
    "cluster_id_content",
    "controller_content",
    "parse_cluster_id",
    "parse_controller",
    "parse_controller_epoch",
]

_OBJECT: Final = "{"


def parse_controller(content: bytes) -> int:
    """Return the broker id of the controller from *content*, the content of the controller's ZooKeeper node.

    Kafka 0.8.0 wrote only the id; later versions write JSON. Raises NodeContentError if *content* is
    malformed.
    """
    if not text_content(paths.CONTROLLER, content).startswith(_OBJECT):
        return whole_number(paths.CONTROLLER, content)
    return NodeFields(paths.CONTROLLER, content).number("brokerid")


def controller_content(broker_id: int, timestamp_ms: int) -> bytes:
    """Return the content of the controller's ZooKeeper node, which names the broker *broker_id* as the
    controller. A broker writes it when it becomes the controller, at the time *timestamp_ms*."""
    return json_content(version=1, brokerid=broker_id, timestamp=str(timestamp_ms))


def parse_controller_epoch(content: bytes) -> int:
    """Return the controller epoch from *content*, the content of its ZooKeeper node. The controller epoch is
    the number of controllers that the cluster has had.

    Raises NodeContentError if *content* is not a number.
    """
    return whole_number(paths.CONTROLLER_EPOCH, content)


def parse_cluster_id(content: bytes) -> str:
    """Return the cluster id from *content*, the content of its ZooKeeper node. Raises NodeContentError if
    *content* is malformed."""
    return NodeFields(paths.CLUSTER_ID, content).text("id")


def cluster_id_content(cluster_id: str) -> bytes:
    """Return the content of the ZooKeeper node for the cluster id. The first broker of a cluster writes this
    node.

    As in Kafka, the version in this node is text and not a number.
    """
    return json_content(version="1", id=cluster_id)
