"""The leader lookup: it finds the leader of each partition. If the offset to begin at is not known, it finds
this offset too.

One thread looks up all partitions that have no fetcher: new partitions, and those whose fetcher needs another
leader. It also refreshes the metadata of the topics from time to time, so that new partitions are noticed.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pyklient.config import ConsumerConfig
from pyklient.config.offset_reset import duration_of
from pyklient.consumer.fetch.fetch_budget import FetchBudget
from pyklient.consumer.fetch.fetch_position import Cursor, FetchFailure
from pyklient.consumer.fetch.fetcher import Fetcher, may_pass
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition
from pyklient.consumer.fetch.open_transactions import OpenTransactions
from pyklient.consumer.start_points import StartPoint, find_offsets
from pyklient.errors import ClosedError, ForkError, KafkaError, OffsetOutOfRangeError
from pyklient.log_events import log_fields
from pyklient.net.backoff import Backoff
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.outage import Outage
from pyklient.protocol.primitives import ZERO_UUID

__all__ = ["LeaderLookup", "start_point_of"]

log = logging.getLogger("pyklient.consumer")

_LOOK_UP_TIMEOUT = 5.0
_LONGEST_UNWATCHED = 10.0  # new partitions are not read until they are noticed, and asking costs little
_MISSING_UNWATCHED = 1.0
_BROKERS_LEARN = 5.0
"""The number of seconds within which brokers learn of a new topic in ZooKeeper."""
_FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_PAUSE_AFTER_ALL = 100.0
"""The smallest pause between two refreshes of the metadata of all topics, as a multiple of the time that the
last refresh took. In a large cluster, a refresh may take long."""


class LeaderLookup:
    """The thread that finds the leaders of partitions.

    It owns the cursors without a leader, the fetchers, and the list of all cursors (``budget.cursors``).
    """

    def __init__(
        self,
        client: NetworkClient,
        config: ConsumerConfig,
        budget: FetchBudget,
        open_transactions: OpenTransactions,
    ) -> None:
        self._client = client
        self._config = config
        self._budget = budget
        self._open_transactions = open_transactions
        self._inbox: queue.SimpleQueue[FetchedPartition | Sequence[FetchedPartition] | None] = (
            queue.SimpleQueue()
        )
        self._homeless: list[FetchedPartition] = []
        self._all: Sequence[FetchedPartition] = ()
        self._fetchers: dict[int, Fetcher] = {}
        self._watched: frozenset[str] | None = frozenset()
        self._took = 0.0
        """The seconds that the last refresh of the metadata of all topics took."""
        self._looked_at = float("-inf")
        self._stale = False
        self._cluster_changed = False
        self._cluster_changed_at = float("-inf")
        self._failures = 0
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._outage = Outage(log, "leaders of partitions", "leader_lookup_outage")
        self._start_outage = Outage(
            log, "offsets at which reading begins", "start_lookup_outage", level=logging.INFO
        )
        self._closing = False
        self._then: Callable[[], None] | None = None
        self.thread = threading.Thread(target=self._run, name="pyklient-leader-lookup", daemon=True)
        client.on_cluster_change(self._on_cluster_change)

    def add(self, states: Sequence[FetchedPartition]) -> None:
        """Begin to read the cursors of *states*, and stop reading cursors that are not active any more."""
        self._inbox.put(list(states))

    def seek(self, state: FetchedPartition, error: KafkaError | None) -> None:
        """Look up the leader of the partition of *state*. If fetching has failed with *error*, do so after a
        pause, and with new metadata."""
        if error is not None:
            self._stale = True
            state.failures += 1
            state.retry_at = time.monotonic() + self._backoff.pause(state.failures)
        self._inbox.put(state)

    def watch(self, topics: Collection[str] | None) -> None:
        """Refresh the client's metadata of *topics* from time to time, so that it shows new partitions. None
        stands for all topics."""
        self._watched = None if topics is None else frozenset(topics)
        self._inbox.put(None)

    def close(self) -> None:
        """Make this thread and the fetchers end. This call does not wait for the end."""
        self._closing = True
        self._inbox.put(None)
        for fetcher in list(self._fetchers.values()):
            fetcher.close()

    def abandon(self, then: Callable[[], None]) -> None:
        """Make this thread and the fetchers end, and have this thread call *then* as its last step.

        This call only tells the thread to do so, and never waits.
        """
        self._then = then
        self._closing = True
        self._inbox.put(None)

    def join(self, deadline: float) -> None:
        """Wait for this thread and the fetchers to end, but not after *deadline*."""
        for thread in [self.thread, *(fetcher.thread for fetcher in self._fetchers.values())]:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _on_cluster_change(self) -> None:
        """Refresh the metadata soon. A thread of the session with ZooKeeper calls this."""
        self._cluster_changed = True
        self._cluster_changed_at = time.monotonic()
        self._inbox.put(None)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._collect()
                self._homeless = [each for each in self._homeless if each.cursor.active]
                metadata = self._look()
                if metadata is not None and self._homeless:
                    self._assign_to_fetchers(metadata)
                now = time.monotonic()
                left_over = any(each.retry_at <= now for each in self._homeless)
                self._failures = self._failures + 1 if left_over else 0
        except (ClosedError, ForkError):
            pass
        except Exception as error:
            log.exception(
                "the leader lookup has failed unexpectedly, so the consumer fetches no more messages; please "
                "report this"
            )
            for each in self._all:
                each.queue.fail(error)
        if self._then is not None:
            self.close()
            self._then()

    def _collect(self) -> None:
        """Wait until there is something to do: find the leader of a new cursor, refresh the metadata of the
        topics, or try again to find a leader."""
        wait = self._look_in()
        if self._homeless:
            first = min(each.retry_at for each in self._homeless) - time.monotonic()
            wait = min(wait, max(first, self._backoff.pause(self._failures) if self._failures else 0.0))
        arrived: list[FetchedPartition] = []
        some_may_be_gone = False
        try:
            item = self._inbox.get(timeout=max(0.0, wait))
            while True:
                if isinstance(item, FetchedPartition):
                    arrived.append(item)
                elif item is not None:
                    arrived += item
                    some_may_be_gone = True
                item = self._inbox.get_nowait()
        except queue.Empty:
            pass
        self._adopt([each for each in arrived if each.cursor.active], some_may_be_gone)

    def _adopt(self, states: Sequence[FetchedPartition], some_may_be_gone: bool) -> None:
        """Begin to look up the leaders of the partitions of *states*. A cursor in *states* may replace a
        dropped cursor of the same partition.

        If *some_may_be_gone* is true, cursors that are not active any more are removed from the list of all
        cursors.
        """
        self._homeless += states
        known = set(self._budget.cursors) if states else set()
        if some_may_be_gone or any(each.cursor not in known for each in states):
            # One new list for all of them: there may be thousands, for example after a broker has failed.
            newest = {each.cursor.partition: each for each in (*self._all, *states) if each.cursor.active}
            self._all = tuple(newest.values())
            self._budget.cursors = tuple(each.cursor for each in self._all)

    def _look_in(self) -> float:
        """Return the seconds until the metadata of the topics is to be refreshed."""
        if self._cluster_changed:
            return 0.0
        most = self._config.metadata_max_age_ms / 1000
        every = min(_LONGEST_UNWATCHED, most)
        if self._watched is None:
            every = min(max(every, self._took * _PAUSE_AFTER_ALL), most)
            if time.monotonic() - self._cluster_changed_at < _BROKERS_LEARN:
                every = min(every, _MISSING_UNWATCHED)
        elif any(not self._client.metadata.partition_count(topic) for topic in self._watched):
            every = min(every, _MISSING_UNWATCHED)
        return self._looked_at + every - time.monotonic()

    def _look(self) -> Metadata | None:
        """Return metadata that is new enough, and refresh it first if necessary. Return None if no broker
        answers."""
        metadata = self._client.metadata
        now = time.monotonic()
        due = [each for each in self._homeless if each.retry_at <= now]
        lost = any(metadata.leader(each.cursor.partition) is None for each in due)
        if not ((self._stale and due) or lost or self._look_in() <= 0):
            return metadata
        topics = (
            None
            if self._watched is None
            else self._watched | {each.cursor.partition.topic for each in self._homeless}
        )
        self._cluster_changed = False
        self._looked_at = time.monotonic()
        if topics is not None and not topics:
            return metadata
        self._stale = False
        try:
            return self._refresh(topics)
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            self._stale = True
            self._outage.failed(error, "looking them up again")
            if not error.retriable:
                self._give_up(error)
            return None

    def _refresh(self, topics: Collection[str] | None) -> Metadata:
        metadata = self._client.refresh_metadata(topics, self._config.request_timeout_ms / 1000)
        self._took = time.monotonic() - self._looked_at
        self._outage.ended()
        return metadata

    def _give_up(self, error: KafkaError) -> None:
        """Make the loops raise *error* for all partitions without a fetcher, because waiting does not help. A
        new loop tries again."""
        for each in self._homeless:
            each.queue.put([FetchFailure(each.cursor, error, each.cursor.position)])
        self._homeless = []

    def _assign_to_fetchers(self, metadata: Metadata) -> None:
        """Give each cursor that has a leader and a position to the fetcher of that leader."""
        self._fail_topics(metadata)
        by_leader: dict[int, list[FetchedPartition]] = {}
        now = time.monotonic()
        for each in self._homeless:
            cursor = each.cursor
            leader = metadata.leader(cursor.partition)
            if leader is not None and each.retry_at <= now:
                topic = metadata.topics[cursor.partition.topic]
                _identify(cursor, topic.id)
                cursor.leader_epoch = topic.partitions[cursor.partition.partition].leader_epoch
                by_leader.setdefault(leader.id, []).append(each)
        for node_id, states in by_leader.items():
            if self._find_starts([each for each in states if each.cursor.position is None]):
                self._remove(states)
                for each in states:
                    if each.cursor.position is not None:
                        self._fetcher(node_id).assign(each)

    def _remove(self, states: Iterable[FetchedPartition]) -> None:
        """Remove the partitions of *states* from those for which this thread looks for a leader."""
        gone = set(states)
        self._homeless = [each for each in self._homeless if each not in gone]

    def _fail_topics(self, metadata: Metadata) -> None:
        """If *metadata* has an error of a topic that a retry does not cure, such as a missing permission,
        make the program's loops raise this error. A loop that begins later tries again."""
        errors = metadata.topic_errors({each.cursor.partition.topic for each in self._homeless})
        failed = [each for each in self._homeless if each.cursor.partition.topic in errors]
        self._remove(failed)
        for each in failed:
            error = errors[each.cursor.partition.topic]
            each.queue.put([FetchFailure(each.cursor, error, each.cursor.position)])

    def _find_starts(self, states: Sequence[FetchedPartition]) -> bool:
        """Look up the offsets at which the cursors of *states* begin. Return True if each of them now has an
        offset or an error."""
        points: dict[FetchedPartition, StartPoint] = {}
        for each in states:
            try:
                points[each] = start_point_of(each.cursor)
            except OffsetOutOfRangeError as error:
                each.queue.put([FetchFailure(each.cursor, error, None)])
        if not points:
            return True
        return self._find_offsets(points)

    def _find_offsets(self, points: Mapping[FetchedPartition, StartPoint]) -> bool:
        level = int(self._config.isolation_level == "read_committed")
        wanted = {each.cursor.partition: point for each, point in points.items()}
        try:
            found = self._client.play(find_offsets(wanted, level), _LOOK_UP_TIMEOUT)
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            self._start_outage.failed(error, "looking them up again")
            self._stale = True
            if may_pass(error):
                return False
            for each in points:
                each.queue.put([FetchFailure(each.cursor, error, None)])
            return True
        self._start_outage.ended()
        for each in points:
            offset = found[each.cursor.partition]
            each.cursor.begin(offset)
            each.queue.begin_at(each.cursor, offset)
        return True

    def _fetcher(self, node_id: int) -> Fetcher:
        fetcher = self._fetchers.get(node_id)
        if fetcher is None or not fetcher.thread.is_alive():
            fetcher = Fetcher(
                node_id, self._client, self._config, self._budget, self._open_transactions, self.seek
            )
            self._fetchers[node_id] = fetcher
            self._budget.responses = [each.response for each in self._fetchers.values()]
            if self._closing:
                return fetcher
            fetcher.thread.start()
        return fetcher


def _identify(cursor: Cursor, topic_id: bytes) -> None:
    """Store *topic_id* in *cursor*. If the id has changed, the topic was deleted and created again. Then drop
    the fetch position, so that reading begins where ``auto_offset_reset`` says."""
    if ZERO_UUID not in (cursor.topic_id, topic_id) and topic_id != cursor.topic_id:
        log.warning(
            "the topic of %s was deleted and created again, so reading begins at auto_offset_reset=%s in the "
            "new topic",
            cursor.partition,
            cursor.reset,
            extra=log_fields(
                "topic_recreated",
                topic=cursor.partition.topic,
                partition=cursor.partition.partition,
                reset=cursor.reset,
            ),
        )
        cursor.position = None
    cursor.topic_id = topic_id


def start_point_of(cursor: Cursor) -> StartPoint:
    """Return the start point of *cursor*, which has no position yet. This is the start point that the program
    has named. If the program has named none, it is the point that ``auto_offset_reset`` stands for. Raises
    OffsetOutOfRangeError if ``auto_offset_reset`` is ``none``."""
    if cursor.start_point is not None:
        return cursor.start_point
    point = reset_point(cursor.reset)
    if point is None:
        raise OffsetOutOfRangeError(
            f"{cursor.partition} has no committed offset, and auto_offset_reset is none; "
            "commit an offset, or set auto_offset_reset to earliest or latest"
        )
    return point


def reset_point(reset: str) -> StartPoint | None:
    """Return the start point that *reset*, a value of ``auto_offset_reset``, stands for. Return None for the
    value ``none``."""
    if reset == "none":
        return None
    if (duration := duration_of(reset)) is not None:
        now = datetime.now(UTC)
        return now - min(duration, now - _FIRST_TIME)
    return "beginning" if reset == "earliest" else "end"
