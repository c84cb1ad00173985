"""The controller of a cluster, which creates and deletes topics and adds partitions to them."""

from collections.abc import Iterable, Mapping

from pyklient.broker.cluster.metadata import ClusterMetadata
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC, group_partition, offsets_topic_configs
from pyklient.broker.cluster.topics import Partition, Topic
from pyklient.broker.groups.group_coordinator import GroupCoordinator
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.log_manager import LogManager

__all__ = ["Controller"]


class Controller:
    """Creates and deletes topics, and adds partitions to them.

    Each change is made in the metadata of the cluster and in the logs of the nodes. The deletion of a topic
    also deletes the offsets that groups have committed for it.
    """

    def __init__(self, cluster: ClusterMetadata) -> None:
        self.cluster = cluster
        self._logs: dict[int, LogManager] = {}
        self._group_coordinators: dict[int, GroupCoordinator] = {}

    def add_node(self, node_id: int, logs: LogManager, group_coordinator: GroupCoordinator) -> None:
        """Add a node to the cluster, and open the logs of all partitions of which the node has a replica."""
        for topic in self.cluster.topics.all():
            config = self._log_config(topic)
            for partition in topic.partitions:
                if node_id in partition.replica_ids:
                    logs.open(topic.name, partition.index, config)
        self._logs[node_id] = logs
        self._group_coordinators[node_id] = group_coordinator

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Create a topic with empty logs. Raises ApiError if the topic cannot be created."""
        topic = self.cluster.topics.prepare(name, partitions, configs)
        self._create_logs(topic, topic.partitions)
        self.cluster.topics.add(topic)
        return topic

    def offsets_topic(self) -> Topic:
        """Return the topic ``__consumer_offsets``. Create it first if it does not exist."""
        config = self.cluster.config
        return self.cluster.topics.find(OFFSETS_TOPIC) or self.create_topic(
            OFFSETS_TOPIC, config.offsets_topic_num_partitions, offsets_topic_configs(config)
        )

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
