"""No group: everything is ours, nothing is committed."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Set
from concurrent.futures import Future

from pyklient.consumer.group.membership import Assignment, Owner
from pyklient.errors import ConfigurationError, KafkaError
from pyklient.net.client import NetworkClient
from pyklient.net.metadata import Metadata
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Standalone"]

log = logging.getLogger("pyklient.consumer")

_TICK = 0.5


class Standalone:
    """All partitions of the topics, from ``auto_offset_reset`` on; partitions that appear later, from their
    start. The first contact takes *timeout* seconds at most; *watch* keeps the metadata of topics fresh."""

    def __init__(
        self, client: NetworkClient, timeout: float, watch: Callable[[Collection[str]], None]
    ) -> None:
        self._client = client
        self._timeout = timeout
        self._watch = watch
        self._owner: Owner
        self._topics: Set[str] = frozenset()
        self._assignment: Assignment | None = None
        self._known: set[TopicPartition] = set()
        self._closing = threading.Event()
        self._then: Callable[[], None] | None = None
        self.thread = threading.Thread(target=self._run, name="pyklient-topics", daemon=True)

    @property
    def assignment(self) -> Assignment | None:
        """The one assignment, which only grows."""
        return self._assignment

    def runs_here(self) -> bool:
        """See Membership.runs_here."""
        return threading.current_thread() is self.thread

    def join(self, timeout: float) -> None:
        """See Membership.join."""
        if self.thread.is_alive() and not self.runs_here():
            self.thread.join(timeout)

    def start(self, topics: Set[str], owner: Owner) -> None:
        """Take all partitions that there are. Raises what makes that impossible."""
        self._topics, self._owner = topics, owner
        self._watch(topics)
        owner.release(0.0)
        metadata = self._client.refresh_metadata(topics, self._timeout)
        self._known = self._partitions(metadata)
        assignment = Assignment(dict.fromkeys(sorted(self._known)))
        owner.prepare(assignment)
        self._assignment = assignment
        refused = metadata.refused(topics)
        owner.refuse(refused)
        if missing := topics - {partition.topic for partition in self._known} - refused.keys():
            log.warning("topics that do not exist yet: %s", ", ".join(sorted(missing)))
        owner.take(assignment)
        self.thread.start()

    def commit(
        self,
        assignment: Assignment,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float,
    ) -> dict[TopicPartition, int]:
        """There is nowhere to commit to."""
        raise ConfigurationError("offsets are committed for a group; set group_id")

    def send(
        self, assignment: Assignment, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> "Future[dict[TopicPartition, int]] | None":
        """There is nowhere to commit to."""
        return None

    def leave(self, timeout: float) -> None:
        """End the thread."""
        self._closing.set()
        self.join(timeout)
        self._owner.release(timeout)

    def trouble(self) -> KafkaError | None:
        """See Membership.trouble."""
        return self._client.unreachable()

    def abandon(self, then: Callable[[], None]) -> bool:
        """See Membership.abandon. Noticed at the next look: to set an Event takes a lock."""
        self._then = then
        return self.thread.is_alive()

    def _run(self) -> None:
        while not self._closing.wait(_TICK):
            if self._then is not None:
                self._owner.release(0.0)
                self._then()
                return
            self._owner.refuse(self._client.metadata.refused(self._topics))
            grown = sorted(self._partitions(self._client.metadata) - self._known)
            if grown:
                log.info("reading new partitions: %s", ", ".join(map(str, grown)))
                self._known.update(grown)
                self._owner.extend(grown)

    def _partitions(self, metadata: Metadata) -> set[TopicPartition]:
        return {
            TopicPartition(topic, partition)
            for topic in self._topics
            if topic in metadata.topics
            for partition in metadata.topics[topic].partitions
        }
