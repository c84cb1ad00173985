"""The dialogue that reads committed offsets from ZooKeeper, for OffsetFetch requests of version 0."""

from collections.abc import Collection

from pyklient.errors import NodeContentError
from pyklient.registry import paths
from pyklient.registry.consumer_nodes import parse_offset
from pyklient.registry.requests import Node, Read, RegistryDialogue, all_answers
from pyklient.topic_partition import TopicPartition

__all__ = ["read_offsets"]


def read_offsets(
    group_id: str, partitions: Collection[TopicPartition]
) -> RegistryDialogue[dict[TopicPartition, int | NodeContentError]]:
    """Return the offsets that a group has committed in ZooKeeper, by partition.

    The result has no entry for a partition without a ZooKeeper node. If the node does not contain an offset,
    the entry is an error.
    """
    where = {paths.committed_offset(group_id, each.topic, each.partition): each for each in partitions}
    nodes: list[Node | None] = yield from all_answers(map(Read, where))
    found: dict[TopicPartition, int | NodeContentError] = {}
    for (path, partition), node in zip(where.items(), nodes, strict=True):
        if node is not None:
            try:
                found[partition] = parse_offset(path, node.content)
            except NodeContentError as error:
                found[partition] = error
    return found
