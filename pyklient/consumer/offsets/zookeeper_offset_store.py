"""The offsets that a group keeps in ZooKeeper, a node for each partition, as Scala's consumer does."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import TypeVar

from pyklient.consumer.offsets.offset_store import Rejections
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import KafkaError, NodeExistsError, NoNodeError, RegistryConnectionError
from pyklient.registry import paths
from pyklient.registry.consumer_nodes import offset_content, parse_offset
from pyklient.registry.requests import Create, Read, RegistryDialogue, Write
from pyklient.registry.zookeeper import ZooKeeper
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["ZooKeeperOffsetStore", "read_offsets", "write_offsets"]

_T = TypeVar("_T")

_AUTOMATIC_TIMEOUT = 2.0
"""The seconds that an automatic commit takes at most."""


class ZooKeeperOffsetStore:
    """The offsets of the group *group_id* in ZooKeeper. They have neither metadata nor leader epochs."""

    def __init__(self, registry: ZooKeeper, group_id: str) -> None:
        self._registry = registry
        self._group_id = group_id
        self._closing = False

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See OffsetStore.fetch."""
        return self._play(read_offsets(self._group_id, partitions), timeout)

    def commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity, timeout: float
    ) -> Rejections:
        """See OffsetStore.commit. ZooKeeper does not know whether *identity* owns the partitions."""
        self._play(write_offsets(self._group_id, positions), timeout)
        return {}

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """See OffsetStore.commit_async. Waits for ZooKeeper, but not while there is no connection to it."""
        if self.unreachable() is not None:
            return None
        rejections: Future[Rejections] = Future()
        try:
            rejections.set_result(self.commit(positions, identity, _AUTOMATIC_TIMEOUT))
        except KafkaError as error:
            rejections.set_exception(error)
        return rejections

    def unreachable(self) -> KafkaError | None:
        """See OffsetStore.unreachable."""
        if self._registry.suspended_since is None:
            return None
        return RegistryConnectionError(f"The connection to {self._registry} is lost")

    def stop_retrying(self) -> None:
        """See OffsetStore.stop_retrying."""
        self._closing = True

    def _play(self, dialogue: RegistryDialogue[_T], timeout: float) -> _T:
        if self._closing and (error := self.unreachable()) is not None:
            raise error
        return self._registry.play(dialogue, timeout)


def read_offsets(
    group_id: str, partitions: Collection[TopicPartition]
) -> RegistryDialogue[dict[TopicPartition, OffsetAndMetadata | None]]:
    """Return the committed offset of each of *partitions*, None for those without one."""
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for each in partitions:
        path = paths.committed_offset(group_id, each.topic, each.partition)
        node = yield Read(path)
        found[each] = None if node is None else OffsetAndMetadata(parse_offset(path, node.content))
    return found


def write_offsets(
    group_id: str, positions: Mapping[TopicPartition, OffsetAndMetadata]
) -> RegistryDialogue[None]:
    """Write *positions*."""
    for each, position in positions.items():
        path = paths.committed_offset(group_id, each.topic, each.partition)
        content = offset_content(position.offset)
        try:
            yield Write(path, content)
        except NoNodeError:
            try:
                yield Create(path, content)
            except NodeExistsError:  # another member has created it since
                yield Write(path, content)
