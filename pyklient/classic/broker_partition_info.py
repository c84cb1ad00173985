"""The partitions of topics and their leaders, as a classic producer of Kafka 0.8 to 0.10 knows them."""

from collections.abc import Collection
from typing import Final, NamedTuple

from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_pool import ProducerPool
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, broker_error
from pyklient.net.bootstrap import Bootstrap
from pyklient.protocol.messages import MetadataResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["NO_LEADER", "BrokerPartitionInfo", "PartitionAndLeader"]

NO_LEADER: Final = -1


class PartitionAndLeader(NamedTuple):
    """A partition, and the id of the broker that leads it; NO_LEADER if no broker does."""

    partition: int
    leader: int


class BrokerPartitionInfo:
    """Stores the partitions of topics, as a broker has returned them, until the next refresh."""

    def __init__(self, config: ClassicProducerConfig, pool: ProducerPool) -> None:
        self._pool = pool
        self._servers = Bootstrap(config.client_config).endpoints
        self._topics: dict[str, list[PartitionAndLeader]] = {}
        self._leaders: dict[str, dict[int, int]] = {}
        """The leader of each partition, or NO_LEADER, by topic and partition."""
        self._errors: dict[str, KafkaError] = {}

    def refresh(self, topics: Collection[str]) -> None:
        """Ask the brokers of ``metadata.broker.list`` for the partitions of *topics*. If a broker returns an
        error for a topic, keep the partitions that are already known."""
        response = self._pool.fetch_metadata(self._servers, list(topics))
        brokers = {broker.node_id for broker in response.brokers}
        for entry in response.topics:
            name = entry.name or ""
            if entry.error_code:
                self._errors[name] = broker_error(entry.error_code, f"cannot get the partitions of {name}")
            else:
                self._errors.pop(name, None)
                self._topics[name] = found = _partitions(entry, brokers)
                self._leaders[name] = dict(found)

    def knows(self, topics: Collection[str]) -> bool:
        """Return True if the partitions of all *topics* are known."""
        return all(self._topics.get(topic) for topic in topics)

    def partitions(self, topic: str) -> list[PartitionAndLeader]:
        """Return the partitions of *topic*, in order. If they are not known, ask for them first.

        Raises BrokerError if the topic has an error or no partition, and BrokerConnectionError if no broker
        answers.
        """
        if topic not in self._topics:
            self.refresh([topic])
        if not (found := self._topics.get(topic)):
            unknown = broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"cannot get the partitions of {topic}"
            )
            raise self._errors.get(topic, unknown)
        return found

    def leader(self, where: TopicPartition) -> int:
        """Return the id of the broker that leads a partition, as far as it is known; otherwise NO_LEADER."""
        return self._leaders.get(where.topic, {}).get(where.partition, NO_LEADER)


def _partitions(
    entry: MetadataResponse.MetadataResponseTopic, brokers: Collection[int]
) -> list[PartitionAndLeader]:
    return sorted(
        PartitionAndLeader(each.partition_index, each.leader_id if each.leader_id in brokers else NO_LEADER)
        for each in entry.partitions
    )
