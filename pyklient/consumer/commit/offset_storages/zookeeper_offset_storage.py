"""The offset storage in ZooKeeper. It has a node for each partition, as Kafka's consumer in Scala does."""

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import TypeVar

from pyklient.consumer.commit.offset_storages.offset_storage import Rejections, commit_here
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import KafkaError
from pyklient.registry import paths
from pyklient.registry.committed_offsets import write_offsets
from pyklient.registry.consumer_nodes import parse_offset
from pyklient.registry.requests import Node, Read, RegistryDialogue, all_answers
from pyklient.registry.zookeeper import ZooKeeper
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["ZooKeeperOffsetStorage", "read_offsets"]

log = logging.getLogger("pyklient.consumer")

_T = TypeVar("_T")


class ZooKeeperOffsetStorage:
    """An OffsetStorage that keeps the offsets of the group *group_id* in ZooKeeper.

    Offsets in ZooKeeper have neither metadata nor leader epochs.
    """

    def __init__(self, registry: ZooKeeper, group_id: str) -> None:
        self._registry = registry
        self._group_id = group_id
        self._closing = False
        self._known: dict[TopicPartition, int] = {}
        """The newest offset of each partition that this client has read from ZooKeeper or written there."""

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each of *partitions*, or None for a partition without one."""
        found = self._play(read_offsets(self._group_id, partitions, self._known), timeout)
        self._known.update({each: at.offset for each, at in found.items() if at is not None})
        return found

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Write *positions* to ZooKeeper. No position is rejected.

        ZooKeeper does not know which member owns the partitions, so *identity* is not used. This storage
        never tries again, so *once* is not used either.
        """
        offsets = {each: position.offset for each, position in positions.items()}
        self._play(write_offsets(self._group_id, offsets), timeout)
        self._known.update(offsets)
        return {}

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Write *positions* to ZooKeeper, and return a future that is done. Return None if there is no
        connection to ZooKeeper.

        The call waits for ZooKeeper for at most two seconds.
        """
        if self.unreachable() is not None:
            return None
        return commit_here(self, positions, identity)

    def unreachable(self) -> KafkaError | None:
        """Return an error if the connection to ZooKeeper is lost at the moment. Otherwise return None."""
        return self._registry.unreachable()

    def stop_retrying(self) -> None:
        """From now on, do not try again if ZooKeeper cannot be reached. The client calls this method when it
        closes."""
        self._closing = True

    def _play(self, dialogue: RegistryDialogue[_T], timeout: float) -> _T:
        if self._closing and (error := self.unreachable()) is not None:
            raise error
        return self._registry.play(dialogue, timeout)


def read_offsets(
    group_id: str, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]
) -> RegistryDialogue[dict[TopicPartition, OffsetAndMetadata | None]]:
    """Return the committed offset of each of *partitions*, or None for a partition without one.

    *known* has the offsets that this client has seen before. If such an offset is not in ZooKeeper any more,
    log a warning. Ignore an offset that was committed before the topic was created: it belongs to a deleted
    topic of the same name, whose offsets ZooKeeper keeps.
    """
    wanted = tuple(partitions)
    topics = sorted({each.topic for each in wanted})
    nodes: list[Node | None] = yield from all_answers(
        [
            *(Read(paths.committed_offset(group_id, each.topic, each.partition)) for each in wanted),
            *(Read(paths.topic(topic)) for topic in topics),
        ]
    )
    created = {
        topic: 0 if node is None else node.created
        for topic, node in zip(topics, nodes[len(wanted) :], strict=True)
    }
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for each, node in zip(wanted, nodes, strict=False):
        found[each] = None
        if node is None:
            if each in known:
                log.warning(
                    "group %s: the committed offset %d of %s has been deleted from ZooKeeper, so the "
                    "option auto_offset_reset decides where reading of the partition begins",
                    group_id,
                    known[each],
                    each,
                )
            continue
        path = paths.committed_offset(group_id, each.topic, each.partition)
        offset = parse_offset(path, node.content)
        if node.written < created[each.topic]:
            log.warning(
                "group %s: the offset %d of %s in ZooKeeper is ignored, because it was committed before "
                "the topic was created",
                group_id,
                offset,
                each,
            )
        else:
            found[each] = OffsetAndMetadata(offset)
    return found
