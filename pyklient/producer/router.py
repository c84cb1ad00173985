"""Where the records of a queue go, and what they need to get there: a leader, its broker, a producer id.

Queues that lack one of these are stranded until there is news. Part of what the sender does; its thread
makes every call here.
"""

import logging
import time
from collections.abc import Iterable
from typing import Final, Protocol

from pyklient.config import ProducerConfig
from pyklient.errors import BrokerError, KafkaError, UnsupportedVersionError, broker_error
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient
from pyklient.net.metadata import Metadata
from pyklient.producer.broker_queue import BrokerQueue, Counter, RequestOptions
from pyklient.producer.partition_queue import PartitionQueue
from pyklient.producer.threads import BlockingWorker, SenderThread
from pyklient.producer.upkeep import ProducerId, Upkeep
from pyklient.protocol.records.kernel import Appender

__all__ = ["Depot", "Router"]

log = logging.getLogger("pyklient.producer")

_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_LEADER_NOT_AVAILABLE: Final = 5
_CLUSTER_AUTHORIZATION_FAILED: Final = 31


class Depot(Counter, Protocol):
    """The dispatcher, which has the queues."""

    def queues(self) -> Iterable[PartitionQueue]:
        """All of them."""

    def fail_all(self, queue: PartitionQueue, error: KafkaError) -> None:
        """Fail everything in *queue*."""


class Router:
    """Knows the brokers. ``idempotent`` is whether producer ids are wanted, and to be had."""

    def __init__(
        self,
        appender: Appender,
        client: NetworkClient,
        config: ProducerConfig,
        sender: SenderThread,
        depot: Depot,
    ) -> None:
        self.idempotent = config.wants_idempotence
        self._appender = appender
        self._client = client
        self._sender = sender
        self._depot = depot
        self._must_be_idempotent = config.enable_idempotence is True
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._options = RequestOptions(
            config.acks_wire,
            config.request_timeout_ms / 1000,
            config.max_in_flight_requests_per_connection,
            config.max_request_size,
        )
        self._brokers: dict[int, BrokerQueue] = {}
        self._changed: set[BrokerQueue] = set()
        self._stranded: set[PartitionQueue] = set()
        self._producer_id: ProducerId | None = None
        self._upkeep = Upkeep(
            client,
            self._backoff,
            timeout=self._options.timeout,
            max_age=config.metadata_max_age_ms / 1000,
            topics=self._topics,
            post=sender.post,
            learned=self._learned,
            identified=self._identified,
        )

    def route(self, queue: PartitionQueue, now: float) -> None:
        """Put *queue*, which has something to send, in line at its leader's broker; or strand it."""
        leader = self._leader(queue)
        if leader is None:
            queue.trouble = queue.trouble or broker_error(_LEADER_NOT_AVAILABLE, str(queue.at))
            self.want_metadata()
        if leader is None or not self._has_producer_id(queue, now):
            self._stranded.add(queue)
            return
        self._stranded.discard(queue)
        broker = self._brokers.get(leader)
        if broker is None:
            broker = self._brokers[leader] = BrokerQueue(leader, self._client, self._options, self._depot)
        broker.enqueue(queue)
        self._changed.add(broker)

    def is_misplaced(self, queue: PartitionQueue, node_id: int) -> bool:
        """Whether *queue* is led by another broker than this one, or by none at the moment."""
        return self._leader(queue) != node_id

    def send(self) -> None:
        """Let the brokers send where something has changed."""
        while self._changed:
            broker = self._changed.pop()
            broker.fill()
            if broker.line and broker.rest_until > time.monotonic():
                self._sender.set_alarm(broker, broker.rest_until)
        self._sender.set_alarm(self._upkeep, self._upkeep.next_look)

    def ring(self, target: object, now: float) -> None:
        """An alarm has gone off."""
        if isinstance(target, BrokerQueue):
            self._changed.add(target)
        elif target is self._upkeep:
            self._upkeep.look(now)

    def has_room(self, broker: BrokerQueue) -> None:
        """A request is no longer under way there."""
        broker.in_flight -= 1
        self._changed.add(broker)

    def connected(self, broker: BrokerQueue, failure: KafkaError | None) -> None:
        """A broker has been reached, or has not."""
        self._changed.add(broker)
        if failure is None:
            broker.failures = 0
            return
        self.unreachable(broker, failure)
        for queue in list(broker.line):
            queue.trouble = failure
            if not failure.retriable:
                self._depot.fail_all(queue, failure)

    def unreachable(self, broker: BrokerQueue, failure: KafkaError) -> None:
        """Leave a broker alone for a while, and see whether others lead its partitions by now."""
        log.debug("broker %d: %s", broker.node_id, failure)
        broker.failures += 1
        broker.rest_until = time.monotonic() + self._backoff.pause(broker.failures)
        self.want_metadata()

    def want_metadata(self, topic: str | None = None) -> None:
        """What is known of the cluster is out of date, or lacks *topic*."""
        self._upkeep.want_metadata(time.monotonic(), topic)

    def workers(self) -> list[BlockingWorker]:
        """Those who run tasks: they end when the sender does."""
        return [self._upkeep.worker, *(broker.worker for broker in self._brokers.values())]

    def _topics(self) -> set[str]:
        """The topics in use. A broker that has just started may not know one of them for a moment: then new
        records have to wait for it, and those under way still need its leader."""
        return {*self._appender.topics(), *(queue.topic for queue in self._depot.queues() if not queue.idle)}

    def _leader(self, queue: PartitionQueue) -> int | None:
        node = self._client.metadata.leader(queue.at)
        return None if node is None else node.id

    def _has_producer_id(self, queue: PartitionQueue, now: float) -> bool:
        """Whether *queue* has a producer id for its batches, or needs none."""
        sequences = queue.sequences
        if sequences is None or sequences.producer_id >= 0:
            return True
        if self._producer_id is not None and self._producer_id[0] == sequences.used_up:
            self._producer_id = None
        if self._producer_id is None:
            self._upkeep.want_producer_id(now)
            return False
        sequences.adopt(*self._producer_id)
        return True

    def _learned(self, metadata: Metadata | None, failure: KafkaError | None) -> None:
        """A question for metadata has been answered, or has failed."""
        self._upkeep.refreshed(metadata, time.monotonic())
        for name, topic in metadata.topics.items() if metadata is not None else ():
            if topic.error == _UNKNOWN_TOPIC_OR_PARTITION:
                self._appender.forget(name)
            elif topic.partitions and self._appender.partition_count(name) != len(topic.partitions):
                self._appender.know(name, len(topic.partitions))
        for broker in self._brokers.values():
            broker.drop_moved()
            self._changed.add(broker)
        self._look_at_stranded(failure)

    def _identified(self, producer_id: ProducerId | None, failure: KafkaError | None) -> None:
        """A question for a producer id has been answered, or has failed."""
        self._producer_id = producer_id
        if failure is not None and failure.retriable:
            self._upkeep.id_failed(time.monotonic())
            self._look_at_stranded(failure)
            return
        self._upkeep.id_settled()
        if failure is not None and self._can_do_without(failure):
            log.info("no idempotence: %s", failure)
            self.idempotent = False
            for queue in self._depot.queues():
                queue.without_idempotence()
        elif failure is not None:
            for queue in self._stranded:
                self._depot.fail_all(queue, failure)
        self._look_at_stranded(None)

    def _can_do_without(self, failure: KafkaError) -> bool:
        """Whether idempotence is to be left off because of *failure*: nobody has asked for it by name, and
        the broker does not have it, or does not allow it."""
        if self._must_be_idempotent:
            return False
        return isinstance(failure, UnsupportedVersionError) or (
            isinstance(failure, BrokerError) and failure.code == _CLUSTER_AUTHORIZATION_FAILED
        )

    def _look_at_stranded(self, failure: KafkaError | None) -> None:
        stranded, self._stranded = self._stranded, set()
        for queue in stranded:
            queue.trouble = failure or queue.trouble
            self._depot.look(queue)
