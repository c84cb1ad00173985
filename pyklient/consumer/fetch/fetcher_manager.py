"""All fetchers of a client, with the leader lookup, as one object that is started and stopped."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_budget import FetchBudget
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition
from pyklient.consumer.fetch.leader_lookup import LeaderLookup, start_point_of
from pyklient.consumer.fetch.open_transactions import OpenTransactions
from pyklient.consumer.fetch.start_lookup import StartLookup
from pyklient.consumer.start_points import StartPoint, find_offsets
from pyklient.errors import KafkaError
from pyklient.metrics.consumer_counts import ConsumerCounts
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

__all__ = ["FetcherManager"]

log = logging.getLogger("pyklient.consumer")


class FetcherManager:
    """Fetches the partitions of cursors, and puts the data into the queues of their streams. Fetching
    pauses while ``prefetch_max_bytes`` are fetched and not yet read."""

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._budget = FetchBudget(config.prefetch_max_bytes)
        self._open_transactions = OpenTransactions(client, config)
        self._lookup = LeaderLookup(client, config, self._budget, self._open_transactions)
        self._client = client
        self._isolation_level = int(config.isolation_level == "read_committed")
        self._starts = StartLookup(client, self._isolation_level)
        self.counts = ConsumerCounts()

    def start(self) -> None:
        """Start the leader lookup. Fetchers start when they are needed."""
        self._lookup.thread.start()

    def add(self, cursors: Sequence[tuple[Cursor, FetchQueue]]) -> None:
        """Begin to fetch the partition of each cursor in *cursors*, into the queue that is paired with the
        cursor. Stop fetching for cursors that are not active any more."""
        self.hold_back(cursors)
        self.release(cursors)

    def hold_back(self, cursors: Sequence[tuple[Cursor, FetchQueue]]) -> None:
        """Add *cursors*, each paired with the queue of its stream, but do not fetch them before
        :meth:`release`. Meanwhile the program can call ``seek`` and ``pause``."""
        for cursor, queue in cursors:
            cursor.counts = self.counts.of(cursor.partition)
            queue.begin(cursor, held_back=True)
        read = (*self._budget.cursors, *(cursor for cursor, _ in cursors))
        self.counts.keep([cursor.partition for cursor in read])

    def release(self, cursors: Sequence[tuple[Cursor, FetchQueue]]) -> None:
        """Begin to fetch *cursors*, which were held back. If ``seek`` has replaced a cursor, fetch the new
        cursor. Stop reading cursors that are not active any more."""
        newest = [(queue.release(cursor.partition), queue) for cursor, queue in cursors]
        self._lookup.add([FetchedPartition(each, queue) for each, queue in newest if each is not None])

    def drop_inactive(self) -> None:
        """Stop reading the partitions that the client does not own any more, so that other partitions can use
        their part of the fetch budget."""
        self._lookup.add([])

    def restart(self, queue: FetchQueue, cursor: Cursor, position: int | None) -> None:
        """Fetch the partition of *cursor* again from *position* on, into *queue*. If *position* is None, look
        up the offset to begin at. The lock of the stream must be held, so that the partition is not released
        meanwhile."""
        successor = queue.replace(cursor, position)
        if successor is not None and not successor.owned.held_back:
            self._lookup.seek(FetchedPartition(successor, queue), None)

    def find_start(self, queue: FetchQueue, cursor: Cursor, timeout: float) -> bool:
        """Look up the offset at which *cursor* begins. The cursor is held back and has no position yet;
        *queue* is the queue of its stream.

        This call waits up to *timeout* seconds for brokers, but not after :meth:`close` is called. Return
        False if the offset cannot be found now, because the partition has no leader or the connector closes.
        Raises OffsetOutOfRangeError if the program has named no start point and ``auto_offset_reset`` is
        ``none``.
        """
        point = start_point_of(cursor)
        found = self._starts.find({cursor.partition: point}, timeout)
        if cursor.partition not in found:
            return False
        queue.begin_held_back(cursor, found[cursor.partition])
        return True

    def find_offsets(
        self, points: Mapping[TopicPartition, StartPoint], timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the offset of each start point. If some points are not offsets, wait up to *timeout* seconds
        for brokers."""
        return self._client.play(find_offsets(points, self._isolation_level), timeout)

    def find_starts(
        self, points: Mapping[TopicPartition, StartPoint], timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the offsets of start points. If some points are not offsets, wait up to *timeout* seconds
        for brokers, but not after :meth:`close` is called.

        The result leaves out the partitions whose offset cannot be found now, for instance because they have
        no leader. The leader lookup finds their offsets later, and the other partitions are read meanwhile.
        """
        offsets = {each: point for each, point in points.items() if isinstance(point, int)}
        asked = points.keys() - offsets.keys()
        if not asked:
            return offsets
        try:
            return offsets | self._starts.find({each: points[each] for each in asked}, timeout)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info(
                "the consumer looks up again at which offsets it begins to read, because of an error: %s",
                error,
            )
            return offsets

    def watch(self, topics: Collection[str] | None) -> None:
        """Refresh the client's metadata of *topics* from time to time. None stands for all topics."""
        self._lookup.watch(topics)

    @property
    def cursors(self) -> Sequence[Cursor]:
        """The cursors of the partitions that are read now."""
        return [cursor for cursor in self._budget.cursors if cursor.active]

    def cancel_lookups(self) -> None:
        """Wake the threads that wait for the offsets of start points, because the program no longer refers to
        the connector. This call acquires no lock and never waits."""
        self._starts.close()

    def abandon(self, then: Callable[[], None]) -> None:
        """Stop fetching, and call *then* on the thread of the leader lookup. This call acquires no lock."""
        self._open_transactions.close()
        self._lookup.abandon(then)

    def close(self, timeout: float) -> None:
        """Stop fetching, and wait up to *timeout* seconds for the threads to end."""
        deadline = time.monotonic() + timeout
        self._lookup.close()
        self._starts.close()
        self._open_transactions.close()
        if self._lookup.thread.ident is not None:
            self._lookup.join(deadline)
        self._starts.join(deadline)
        self._open_transactions.join(deadline)
