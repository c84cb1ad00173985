"""The controller of a cluster, which creates and deletes topics and adds partitions to them."""

from collections.abc import Iterable, Mapping

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.metadata import ClusterMetadata
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC, group_partition, offsets_topic_configs
from pyklient.broker.cluster.topics import Partition, Topic
from pyklient.broker.cluster.transaction_topic import (
    TRANSACTION_TOPIC,
    transaction_partition,
    transaction_topic_configs,
)
from pyklient.broker.groups.group_coordinator import GroupCoordinator
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.transactions.marker_writer import MarkerWriter
from pyklient.broker.transactions.transaction_coordinator import TransactionCoordinator
from pyklient.error_codes import ErrorCode

__all__ = ["Controller"]


class Controller:
    """Creates and deletes topics, and adds partitions to them.

    Each change is made in the metadata of the cluster and in the logs of the nodes. The deletion of a topic
    also deletes the offsets that groups have committed for it. ``markers`` writes transaction markers into
    the partitions of all nodes.
    """

    def __init__(self, cluster: ClusterMetadata) -> None:
        self.cluster = cluster
        self._logs: dict[int, LogManager] = {}
        self._group_coordinators: dict[int, GroupCoordinator] = {}
        self._transaction_coordinators: dict[int, TransactionCoordinator] = {}
        self.markers = MarkerWriter(cluster.topics)

    def add_node(
        self,
        node_id: int,
        logs: LogManager,
        group_coordinator: GroupCoordinator,
        transaction_coordinator: TransactionCoordinator,
    ) -> None:
        """Add a node to the cluster, and open the logs of all partitions of which the node has a replica."""
        for topic in self.cluster.topics.all():
            config = self._log_config(topic)
            for partition in topic.partitions:
                if node_id in partition.replica_ids:
                    logs.open(topic.name, partition.index, config)
        self._logs[node_id] = logs
        self._group_coordinators[node_id] = group_coordinator
        self._transaction_coordinators[node_id] = transaction_coordinator
        self.markers.add_node(node_id, logs, group_coordinator)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Create a topic with empty logs. Raises ApiError if the topic cannot be created."""
        topic = self.cluster.topics.prepare(name, partitions, configs)
        self._create_logs(topic, topic.partitions)
        self.cluster.topics.add(topic)
        return topic

    def create_automatically(self, name: str) -> Topic:
        """Create a topic that a client has asked for, with the default number of partitions. Raises ApiError
        if the topic cannot be created."""
        if name == OFFSETS_TOPIC:
            return self.offsets_topic()
        if name == TRANSACTION_TOPIC:
            return self.transaction_topic()
        return self.create_topic(name, self.cluster.config.num_partitions, {})

    def offsets_topic(self) -> Topic:
        """Return the topic ``__consumer_offsets``. Create it first if it does not exist."""
        config = self.cluster.config
        return self.cluster.topics.find(OFFSETS_TOPIC) or self.create_topic(
            OFFSETS_TOPIC, config.offsets_topic_num_partitions, offsets_topic_configs(config)
        )

    def transaction_topic(self) -> Topic:
        """Return the topic ``__transaction_state``. Create it first if it does not exist."""
        config = self.cluster.config
        return self.cluster.topics.find(TRANSACTION_TOPIC) or self.create_topic(
            TRANSACTION_TOPIC, config.transaction_state_log_num_partitions, transaction_topic_configs(config)
        )

    def transaction_partition(self, transactional_id: str) -> Partition:
        """Return the partition of ``__transaction_state`` in which *transactional_id* is stored. The leader
        of this partition coordinates the transactions of this id."""
        partitions = self.transaction_topic().partitions
        return partitions[transaction_partition(transactional_id, len(partitions))]

    def transaction_coordinator_of(self, transactional_id: str) -> TransactionCoordinator:
        """Return the transaction coordinator of *transactional_id*, on any node of the cluster.

        Raises ApiError: COORDINATOR_NOT_AVAILABLE if the coordinator's node is not running,
        COORDINATOR_LOAD_IN_PROGRESS if the node has not yet read the transactional id from
        ``__transaction_state``.
        """
        leader_id = self.transaction_partition(transactional_id).leader_id
        found = self._transaction_coordinators.get(leader_id)
        if found is None:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"node {leader_id}, which coordinates {transactional_id!r}, is not running",
            )
        found.check_loaded(transactional_id)
        return found

    def group_partition(self, group_id: str) -> Partition:
        """Return the partition of ``__consumer_offsets`` in which the group *group_id* is stored. The leader
        of this partition coordinates the group."""
        partitions = self.offsets_topic().partitions
        return partitions[group_partition(group_id, len(partitions))]

    def create_partitions(self, name: str, total: int) -> None:
        """Add partitions to the topic *name* until it has *total* partitions.

        Raises ApiError if the topic cannot have that many.
        """
        topic, added = self.cluster.topics.prepare_growth(name, total)
        self._create_logs(topic, added)
        self.cluster.topics.add_partitions(topic, added)

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic, its records, and the offsets that groups have committed for its partitions."""
        self.cluster.topics.delete(topic)
        for partition in topic.partitions:
            for node_id in partition.replica_ids:
                self._logs[node_id].delete(topic.name, partition.index)
        for group_coordinator in self._group_coordinators.values():
            group_coordinator.delete_topic(topic.name)

    def _create_logs(self, topic: Topic, partitions: Iterable[Partition]) -> None:
        config = self._log_config(topic)
        for partition in partitions:
            for node_id in partition.replica_ids:
                self._logs[node_id].create(topic.name, partition.index, config)

    def _log_config(self, topic: Topic) -> LogConfig:
        return LogConfig.of(self.cluster.topics.config_values(topic))
