"""A connector's share of its topics: it deals the partitions that it is given to its streams, and takes them
back."""

import logging
import math
import time
from collections.abc import Mapping, Sequence

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.group.assignors import deal
from pyklient.consumer.group.membership import Assignment, ConsumerRebalanceListener
from pyklient.consumer.offsets.commits import Commits
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import KafkaError
from pyklient.topic_partition import TopicPartition

__all__ = ["AssignmentHandler"]

log = logging.getLogger("pyklient.consumer")

_TO_LEAVE = 10.0
"""Of the seconds that closing may take, so many (two thirds at most) are for committing and leaving the
group. Before them a loop may finish its message."""
_TO_COMMIT = 0.9
"""Of all that time, the commit ends after this share."""


class AssignmentHandler:
    """What one connector reads. Its membership alone calls it, but for ``close``."""

    def __init__(
        self,
        config: ConsumerConfig,
        streams: Mapping[str, Sequence[StreamCore]],
        fetchers: FetcherManager,
        commits: Commits,
        listener: ConsumerRebalanceListener | None,
    ) -> None:
        self._streams = streams
        self._all = list(dict.fromkeys(stream for each in streams.values() for stream in each))
        self._index = {stream: index for index, stream in enumerate(self._all)}
        self._fetchers = fetchers
        self._commits = commits
        self._listener = listener
        self._auto_commit = config.enable_auto_commit and config.group_id is not None
        self._reset = config.auto_offset_reset
        self._commit_timeout = min(config.default_api_timeout_ms, config.session_timeout_ms) / 1000
        self._longest_stall = config.max_poll_interval_ms / 1000
        self._stalled: list[StreamCore] = []
        self._assignment: Assignment | None = None
        self._count_in_hand = False
        self._wait_until = math.inf
        """Nothing in hand is waited for after this time."""
        self._commit_until = math.inf
        """No commit is tried after this time."""

    def close(self, *, count_in_hand: bool, timeout: float) -> None:
        """End the streams. The release that follows commits what is in hand too where that counts, and takes
        less than *timeout* seconds."""
        self._count_in_hand = count_in_hand
        now = time.monotonic()
        self._wait_until = now + max(timeout - _TO_LEAVE, timeout / 3)
        self._commit_until = now + timeout * _TO_COMMIT
        self._fetchers.close(timeout=0)
        for stream in self._all:
            stream.end()

    def release(self, patience: float) -> None:
        """See Owner.release."""
        deadline = time.monotonic() + patience
        assignment, self._assignment = self._assignment, None
        if assignment is not None:
            assignment.active = False
            for stream in self._all:
                stream.revoke()
            self._fetchers.read([])
            held = assignment

            def left() -> float:
                return 0.0 if held.lost else min(deadline, self._wait_until) - time.monotonic()

            for stream in self._all:
                stream.wait_until_asked(left)
            if self._auto_commit and not assignment.lost:
                commit_timeout = min(self._commit_timeout, self._commit_until - time.monotonic())
                self._commits.commit_completed(commit_timeout, in_hand=self._count_in_hand)
        if self._listener is not None:
            owned = assignment.by_topic() if assignment is not None else {}
            try:
                self._listener.before_releasing_partitions(owned)
            except Exception:
                log.exception("the rebalance listener failed before releasing partitions")

    def lose(self, assignment: Assignment) -> None:
        """See Owner.lose."""
        assignment.lost = True
        for stream in self._all:
            stream.look_again()

    def prepare(self, assignment: Assignment) -> None:
        """See Owner.prepare."""
        self._commits.begin(assignment)

    def take(self, assignment: Assignment) -> None:
        """Read *assignment* from now on."""
        self._assignment = assignment
        # A start may have been looked up just when the assignment before ended, and be noted nowhere.
        noted = {partition for stream in self._all for partition in stream.handed(in_hand=True)}
        cursors: list[Cursor] = []
        dealt: dict[str, dict[int, str]] = {}
        for topic, partitions in assignment.by_topic().items():
            streams = self._streams.get(topic)
            if not streams:
                log.warning("partitions of %s were assigned, which nobody here reads", topic)
                continue
            for stream, run in zip(streams, deal(sorted(partitions), len(streams)), strict=True):
                name = f"{assignment.member_id}-{self._index[stream]}"
                for partition in run:
                    dealt.setdefault(topic, {})[partition] = name
                    cursor = self._cursor(TopicPartition(topic, partition), assignment, stream)
                    cursors.append(cursor)
                    found = assignment.start_looked_up(cursor.partition)
                    if found is not None and cursor.partition not in noted:
                        stream.begin_at(cursor, found.offset)
        if self._listener is not None:
            try:
                self._listener.before_starting_fetchers(assignment.member_id, dealt)
            except Exception:
                log.exception("the rebalance listener failed before starting fetchers")
        self._fetchers.read(cursors)

    def extend(self, partitions: Sequence[TopicPartition]) -> None:
        """Read *partitions* too, from their start: they are new."""
        if self._assignment is None:
            return
        for each in partitions:
            streams = self._streams[each.topic]
            stream = streams[each.partition % len(streams)]
            self._fetchers.add(Cursor(each, self._assignment, stream, position=None, reset="earliest"))

    def stalled_for(self) -> float:
        """Seconds for which no message has been taken although one waits; 0.0 while the loops move."""
        now = time.monotonic()
        times = {stream: stream.stalled_for(now) for stream in self._all}
        self._stalled = [stream for stream, stalled in times.items() if stalled >= self._longest_stall]
        return max(times.values(), default=0.0)

    def wanted(self) -> bool:
        """Whether the loops that stood still for ``max_poll_interval_ms`` go on."""
        return all(stream.wanted for stream in self._stalled)

    def refuse(self, errors: Mapping[str, KafkaError]) -> None:
        """The brokers refuse these topics, and no others any more; loops that read them raise the error."""
        for stream in self._all:
            stream.refuse(next((errors[topic] for topic in stream.topics if topic in errors), None))

    def commit_completed(self) -> None:
        """Commit what has been handed out and is not in hand any more. Does not wait for the answer."""
        if self._auto_commit:
            self._commits.send_completed()

    def fail(self, error: Exception) -> None:
        """Reading cannot go on; every loop raises *error*."""
        if self._assignment is not None:
            self._assignment.active = False
        for stream in self._all:
            stream.revoke()
            stream.fail(error)

    def _cursor(self, partition: TopicPartition, assignment: Assignment, stream: StreamCore) -> Cursor:
        start, found = assignment.start(partition), assignment.start_looked_up(partition)
        cursor = Cursor(partition, assignment, stream, position=start, reset=self._reset)
        if found is not None:
            cursor.topic_id = found.topic_id
        return cursor
