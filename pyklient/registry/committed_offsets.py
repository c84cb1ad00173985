"""Writes the committed offsets of a group into ZooKeeper, for consumers and for brokers."""

from collections.abc import Mapping

from pyklient.errors import KafkaError, NodeExistsError, NoNodeError
from pyklient.registry import paths
from pyklient.registry.consumer_nodes import offset_content
from pyklient.registry.requests import Create, RegistryDialogue, Together, Write
from pyklient.topic_partition import TopicPartition

__all__ = ["write_offsets"]


def write_offsets(group_id: str, offsets: Mapping[TopicPartition, int]) -> RegistryDialogue[None]:
    """Write *offsets* into the nodes of the group in ZooKeeper. Create missing nodes."""
    left = {
        paths.committed_offset(group_id, each.topic, each.partition): offset_content(offset)
        for each, offset in offsets.items()
    }
    # Most nodes exist. If one does not, another member may create it before this one does.
    for attempt, rejected_for in ((Write, NoNodeError), (Create, NodeExistsError), (Write, None)):
        answers = yield Together(tuple(attempt(path, content) for path, content in left.items()))
        again = {}
        for path, answer in zip(left, answers, strict=True):
            if rejected_for is not None and isinstance(answer, rejected_for):
                again[path] = left[path]
            elif isinstance(answer, KafkaError):
                raise answer
        left = again
        if not left:
            return
