"""Writes the markers that end transactions into partitions, on all nodes of the cluster."""

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.cluster.topics import Topics
from pyklient.broker.groups.group_coordinator import GroupCoordinator
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.log.transaction_markers import TransactionMarker
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

__all__ = ["MarkerWriter"]


class MarkerWriter:
    """Writes markers into the logs of the partitions' leaders. All nodes of the cluster are in this process,
    so that no requests between nodes are needed."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._logs: dict[int, LogManager] = {}
        self._group_coordinators: dict[int, GroupCoordinator] = {}

    def add_node(self, node_id: int, logs: LogManager, group_coordinator: GroupCoordinator) -> None:
        """Add a node to which markers can be written."""
        self._logs[node_id] = logs
        self._group_coordinators[node_id] = group_coordinator

    def write(self, where: TopicPartition, marker: TransactionMarker, version: int, now_ms: int) -> None:
        """Write *marker* into the partition *where*. In a partition of ``__consumer_offsets``, also commit or
        discard the offsets that groups have committed in the transaction.

        *version* is the version of transactions that the producer uses. Raises ApiError if the partition does
        not exist, if its leader is not running or still loads its groups, or if the marker is too old. Raises
        OSError if the log cannot be written.
        """
        leader_id = self._topics.partition(*where).leader_id
        log = self._logs[leader_id].by_partition.get(where) if leader_id in self._logs else None
        if log is None:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the leader of {where}, node {leader_id}, is not running",
            )
        offsets = self._group_coordinators[leader_id].partitions if where.topic == OFFSETS_TOPIC else None
        if offsets is not None:
            offsets.check_loaded(where.partition)
        log.append_marker(marker, now_ms=now_ms, transaction_version=version)
        if offsets is not None:
            offsets.end_transaction(where.partition, marker.producer_id, is_commit=marker.is_commit)
