"""The partitions of ``__consumer_offsets`` that a node has, and which of them are loaded."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC, group_partition
from pyklient.broker.cluster.topics import Topics
from pyklient.broker.groups.offsets_partition import OffsetsPartition
from pyklient.broker.log.log_manager import LogManager
from pyklient.error_codes import ErrorCode

__all__ = ["OffsetsPartitions"]


class OffsetsPartitions:
    """The partitions of ``__consumer_offsets`` that a node has. *topics* tells how many partitions
    ``__consumer_offsets`` has, and *logs* has the logs of the node's partitions.

    ``restoring`` is the partition whose log has been read, but whose groups are not all restored yet.
    """

    def __init__(self, topics: Topics, logs: LogManager) -> None:
        self.restoring: OffsetsPartition | None = None
        self._topics = topics
        self._logs = logs
        self._partitions: dict[int, OffsetsPartition] = {}

    def all(self) -> list[OffsetsPartition]:
        """Return the partitions that the node has. The list is empty as long as the topic does not exist."""
        topic = self._topics.find(OFFSETS_TOPIC)
        indexes = range(0 if topic is None else len(topic.partitions))
        return [found for index in indexes if (found := self.find(index)) is not None]

    def find(self, index: int) -> OffsetsPartition | None:
        """Return the partition *index*; None if the node does not have it."""
        found = self._partitions.get(index)
        log = self._logs.by_partition.get((OFFSETS_TOPIC, index))
        if found is None and log is not None:
            found = self._partitions[index] = OffsetsPartition(log)
        return found

    def of_group(self, group_id: str) -> OffsetsPartition:
        """Return the partition that stores the group *group_id*. Raises ApiError (NOT_COORDINATOR) if this
        node does not have the partition."""
        topic = self._topics.find(OFFSETS_TOPIC)
        if topic is not None:
            found = self.find(group_partition(group_id, len(topic.partitions)))
            if found is not None:
                return found
        raise ApiError(ErrorCode.NOT_COORDINATOR, f"this node does not coordinate group {group_id!r}")

    def is_loaded(self, partition: OffsetsPartition) -> bool:
        """Return True if all groups of *partition* are restored."""
        return partition.loaded and partition is not self.restoring

    def check_loaded(self, index: int) -> None:
        """Raise ApiError (COORDINATOR_LOAD_IN_PROGRESS) if the node has the partition *index*, but has not
        loaded all its groups yet."""
        partition = self.find(index)
        if partition is not None and not self.is_loaded(partition):
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{partition.name} is still being loaded; ask again"
            )

    def end_transaction(self, index: int, producer_id: int, *, is_commit: bool) -> None:
        """Commit or discard the offsets that belong to a producer's transaction. The caller has written the
        marker that ends the transaction into the partition *index*."""
        partition = self.find(index)
        if partition is not None:
            partition.end_transaction(producer_id, is_commit=is_commit)
