"""Where the records of a lane go, and what they need to get there: a leader, its outbox, a producer id.

Lanes that lack one of these are stranded until there is news. Part of what the sender does; its thread
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
from pyklient.producer.broker_queue import Counter, Outbox, Terms
from pyklient.producer.courier import Courier
from pyklient.producer.partition_queue import Lane
from pyklient.producer.threads import Sender
from pyklient.producer.upkeep import ProducerId, Upkeep
from pyklient.protocol.records.kernel import Appender

__all__ = ["Depot", "Router"]

log = logging.getLogger("pyklient.producer")

_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_LEADER_NOT_AVAILABLE: Final = 5
_CLUSTER_AUTHORIZATION_FAILED: Final = 31


class Depot(Counter, Protocol):
    """The dispatcher, which has the lanes."""

    def lanes(self) -> Iterable[Lane]:
        """All of them."""

    def give_up(self, lane: Lane, error: KafkaError) -> None:
        """Fail everything in *lane*."""


class Router:
    """Knows the outboxes. ``idempotent`` is whether stamps are wanted, and to be had."""

    def __init__(
        self, appender: Appender, client: NetworkClient, config: ProducerConfig, sender: Sender, depot: Depot
    ) -> None:
        self.idempotent = config.wants_idempotence
        self._appender = appender
        self._client = client
        self._sender = sender
        self._depot = depot
        self._must_be_idempotent = config.enable_idempotence is True
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._terms = Terms(
            config.acks_wire,
            config.request_timeout_ms / 1000,
            config.max_in_flight_requests_per_connection,
            config.max_request_size,
        )
        self._outboxes: dict[int, Outbox] = {}
        self._changed: set[Outbox] = set()
        self._stranded: set[Lane] = set()
        self._producer_id: ProducerId | None = None
        self._upkeep = Upkeep(
            client,
            self._backoff,
            timeout=self._terms.timeout,
            max_age=config.metadata_max_age_ms / 1000,
            topics=self._topics,
            post=sender.post,
            learned=self._learned,
            identified=self._identified,
        )

    def route(self, lane: Lane, now: float) -> None:
        """Put *lane*, which has something to send, in line at its leader's outbox; or strand it."""
        leader = self._leader(lane)
        if leader is None:
            lane.trouble = lane.trouble or broker_error(_LEADER_NOT_AVAILABLE, str(lane.at))
            self.want_metadata()
        if leader is None or not self._has_stamps(lane, now):
            self._stranded.add(lane)
            return
        self._stranded.discard(lane)
        outbox = self._outboxes.get(leader)
        if outbox is None:
            outbox = self._outboxes[leader] = Outbox(leader, self._client, self._terms, self._depot)
        outbox.queue(lane)
        self._changed.add(outbox)

    def is_misplaced(self, lane: Lane, node_id: int) -> bool:
        """Whether *lane* is led by another broker than this one, or by none at the moment."""
        return self._leader(lane) != node_id

    def send(self) -> None:
        """Let the outboxes send where something has changed."""
        while self._changed:
            outbox = self._changed.pop()
            outbox.fill()
            if outbox.line and outbox.rest_until > time.monotonic():
                self._sender.set_alarm(outbox, outbox.rest_until)
        self._sender.set_alarm(self._upkeep, self._upkeep.next_look)

    def ring(self, target: object, now: float) -> None:
        """An alarm has gone off."""
        if isinstance(target, Outbox):
            self._changed.add(target)
        elif target is self._upkeep:
            self._upkeep.look(now)

    def has_room(self, outbox: Outbox) -> None:
        """A request is no longer under way there."""
        outbox.in_flight -= 1
        self._changed.add(outbox)

    def connected(self, outbox: Outbox, failure: KafkaError | None) -> None:
        """A broker has been reached, or has not."""
        self._changed.add(outbox)
        if failure is None:
            outbox.failures = 0
            return
        self.unreachable(outbox, failure)
        for lane in list(outbox.line):
            lane.trouble = failure
            if not failure.retriable:
                self._depot.give_up(lane, failure)

    def unreachable(self, outbox: Outbox, failure: KafkaError) -> None:
        """Leave a broker alone for a while, and see whether others lead its partitions by now."""
        log.debug("broker %d: %s", outbox.node_id, failure)
        outbox.failures += 1
        outbox.rest_until = time.monotonic() + self._backoff.pause(outbox.failures)
        self.want_metadata()

    def want_metadata(self, topic: str | None = None) -> None:
        """What is known of the cluster is out of date, or lacks *topic*."""
        self._upkeep.want_metadata(time.monotonic(), topic)

    def couriers(self) -> list[Courier]:
        """Those who run errands: they end when the sender does."""
        return [self._upkeep.courier, *(outbox.courier for outbox in self._outboxes.values())]

    def _topics(self) -> set[str]:
        """The topics in use. A broker that has just started may not know one of them for a moment: then new
        records have to wait for it, and those under way still need its leader."""
        return {*self._appender.topics(), *(lane.topic for lane in self._depot.lanes() if not lane.idle)}

    def _leader(self, lane: Lane) -> int | None:
        node = self._client.metadata.leader(lane.at)
        return None if node is None else node.id

    def _has_stamps(self, lane: Lane, now: float) -> bool:
        """Whether *lane* can stamp its parcels, or need not."""
        sequences = lane.sequences
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
        for outbox in self._outboxes.values():
            outbox.leave_misplaced()
            self._changed.add(outbox)
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
            for lane in self._depot.lanes():
                lane.without_stamps()
        elif failure is not None:
            for lane in self._stranded:
                self._depot.give_up(lane, failure)
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
        for lane in stranded:
            lane.trouble = failure or lane.trouble
            self._depot.look(lane)
