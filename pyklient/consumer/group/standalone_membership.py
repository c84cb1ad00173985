"""Membership without other members: the client owns all partitions of its topics, or those that the program
has chosen by hand."""

import logging
import threading
import time
from collections.abc import Callable, Set

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.subscription import Subscription, TopicSelection
from pyklient.consumer.owned_partitions import NOBODY, MemberIdentity
from pyklient.errors import KafkaError
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

__all__ = ["StandaloneMembership"]

log = logging.getLogger("pyklient.consumer")

_TICK = 0.5


class StandaloneMembership:
    """A Membership that shares nothing with other clients. It owns all partitions of its topics, or those
    that the subscription names.

    Partitions that are added to a topic later are read from their first offset. If the client has a group id,
    the thread also makes the automatic commits, as a client that is not a member of the group.
    """

    identity: MemberIdentity = NOBODY

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._client = client
        self._timeout = config.default_api_timeout_ms / 1000
        self._handler: AssignmentHandler
        self._selection = TopicSelection(Subscription())
        self._seen = self._selection
        """The topic selection as it was when the thread looked at the metadata last."""
        self._read: Set[str] = frozenset()
        """The topics that were read when the thread looked at the metadata last."""
        self._owned: set[TopicPartition] = set()
        self._closing = threading.Event()
        self._then: Callable[[], None] | None = None
        self.thread = threading.Thread(target=self._run, name="pyklient-topics", daemon=True)

    def start(self, subscription: Subscription, handler: AssignmentHandler) -> None:
        """Read all partitions of the topics from now on, and return when *handler* has got them."""
        self._selection = self._seen = TopicSelection(subscription)
        self._handler = handler
        handler.watch(subscription.asks_for)
        handler.revoked((), 0.0)
        metadata = self._client.refresh_metadata(subscription.asks_for, self._timeout)
        self._read = topics = self._selection.update(metadata)
        self._owned = self._partitions(topics, metadata)
        errors = metadata.topic_errors(topics)
        handler.set_topic_errors(errors)
        if subscription.partitions is not None:
            if lacking := sorted(subscription.partitions - self._owned):
                log.warning("partitions to read do not exist yet: %s", ", ".join(map(str, lacking)))
        elif missing := topics - {partition.topic for partition in self._owned} - errors.keys():
            log.warning("topics to read do not exist yet: %s", ", ".join(sorted(missing)))
        handler.assigned(sorted(self._owned), NOBODY)
        self.thread.start()

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription. The thread notices the change within half a second."""
        self._selection = TopicSelection(subscription)
        self._handler.watch(subscription.asks_for)

    def runs_here(self) -> bool:
        """Return True if the calling thread belongs to this membership, as in a call of a rebalance
        listener."""
        return threading.current_thread() is self.thread

    def leave(self, timeout: float) -> None:
        """Give all partitions back, and end the thread. Return within about *timeout* seconds."""
        self._closing.set()
        self.join(timeout)
        self._handler.revoked(self._owned, timeout)

    def abandon(self, then: Callable[[], None]) -> bool:
        """End because the connector was dropped, and call *then* as the last step of the thread.

        The thread notices this within half a second. It is not woken, because waking it with an Event would
        acquire a lock. Return False if the thread has ended, so that *then* is not called.
        """
        self._then = then
        return self.thread.is_alive()

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the thread to end, unless the calling thread is that thread."""
        if self.thread.is_alive() and not self.runs_here():
            self.thread.join(timeout)

    def _run(self) -> None:
        while not self._closing.wait(_TICK):
            if self._then is not None:
                self._handler.revoked(self._owned, 0.0)
                self._then()
                return
            try:
                self._handler.commit_if_due(time.monotonic())  # also while new partitions cannot be begun
                self._look()
            except KafkaError as error:
                if not error.retriable:
                    self._handler.fail(error)
                    self._handler.tell_all_lost()
                    return
                log.info("cannot begin to read new partitions yet: %s", error)

    def _look(self) -> None:
        """Assign partitions that were added to the topics, and revoke the partitions of topics that are no
        longer subscribed."""
        selection, metadata, before = self._selection, self._client.metadata, self._read
        topics = selection.update(metadata)
        self._handler.set_topic_errors(metadata.topic_errors(topics))
        if gone := sorted(each for each in self._owned if each.topic not in topics):
            log.info(
                "stopped reading partitions of topics that are deleted, or not subscribed any more: %s",
                ", ".join(map(str, gone)),
            )
            self._owned.difference_update(gone)
            self._handler.revoked(gone, 0.0)
        new = sorted(self._partitions(topics, metadata) - self._owned)
        # A topic that was subscribed to just now is not a new one.
        filtered = selection is self._seen and selection.subscription.topic_filter is not None
        for created in (True, False):
            if taken := [each for each in new if (filtered or each.topic in before) is created]:
                self._handler.assigned(taken, NOBODY, created=created)
                self._owned.update(taken)
                log.info("began to read new partitions: %s", ", ".join(map(str, taken)))
        self._seen = selection
        self._read = frozenset(each for each in topics if each in before or self._known(each))

    def _known(self, topic: str) -> bool:
        return self._client.metadata.partition_count(topic) > 0

    def _partitions(self, topics: Set[str], metadata: Metadata) -> set[TopicPartition]:
        chosen = self._selection.subscription.partitions
        existing = {
            TopicPartition(topic, partition)
            for topic in topics
            if topic in metadata.topics
            for partition in metadata.topics[topic].partitions
        }
        return existing if chosen is None else existing & chosen
