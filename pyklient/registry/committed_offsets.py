"""The dialogues that write the committed offsets of a group into ZooKeeper, for consumers, Admin and the
broker."""

from collections.abc import Mapping

from pyklient.errors import KafkaError, NodeExistsError, NodeVersionError, NoNodeError
from pyklient.registry import paths
from pyklient.registry.consumer_nodes import offset_content
from pyklient.registry.requests import Create, RegistryDialogue, Together, Write
from pyklient.topic_partition import TopicPartition

__all__ = ["replace_offsets", "write_offsets"]


def write_offsets(group_id: str, offsets: Mapping[TopicPartition, int]) -> RegistryDialogue[None]:
    """Write *offsets* into the ZooKeeper nodes of the group. Create the nodes that do not exist."""
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


def replace_offsets(
    group_id: str, offsets: Mapping[TopicPartition, int], versions: Mapping[TopicPartition, int]
) -> RegistryDialogue[list[TopicPartition]]:
    """Write *offsets* into the ZooKeeper nodes of the group, except for nodes that another client has
    changed.

    *versions* has the version of each node that exists, as the caller has read it. Return the partitions
    whose node has another version by now, or was created or deleted. Their nodes stay as they are.
    """
    requests: dict[TopicPartition, Create | Write] = {}
    for each, offset in offsets.items():
        path, content = paths.committed_offset(group_id, *each), offset_content(offset)
        requests[each] = Write(path, content, versions[each]) if each in versions else Create(path, content)
    answers = (yield Together(tuple(requests.values()))) if requests else []
    changed = []
    for each, answer in zip(requests, answers, strict=True):
        if isinstance(answer, NodeVersionError | NodeExistsError | NoNodeError):
            changed.append(each)
        elif isinstance(answer, KafkaError):
            raise answer
    return changed
