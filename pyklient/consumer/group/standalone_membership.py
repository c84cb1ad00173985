"""Membership without a group: the client owns all partitions of its topics."""

import logging
import threading
from collections.abc import Callable, Set

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.owned_partitions import NOBODY, MemberIdentity
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

__all__ = ["StandaloneMembership"]

log = logging.getLogger("pyklient.consumer")

_TICK = 0.5


class StandaloneMembership:
    """A Membership that owns all partitions of its topics. Partitions that appear later are read from their
    first offset."""

    identity: MemberIdentity = NOBODY

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._client = client
        self._timeout = config.default_api_timeout_ms / 1000
        self._handler: AssignmentHandler
        self._topics: Set[str] = frozenset()
        self._read: Set[str] = frozenset()
        """The topics that were read when the thread last looked at the metadata."""
        self._owned: set[TopicPartition] = set()
        self._closing = threading.Event()
        self._then: Callable[[], None] | None = None
        self.thread = threading.Thread(target=self._run, name="pyklient-topics", daemon=True)

    def start(self, topics: Set[str], handler: AssignmentHandler) -> None:
        """See Membership.start."""
        self._topics = self._read = topics
        self._handler = handler
        handler.watch(topics)
        handler.revoked((), 0.0)
        metadata = self._client.refresh_metadata(topics, self._timeout)
        self._owned = self._partitions(metadata)
        errors = metadata.topic_errors(topics)
        handler.set_topic_errors(errors)
        if missing := topics - {partition.topic for partition in self._owned} - errors.keys():
            log.warning("these topics do not exist yet: %s", ", ".join(sorted(missing)))
        handler.assigned(sorted(self._owned), NOBODY)
        self.thread.start()

    def subscribe(self, topics: Set[str]) -> None:
        """See Membership.subscribe. The thread notices the change within half a second."""
        self._topics = topics
        self._handler.watch(topics)

    def runs_here(self) -> bool:
        """See Membership.runs_here."""
        return threading.current_thread() is self.thread

    def leave(self, timeout: float) -> None:
        """See Membership.leave."""
        self._closing.set()
        self.join(timeout)
        self._handler.revoked(self._owned, timeout)

    def abandon(self, then: Callable[[], None]) -> bool:
        """See Membership.abandon. The thread notices it within half a second: to wake it with an Event would
        acquire a lock."""
        self._then = then
        return self.thread.is_alive()

    def join(self, timeout: float) -> None:
        """See Membership.join."""
        if self.thread.is_alive() and not self.runs_here():
            self.thread.join(timeout)

    def _run(self) -> None:
        while not self._closing.wait(_TICK):
            if self._then is not None:
                self._handler.revoked(self._owned, 0.0)
                self._then()
                return
            self._look()

    def _look(self) -> None:
        """Assign partitions that have been added to the topics, and revoke those of topics that are not
        subscribed any more."""
        topics, before = self._topics, self._read
        self._handler.set_topic_errors(self._client.metadata.topic_errors(topics))
        if gone := sorted(each for each in self._owned if each.topic not in topics):
            log.info(
                "stopped reading partitions of topics that are not subscribed any more: %s",
                ", ".join(map(str, gone)),
            )
            self._owned.difference_update(gone)
            self._handler.revoked(gone, 0.0)
        new = sorted(self._partitions(self._client.metadata) - self._owned)
        if new:
            log.info("began to read new partitions: %s", ", ".join(map(str, new)))
            self._owned.update(new)
        for created in (True, False):
            # A topic that was subscribed to just now is not a new one.
            if taken := [each for each in new if (each.topic in before) is created]:
                self._handler.assigned(taken, NOBODY, created=created)
        self._read = frozenset(each for each in topics if each in before or self._known(each))

    def _known(self, topic: str) -> bool:
        return self._client.metadata.partition_count(topic) > 0

    def _partitions(self, metadata: Metadata) -> set[TopicPartition]:
        return {
            TopicPartition(topic, partition)
            for topic in self._topics
            if topic in metadata.topics
            for partition in metadata.topics[topic].partitions
        }
