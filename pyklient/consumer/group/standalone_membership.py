"""Membership without other members: the client owns all partitions of its topics, or the partitions that the
program has chosen by hand."""

import logging
import time
from collections.abc import Callable, Set

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.membership_thread import MembershipThread
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
    """A Membership that does not share partitions with other clients. It owns all partitions of its topics,
    or the partitions that the subscription names.

    Partitions that are added to a topic later are read from their first offset. If the client has a group id,
    the thread also makes the automatic commits, although the client is not a member of the group.
    """

    identity: MemberIdentity = NOBODY

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._client = client
        self._timeout = config.default_api_timeout_ms / 1000
        self._loop: StandaloneLoop | None = None
        self._thread = MembershipThread("pyklient-topics")

    def start(self, subscription: Subscription, handler: AssignmentHandler) -> None:
        """Read all partitions of the topics from now on, and return when *handler* has got them."""
        self._loop = StandaloneLoop(self._client, handler, subscription, self._thread)
        self._loop.begin(self._timeout)
        self._thread.start(self._run)

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription. The thread notices the change within half a second."""
        if self._loop is not None:
            self._loop.subscribe(subscription)

    def runs_here(self) -> bool:
        """Return True if the calling thread belongs to this membership, as in a call of a rebalance
        listener."""
        return self._thread.runs_here()

    def leave(self, timeout: float) -> None:
        """Give all partitions back, and end the thread. Return within about *timeout* seconds."""
        if self._loop is not None:
            self._loop.close()
            self.join(timeout)
            self._loop.give_back(timeout)

    def abandon(self, then: Callable[[], None]) -> bool:
        """End because the program no longer refers to the connector. Call *then* as the last step of the
        thread.

        Return False if the thread has ended already: *then* might never be called.
        """
        running = self._thread.call_at_end(then)
        if self._loop is not None:
            self._loop.abandon()
        return running

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the thread to end, unless the calling thread is that thread."""
        self._thread.join(timeout)

    def _run(self) -> None:
        assert self._loop is not None
        self._loop.run()  # this object lives as long as its thread


class StandaloneLoop:
    """The loop of *thread*. It assigns the partitions of *subscription* to *handler*, and looks for new
    partitions."""

    def __init__(
        self,
        client: NetworkClient,
        handler: AssignmentHandler,
        subscription: Subscription,
        thread: MembershipThread,
    ) -> None:
        self._client = client
        self._handler = handler
        self._thread = thread
        self._selection = TopicSelection(subscription)
        self._seen = self._selection
        """The topic selection at the time when the thread last looked at the metadata."""
        self._read: Set[str] = frozenset()
        """The topics that the client read at the time when the thread last looked at the metadata."""
        self._owned: set[TopicPartition] = set()
        self._closing = False
        self._abandoned = False

    def begin(self, timeout: float) -> None:
        """Assign the partitions that exist now. Wait up to *timeout* seconds for the brokers' metadata."""
        handler, subscription = self._handler, self._selection.subscription
        handler.watch(subscription.asks_for)
        handler.revoked((), 0.0)
        metadata = self._client.refresh_metadata(subscription.asks_for, timeout)
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

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription. The thread notices the change when it next looks at the metadata."""
        self._selection = TopicSelection(subscription)
        self._handler.watch(subscription.asks_for)

    def close(self) -> None:
        """Make the thread end. This method acquires no lock and never waits."""
        self._closing = True
        self._thread.wake()

    def abandon(self) -> None:
        """Make the thread give all partitions back and end. This method acquires no lock and never waits."""
        self._abandoned = True
        self.close()

    def give_back(self, timeout: float) -> None:
        """Make the handler revoke all partitions. Wait up to *timeout* seconds for messages in hand."""
        self._handler.revoked(self._owned, timeout)

    def run(self) -> None:
        """Make the automatic commits, and look for new partitions, until :meth:`close` is called."""
        self._thread.wait(_TICK)
        while not self._closing:
            try:
                self._handler.commit_if_due(time.monotonic())  # also while new partitions cannot be begun
                self._look()
            except KafkaError as error:
                if not error.retriable:
                    self._fail(error)
                    return
                log.info(
                    "the consumer cannot begin to read new partitions yet, and tries again. The error: %s",
                    error,
                )
            except Exception as error:
                log.exception(
                    "the search for new partitions has failed unexpectedly, so the consumer stops reading; "
                    "please report this"
                )
                self._fail(error)
                return
            self._thread.wait(_TICK)
        if self._abandoned:
            self.give_back(0.0)

    def _fail(self, error: Exception) -> None:
        self._handler.fail(error)
        self._handler.tell_all_lost()

    def _look(self) -> None:
        """Assign partitions that were added to the topics, and revoke the partitions of topics to which the
        client no longer subscribes."""
        selection, metadata, before = self._selection, self._client.metadata, self._read
        topics = selection.update(metadata)
        self._handler.set_topic_errors(metadata.topic_errors(topics))
        if gone := sorted(each for each in self._owned if each.topic not in topics):
            log.info(
                "the consumer stops reading partitions of topics that are deleted, or not subscribed any "
                "more: %s",
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
                log.info("the consumer begins to read new partitions: %s", ", ".join(map(str, taken)))
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
