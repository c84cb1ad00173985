"""The dialogues by which a broker keeps offsets in ZooKeeper for clients that commit with version 0."""

from collections.abc import Collection, Mapping

from pyklient.errors import NodeContentError, NodeExistsError
from pyklient.registry import paths
from pyklient.registry.consumer_nodes import offset_content, parse_offset
from pyklient.registry.requests import Create, Node, Read, RegistryDialogue, Write
from pyklient.topic_partition import TopicPartition

__all__ = ["read_offsets", "write_offsets"]


def write_offsets(group_id: str, offsets: Mapping[TopicPartition, int]) -> RegistryDialogue[None]:
    """Write the *offsets* that a group commits into ZooKeeper."""
    for partition, offset in offsets.items():
        path = paths.committed_offset(group_id, partition.topic, partition.partition)
        content = offset_content(offset)
        try:
            yield Create(path, content)
        except NodeExistsError:
            yield Write(path, content)


def read_offsets(
    group_id: str, partitions: Collection[TopicPartition]
) -> RegistryDialogue[dict[TopicPartition, int | NodeContentError]]:
    """Return the offsets that a group has committed in ZooKeeper, by partition.

    If the node of a partition does not contain an offset, the result has an error for this partition.
    """
    found: dict[TopicPartition, int | NodeContentError] = {}
    for partition in partitions:
        path = paths.committed_offset(group_id, partition.topic, partition.partition)
        node: Node | None = yield Read(path)
        if node is not None:
            try:
                found[partition] = parse_offset(path, node.content)
            except NodeContentError as error:
                found[partition] = error
    return found
