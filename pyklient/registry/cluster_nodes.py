"""The nodes of a whole cluster: its id, its controller, and the epoch of the controller."""

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
    """Return the id of the controller from *content*, the content of the controller's node in ZooKeeper.
    Raises NodeContentError if Kafka does not write such content.

    Kafka 0.8.0 wrote the id alone, later versions write JSON.
    """
    if not text_content(paths.CONTROLLER, content).startswith(_OBJECT):
        return whole_number(paths.CONTROLLER, content)
    return NodeFields(paths.CONTROLLER, content).number("brokerid")


def controller_content(broker_id: int, timestamp_ms: int) -> bytes:
    """Return the content of the controller's node, which the broker that becomes the controller writes."""
    return json_content(version=1, brokerid=broker_id, timestamp=str(timestamp_ms))


def parse_controller_epoch(content: bytes) -> int:
    """Return the number of controllers that the cluster has had, from *content*, the content of the node that
    counts them.

    Raises NodeContentError if the content is not a number.
    """
    return whole_number(paths.CONTROLLER_EPOCH, content)


def parse_cluster_id(content: bytes) -> str:
    """Return the id of the cluster from *content*, the content of its node in ZooKeeper. Raises
    NodeContentError if Kafka does not write such content."""
    return NodeFields(paths.CLUSTER_ID, content).text("id")


def cluster_id_content(cluster_id: str) -> bytes:
    """Return the content of the node with the id of the cluster, which the first broker writes.

    The version in the node is text, as Kafka writes it.
    """
    return json_content(version="1", id=cluster_id)
