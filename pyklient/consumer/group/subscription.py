"""The subscription of a connector: the topics that it reads, by name or by a filter."""

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pyklient.consumer.start_points import StartPoints
from pyklient.consumer.topic_filters.topic_filter import INTERNAL_TOPICS, TopicFilter
from pyklient.net.metadata import Metadata
from pyklient.topic_partition import TopicPartition

__all__ = ["Subscription", "TopicSelection", "warn_of_missing_topics"]

log = logging.getLogger("pyklient.consumer")

_SURELY_GONE = 1.0
"""The seconds for which a topic must be missing from the metadata before it counts as deleted."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a connector reads, and the number of its streams.

    Without *topic_filter*, the connector reads the topics of *named*, which has the number of streams of each
    topic. With *topic_filter*, it reads all topics that the filter selects, and the partitions of all
    these topics are divided among *shared_streams* streams.
    """

    named: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    topic_filter: TopicFilter | None = None
    shared_streams: int = 0
    hides_internal: bool = True
    """True if the filter never selects topics in which brokers keep their own data."""
    partitions: frozenset[TopicPartition] | None = None
    """The partitions to read, which the program has chosen by hand; None if a membership chooses them."""
    start: StartPoints = field(default_factory=StartPoints)
    """The points at which the program asks to begin reading."""
    excluded: frozenset[str] = frozenset()
    """Topics that the filter never selects."""
    continues_at_committed: bool = False
    """True if a partition that is assigned to the connector again continues at its committed offset, and not
    at the position that its stream has reached. A mirror, which copies topics to another cluster, needs this:
    when a partition is revoked, it forgets the records whose copies are not confirmed yet."""

    def selects(self, topic: str, *, internal: bool = False) -> bool:
        """Return True if the connector should read *topic*. *internal* is True for a topic in which brokers
        keep their own data."""
        if self.topic_filter is None:
            return topic in self.named
        if self.hides_internal and (internal or topic in INTERNAL_TOPICS):
            return False
        return topic not in self.excluded and self.topic_filter.allows(topic)

    def stream_count(self, topic: str) -> int:
        """Return the number of streams that read *topic*, which must be one of the topics to read."""
        return self.named.get(topic, 0) if self.topic_filter is None else self.shared_streams

    def topics(self, metadata: Metadata) -> frozenset[str]:
        """Return the topics to read.

        Without a filter, these are the named topics, whether they exist or not. With a filter, they are the
        topics in *metadata* that the filter selects.
        """
        if self.topic_filter is None:
            return frozenset(self.named)
        return frozenset(
            topic.name
            for topic in metadata.topics.values()
            if topic.partitions and self.selects(topic.name, internal=topic.internal)
        )

    @property
    def asks_for(self) -> frozenset[str] | None:
        """The topics whose metadata the subscription needs. None stands for all topics of the cluster."""
        return frozenset(self.named) if self.topic_filter is None else None


class TopicSelection:
    """The topics that *subscription* selects at the moment, according to the newest metadata.

    A topic stays in the selection until the metadata has not contained it for a second, because a broker that
    has just started may not know all topics yet.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.topics = frozenset(subscription.named)
        """The topics to read, as the last call of :meth:`update` has found them."""
        self._metadata: Metadata | None = None
        self._missing_since: dict[str, float] = {}

    def update(self, metadata: Metadata) -> frozenset[str]:
        """Find the topics to read in *metadata*, the newest metadata of the cluster, and return them."""
        if metadata is not self._metadata and self.subscription.topic_filter is not None:
            self._metadata = metadata
            now = time.monotonic()
            found = self.subscription.topics(metadata)
            since = {topic: self._missing_since.get(topic, now) for topic in self.topics - found}
            self._missing_since = {topic: at for topic, at in since.items() if now - at < _SURELY_GONE}
            self.topics = found | self._missing_since.keys()
        return self.topics


def warn_of_missing_topics(group_id: str, topics: Collection[str]) -> None:
    """Log a warning that the group *group_id* subscribes to *topics*, which do not exist yet."""
    log.warning(
        "group %s subscribes to topics that do not exist yet: %s; with auto_offset_reset=latest, it skips "
        "the messages that are sent before it finds these topics",
        group_id,
        ", ".join(topics),
    )
