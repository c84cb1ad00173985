"""The assignment handler: it gives assigned partitions to streams, and takes them away when they are
revoked."""

import math
import time
from collections.abc import Collection, Mapping, Sequence

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.group.classic_listener import RebalanceListener, listeners_of
from pyklient.consumer.group.listener_calls import ListenerCalls
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.offsets.offset_committer import OffsetCommitter
from pyklient.consumer.offsets.offset_store import OffsetStore
from pyklient.consumer.owned_partitions import Assignment, MemberIdentity, OwnedPartition, Ownership
from pyklient.consumer.start_points import StartPoint
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["AssignmentHandler"]

_TO_LEAVE = 10.0
"""The seconds (at most two thirds of the time to close) that are kept for committing and leaving the group.
Before that, a loop may finish its message."""
_TO_COMMIT = 0.9
"""The fraction of the time-out of ``close`` after which the last commit must have ended."""


class AssignmentHandler:
    """Reads the partitions of one connector. Only the membership of the connector calls its methods, except
    for ``close``.

    ``revoked``, ``assigned`` and ``tell_all_lost`` may wait and call the rebalance listener. So a membership
    calls them one after the other, and not on a thread that does other work meanwhile. The other methods
    return at once.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        choice: StreamChoice,
        fetchers: FetcherManager,
        ownership: Ownership,
        store: OffsetStore,
        commits: OffsetCommitter,
        listener: RebalanceListener | None,
    ) -> None:
        self._choice = choice
        self._all = choice.streams
        self._fetchers = fetchers
        self._ownership = ownership
        self._store = store
        self._commits = commits
        self._listeners = ListenerCalls(listeners_of(listener, ownership, choice))
        self._reset = config.auto_offset_reset
        self._fetch_timeout = max(config.heartbeat_interval_ms, config.session_timeout_ms / 3) / 1000
        self._commit_timeout = min(config.default_api_timeout_ms, config.session_timeout_ms) / 1000
        self.auto_commit = config.enable_auto_commit and config.group_id is not None
        self._commit_interval = config.auto_commit_interval_ms / 1000 if self.auto_commit else math.inf
        self.next_commit_at = time.monotonic() + self._commit_interval
        """The next time at which :meth:`commit_if_due` commits. Infinite if it never commits."""
        self._longest_stall = config.max_poll_interval_ms / 1000
        self._stalled: list[StreamCore] = []
        self._count_in_hand = False
        self._wait_until = math.inf
        """The time after which the handler does not wait any longer for loops to finish their messages in
        hand."""
        self._commit_until = math.inf
        """The time after which the handler does not try to commit any more."""

    def close(self, *, count_in_hand: bool, timeout: float) -> None:
        """End the streams. From now on, :meth:`revoked` waits and commits for *timeout* seconds at most.

        With *count_in_hand*, :meth:`revoked` then commits messages in hand too.
        """
        self._count_in_hand = count_in_hand
        now = time.monotonic()
        self._wait_until = now + max(timeout - _TO_LEAVE, timeout / 3)
        self._commit_until = now + timeout * _TO_COMMIT
        self._store.stop_retrying()
        self._fetchers.close(timeout=0)
        for stream in self._all:
            stream.end()

    def assigned(
        self,
        partitions: Collection[TopicPartition],
        identity: MemberIdentity,
        *,
        created: bool = False,
        stream_numbers: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Begin to read *partitions* from their committed offsets, and commit under *identity* from now on.

        The subscription may name other offsets to begin at. A partition that this client also owned in the
        generation just before is read from the position that its stream has reached. If *created*, the
        partitions are new and are read from their first offset.

        *stream_numbers* has the number of the stream that reads each partition, among the streams of its
        topic. Without it, the partitions are divided evenly between the streams. Raises an error if the
        committed offsets cannot be found. If the error is retriable, nothing has changed, and the call may
        be made again. If the membership has failed meanwhile, nothing of *partitions* is read.
        """
        starts = self._store.fetch(partitions, self._fetch_timeout)
        points = self._choice.subscription.start.to_find(starts, created=created)
        found = self._fetchers.find_starts(points, self._fetch_timeout) if points else {}
        starts.update(dict.fromkeys(points))
        if self._ownership.ended:
            return
        with self._ownership.changing():
            assignment = self._ownership.after(identity, starts, self._reached(starts), found)
            self._commits.begin(assignment, partitions)
            self._ownership.begin(assignment)
            if self._ownership.ended:  # fail() may not have seen this assignment
                self._ownership.lose(partitions)
                self._ownership.revoke(partitions)
                return
            self.next_commit_at = time.monotonic() + self._commit_interval
            self._choice.choose(partitions, assignment.partitions.keys() - set(partitions), stream_numbers)
            self._listeners.assigned(partitions)
            if self._ownership.ended:  # fail() has made them lost
                return
            reset = "earliest" if created else self._reset
            cursors = [
                self._cursor(assignment.partitions[each], stream, reset, points.get(each))
                for each in partitions
                if (stream := self._choice.stream_of(each)) is not None
            ]
            self._note_starts(cursors)
            self._fetchers.add(cursors)

    def revoked(
        self,
        partitions: Collection[TopicPartition],
        timeout: float,
        identity: MemberIdentity | None = None,
    ) -> None:
        """Stop handing out messages of *partitions*, wait for their messages in hand, commit, and call the
        rebalance listener.

        The wait takes *timeout* seconds at most. With *identity*, offsets are committed under that identity
        from now on. For partitions that are lost, or become lost meanwhile, this neither waits nor commits.
        """
        with self._ownership.changing():
            deadline = time.monotonic() + timeout
            revoked = self._ownership.revoke(partitions, identity)
            if revoked:
                self._remove_from_streams(revoked, deadline)
            self._tell_revoked(revoked)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Mark *partitions* as lost, because the group has given them to other members.

        A call of :meth:`revoked` for these partitions must follow. A call that is waiting already stops
        waiting.
        """
        self._ownership.lose(partitions)
        for stream in self._all:
            stream.look_again()

    def extend_lease(self, until: float) -> None:
        """Let the streams hand out messages until the time *until*, in seconds of ``time.monotonic``."""
        self._ownership.lease.until = until

    def keep_lease(self, until: float) -> None:
        """Extend the lease of the streams to the time *until*, unless the lease has ended already."""
        if not self._ownership.lease.ended():
            self.extend_lease(until)

    def left(self) -> None:
        """Record that the membership has left its group, so that no offset can be committed any more."""
        self._ownership.leave()

    def ended(self) -> None:
        """Record that the membership has ended, so no further partitions will be assigned."""
        self._ownership.ended = True

    def fail(self, error: Exception) -> None:
        """Make every loop raise *error*, as reading cannot continue, and mark all partitions as lost.

        A call of :meth:`tell_all_lost` must follow.
        """
        self._ownership.ended = True
        if (assignment := self._ownership.assignment) is not None:
            self._ownership.lose(assignment.partitions)
            self._ownership.revoke(assignment.partitions)
        for stream in self._all:
            stream.revoke()
            stream.queue.fail(error)

    def tell_all_lost(self) -> None:
        """Tell the rebalance listener after :meth:`fail` that all its partitions are lost."""
        with self._ownership.changing():
            self._listeners.all_lost()

    def watch(self, topics: Collection[str] | None) -> None:
        """Refresh the client's metadata of *topics* (None: of all topics) from time to time."""
        self._fetchers.watch(topics)

    def set_topic_errors(self, errors: Mapping[str, KafkaError]) -> None:
        """Make the loops over a topic in *errors* raise its error, because the brokers do not allow the
        topic.

        Loops over other topics continue.
        """
        for stream in self._all:
            stream.queue.set_topic_error(
                next((errors[topic] for topic in stream.topics if topic in errors), None)
            )

    def commit_if_due(self, now: float) -> None:
        """Commit the messages that are done, if ``auto_commit_interval_ms`` has passed.

        This does not wait for the response.
        """
        if now >= self.next_commit_at:
            self.next_commit_at = now + self._commit_interval
            self._commits.commit_completed_async()

    def stalled_for(self) -> float:
        """Return for how many seconds a loop has not asked for a message, although a message waits.

        Of several loops, the longest time counts. The time is 0.0 while all loops ask for messages.
        """
        now = time.monotonic()
        times = {stream: stream.stalled_for(now) for stream in self._all}
        self._stalled = [stream for stream, stalled in times.items() if stalled >= self._longest_stall]
        return max(times.values(), default=0.0)

    def goes_on(self) -> bool:
        """Return True if all loops that were stalled at the last call of :meth:`stalled_for` have asked for a
        message since."""
        return all(stream.wanted for stream in self._stalled)

    def _remove_from_streams(self, revoked: Sequence[OwnedPartition], deadline: float) -> None:
        for stream in self._all:
            stream.revoke()
        self._choice.drop([owned.partition for owned in revoked])
        self._fetchers.drop_inactive()

        def left() -> float:
            if all(owned.lost for owned in revoked):
                return 0.0
            return min(deadline, self._wait_until) - time.monotonic()

        for stream in self._all:
            stream.wait_until_asked(left)
        if self.auto_commit and not all(owned.lost for owned in revoked):
            timeout = min(self._commit_timeout, self._commit_until - time.monotonic())
            self._commits.commit_completed(timeout, in_hand=self._count_in_hand)

    def _reached(
        self, starts: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> dict[TopicPartition, int]:
        """Return the positions that the streams have reached in those partitions in *starts* that the client
        has owned without a gap. A message in hand is handed out again, unless the committed offset in
        *starts* is after it.
        """
        before = self._ownership.assignment or Assignment()
        newest: dict[TopicPartition, tuple[int, int]] = {}
        for stream in self._all:
            after_hand = stream.handed(in_hand=True)
            for each, position in stream.handed(in_hand=False).items():
                if each in starts and position.read and before.holds(each, position.generation):
                    committed = starts[each]
                    done = committed is not None and committed.offset == after_hand[each].offset
                    offset = after_hand[each].offset if done else position.offset
                    newest[each] = max(newest.get(each, (-1, -1)), (position.generation, offset))
        return {each: offset for each, (_, offset) in newest.items()}

    def _cursor(
        self, owned: OwnedPartition, stream: StreamCore, reset: str, point: StartPoint | None
    ) -> Cursor:
        cursor = Cursor(owned, stream.queue, position=owned.start, reset=reset)
        cursor.start_point = point if owned.start is None else None
        if (found := owned.looked_up_start) is not None:
            cursor.topic_id = found.topic_id
        return cursor

    def _note_starts(self, cursors: Sequence[Cursor]) -> None:
        """Record the offsets at which *cursors* begin, if these offsets are still to be committed and no
        stream knows them yet.

        An offset is still to be committed if only one of two offset stores has it, or if it was looked up
        just before the last assignment ended.
        """
        noted = {partition for stream in self._all for partition in stream.handed(in_hand=True)}
        for cursor in cursors:
            start = cursor.owned.start_to_commit
            if start is not None and cursor.partition not in noted:
                cursor.queue.begin_at(cursor, start)

    def _tell_revoked(self, revoked: Sequence[OwnedPartition]) -> None:
        lost = [owned.partition for owned in revoked if owned.lost]
        given_back = [owned.partition for owned in revoked if not owned.lost]
        if given_back or not lost:
            self._listeners.revoked(given_back)
        if lost:
            self._listeners.lost(lost)
