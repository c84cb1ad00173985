"""All fetchers of a client, with the leader lookup, as one object that is started and stopped."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_budget import FetchBudget
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.leader_lookup import LeaderLookup
from pyklient.consumer.start_points import StartPoint, find_offsets
from pyklient.errors import KafkaError
from pyklient.metrics.consumer_counts import ConsumerCounts
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

__all__ = ["FetcherManager"]

log = logging.getLogger("pyklient.consumer")


class FetcherManager:
    """Fetches cursors into the queues of their streams, within the budget ``prefetch_max_bytes``."""

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._budget = FetchBudget(config.prefetch_max_bytes)
        self._lookup = LeaderLookup(client, config, self._budget)
        self._client = client
        self._isolation_level = int(config.isolation_level == "read_committed")
        self.counts = ConsumerCounts()

    def start(self) -> None:
        """Start the leader lookup. Fetchers start when they are needed."""
        self._lookup.thread.start()

    def add(self, cursors: Sequence[Cursor]) -> None:
        """Begin to read *cursors*, and stop reading cursors that are not active any more."""
        for cursor in cursors:
            cursor.counts = self.counts.of(cursor.partition)
            cursor.queue.begin(cursor)
        self.counts.keep([cursor.partition for cursor in (*self._budget.cursors, *cursors)])
        self._lookup.add(cursors)

    def drop_inactive(self) -> None:
        """Stop reading the partitions that the client does not own any more, so that their budget is
        freed."""
        self._lookup.add([])

    def restart(self, cursor: Cursor, position: int | None) -> None:
        """Read the partition of *cursor* again from *position* on. If *position* is None, the offset to begin
        at is looked up."""
        if (successor := cursor.queue.replace(cursor, position)) is not None:
            self._lookup.seek(successor, None)

    def find_offsets(
        self, points: Mapping[TopicPartition, StartPoint], timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the offset of each start point. This waits up to *timeout* seconds for brokers, unless all
        points are offsets."""
        return self._client.play(find_offsets(points, self._isolation_level), timeout)

    def find_starts(
        self, points: Mapping[TopicPartition, StartPoint], timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the offsets of start points. This waits up to *timeout* seconds for brokers, unless all
        points are offsets.

        The result leaves out the partitions whose offset cannot be found now, for instance because they have
        no leader. The leader lookup finds their offsets later, and the other partitions are read meanwhile.
        """
        offsets = {each: point for each, point in points.items() if isinstance(point, int)}
        asked = points.keys() - offsets.keys()
        try:
            metadata = self._client.metadata
            if any(metadata.leader(each) is None for each in asked):
                metadata = self._client.refresh_metadata({each.topic for each in asked}, timeout)
            found = {each: points[each] for each in asked if metadata.leader(each) is not None}
            return offsets | self.find_offsets(found, timeout)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info("offsets at which reading begins are looked up again, because of an error: %s", error)
            return dict(offsets)

    def watch(self, topics: Collection[str] | None) -> None:
        """Refresh the client's metadata of *topics* (None: of all topics) from time to time."""
        self._lookup.watch(topics)

    @property
    def cursors(self) -> Sequence[Cursor]:
        """The cursors of the partitions that are read now."""
        return [cursor for cursor in self._budget.cursors if cursor.active]

    def abandon(self, then: Callable[[], None]) -> None:
        """Stop fetching, and call *then* on the thread of the leader lookup. This call acquires no lock."""
        self._lookup.abandon(then)

    def close(self, timeout: float) -> None:
        """Stop fetching, and wait up to *timeout* seconds for the threads to end."""
        self._lookup.close()
        if self._lookup.thread.ident is not None:
            self._lookup.join(time.monotonic() + timeout)
