"""The partitions among which a producer of Kafka 0.7 chooses: pairs of a broker and a partition."""

import random
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from pyklient.classic.collation import checked_partition
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_data import ProducerData
from pyklient.classic.producer_pool import ProducerPool
from pyklient.classic.queue_item import ANY_PARTITION, NO_BROKER, QueueItem
from pyklient.classic.sync_producer import SyncProducer
from pyklient.counted import counted
from pyklient.errors import (
    ClosedError,
    ForkError,
    InvalidPartitionError,
    KafkaError,
    NoBrokersForPartitionError,
)
from pyklient.net.bootstrap import Bootstrap
from pyklient.net.connection.transport import Endpoint
from pyklient.net.forked_clients import abandon_after_fork

__all__ = ["BrokerPartition", "PartitionCandidates"]


class BrokerPartition(NamedTuple):
    """A partition and the broker that leads it. The partition is ANY_PARTITION if the broker chooses a
    partition."""

    broker_id: int
    partition: int


class _KnownCandidates:
    """The candidates of each topic (the partitions among which the producer chooses), and the time at which a
    thread asked for them.

    If the cluster changes, a new and empty dictionary replaces the old one. A thread that asks for candidates
    stores the answer in the dictionary that was current before the request. So the answer to a request from
    before a change does not get into the new dictionary.
    """

    def __init__(self) -> None:
        self.topics: dict[str, tuple[float, list[BrokerPartition]]] = {}

    def forget_all(self) -> None:
        """Forget which brokers and partitions all topics have, because the cluster has changed."""
        self.topics = {}

    def forget(self, topics: Iterable[str]) -> None:
        """Forget which brokers and partitions *topics* have."""
        kept = dict(self.topics)
        for topic in topics:
            kept.pop(topic, None)
        self.topics = kept


class PartitionCandidates:
    """Chooses a broker and a partition for each ProducerData, as the producer of Kafka 0.7 does.

    With ``zk.connect``, the candidates are all partitions of the topic that have a leader, sorted by broker
    and partition. The partitioner chooses one of them for a key. Without a key, one is chosen at random. With
    ``broker.list``, a broker of the list is chosen at random, and keys are ignored. Safe to use from several
    threads.
    """

    def __init__(self, config: ClassicProducerConfig) -> None:
        self._config = config
        self._partitioner = config.chosen_partitioner
        self._bootstrap = Bootstrap(config.client_config)
        self._known = _KnownCandidates()
        self._bootstrap.on_cluster_change(self._known.forget_all)
        self._pool = ProducerPool(config)
        self._pool.update(Endpoint(*each) for each in config.broker_list)
        self._closing = threading.Event()
        abandon_after_fork(self)

    def queue_items(self, data: ProducerData) -> list[QueueItem]:
        """Choose a partition for the messages of *data*, and return them as items for this partition.

        Raises InvalidPartitionError if the partitioner fails, or returns anything but the number of a
        candidate, and NoBrokersForPartitionError if there is no candidate.
        """
        chosen = self.choose(data.topic, data.key)
        return [
            QueueItem(each, data.topic, chosen.partition, broker_id=chosen.broker_id) for each in data.data
        ]

    def choose(self, topic: str, key: Any) -> BrokerPartition:
        """Return the broker and the partition for messages of *topic* with *key*, which may be None."""
        if self._config.broker_list:
            return BrokerPartition(random.choice(self._config.broker_list).id, ANY_PARTITION)
        candidates = self._of(topic)
        if key is None:
            return random.choice(candidates)
        return candidates[checked_partition(self._partitioner, topic, key, len(candidates))]

    def choose_again(self, item: QueueItem) -> BrokerPartition:
        """Return the broker and the partition of *item*. If a hook has made the item without a broker, choose
        the broker now, and also the partition if the item has none."""
        if item.broker_id != NO_BROKER:
            return BrokerPartition(item.broker_id, item.partition)
        if item.partition == ANY_PARTITION or self._config.broker_list:
            chosen = self.choose(item.topic, None)
            return chosen if item.partition == ANY_PARTITION else chosen._replace(partition=item.partition)
        candidates = self._of(item.topic)
        for each in candidates:
            if each.partition == item.partition:
                return each
        raise InvalidPartitionError(
            f"the callback handler made an item for partition {item.partition} of topic {item.topic}, but "
            "this partition does not exist or has no leader"
        )

    def producer(self, broker_id: int) -> SyncProducer:
        """Return the SyncProducer of a broker. Raise BrokerConnectionError if the broker is not known."""
        return self._pool.producer(broker_id)

    def forget(self, topics: Iterable[str]) -> None:
        """Look for the partitions of *topics* again before the next choice."""
        self._known.forget(topics)

    def close(self) -> None:
        """Close the connections to the brokers, and the session with ZooKeeper.

        If messages were sent with ``acks=0``, wait up to two seconds first, so that the brokers can handle
        them. A thread that looks for partitions gets a ClosedError. Further calls do nothing.
        """
        self._closing.set()
        self._pool.close()
        self._bootstrap.close()

    def interrupt(self) -> None:
        """Close the connections and the session with ZooKeeper at once, without waiting for brokers."""
        self._closing.set()
        self._pool.interrupt()
        self._bootstrap.close()

    def abandon(self) -> None:
        """Close the socket of the session with ZooKeeper in a child process after a fork. The session stays
        with the parent process."""
        self._bootstrap.abandon()

    def _of(self, topic: str) -> list[BrokerPartition]:
        """Return the brokers and partitions among which to choose for *topic*. Look for them first if they
        are unknown or old."""
        asked_at, candidates = self._known.topics.get(topic, (0.0, []))
        return self._look(topic) if not candidates or self._config.is_old(asked_at) else candidates

    def _look(self, topic: str) -> list[BrokerPartition]:
        """Return the brokers and partitions among which to choose for *topic*, as ZooKeeper and the brokers
        know them now."""
        failure: KafkaError | None = None
        for attempt in range(self._config.zk_read_num_retries + 1):
            if attempt:
                self._closing.wait(self._config.retry_backoff_ms / 1000)
            try:
                self._bootstrap.look(self._config.zk_session_timeout_ms / 1000)
                topics = self._known.topics
                if found := self._ask(topic):
                    topics[topic] = time.monotonic(), found
                    return found
            except (ClosedError, ForkError):
                raise
            except KafkaError as error:
                failure = error
        reason = f"topic {topic!r} has no partition with a leader" if failure is None else str(failure)
        raise NoBrokersForPartitionError(
            f"no broker was found for a message of topic {topic!r} in "
            f"{counted(self._config.zk_read_num_retries + 1, 'attempt')}: {reason}"
        ) from failure

    def _ask(self, topic: str) -> list[BrokerPartition]:
        response = self._pool.fetch_metadata(self._bootstrap.endpoints, [topic])
        live = {broker.node_id for broker in response.brokers}
        return sorted(
            BrokerPartition(each.leader_id, each.partition_index)
            for entry in response.topics
            for each in entry.partitions
            if each.leader_id in live
        )
