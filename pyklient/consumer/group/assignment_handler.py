"""The assignment handler: it gives assigned partitions to streams, and takes revoked partitions away from
them."""

import math
import time
from collections.abc import Collection, Mapping, Sequence

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.group.classic_listener import RebalanceListener, listeners_of
from pyklient.consumer.group.listener_calls import ListenerCalls
from pyklient.consumer.group.start_positions import StartPositions
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.owned_partitions import MemberIdentity, OwnedPartition, Ownership
from pyklient.consumer.start_points import StartPoint
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import KafkaError
from pyklient.topic_partition import TopicPartition

__all__ = ["AssignmentHandler"]

_TO_LEAVE = 10.0
"""The number of seconds of its time-out that ``close`` reserves for the last commit and for leaving the
group. It waits for messages in hand in the time before, and at least in the first third of the time-out."""
_TO_COMMIT = 0.9
"""The fraction of the time-out of ``close`` after which the last commit must have ended."""


class AssignmentHandler:
    """Makes the streams of one connector read the partitions that are assigned to the connector. Only the
    connector's membership calls the methods, except for ``close``.

    ``revoked``, ``assigned`` and ``tell_all_lost`` may wait and call the rebalance listener. So a membership
    calls these methods one after the other, and on a thread that has no other work. The other methods return
    at once.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        choice: StreamChoice,
        fetchers: FetcherManager,
        ownership: Ownership,
        store: OffsetStorage,
        commits: OffsetCommitter,
        listener: RebalanceListener | None,
    ) -> None:
        self._choice = choice
        self._all = choice.streams
        self._fetchers = fetchers
        self._ownership = ownership
        self._store = store
        self._commits = commits
        self._starts = StartPositions(config, choice, fetchers, ownership, store)
        self._listeners = ListenerCalls(listeners_of(listener, ownership, choice))
        self._reset = config.auto_offset_reset
        self._commit_timeout = min(config.default_api_timeout_ms, config.session_timeout_ms) / 1000
        self.auto_commit = config.commits_automatically
        self._commit_interval = config.auto_commit_interval_ms / 1000 if self.auto_commit else math.inf
        self.next_commit_at = time.monotonic() + self._commit_interval
        """The time at which :meth:`commit_if_due` commits next, in seconds of ``time.monotonic``. Infinite if
        automatic commits are off."""
        self._longest_stall = config.max_poll_interval_ms / 1000
        self._stalled: list[StreamCore] = []
        self._count_in_hand = False
        self._wait_until = math.inf
        """The time, in seconds of ``time.monotonic``, until which the handler waits for messages in hand."""
        self._commit_until = math.inf
        """The time, in seconds of ``time.monotonic``, until which the handler tries to commit."""

    def close(self, *, count_in_hand: bool, timeout: float) -> None:
        """End the streams. From now on, :meth:`revoked` waits and commits for *timeout* seconds at most.

        If *count_in_hand* is true, :meth:`revoked` then commits messages in hand too.
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
        previous generation is read from the position that its stream has reached. If *created* is true, the
        partitions are new and are read from their first offset.

        *stream_numbers* has the number of the stream that reads each partition, among the streams of its
        topic. Without *stream_numbers*, the partitions are divided evenly between the streams.

        The rebalance listener may seek and pause, because *partitions* are not fetched before it has
        returned. If the membership has failed meanwhile, *partitions* are not read. Raises an error if the
        committed offsets cannot be found. If this error is retriable, nothing has changed, and the call may
        be repeated.
        """
        starts = self._starts.find(partitions, created=created)
        if self._ownership.ended:
            return
        with self._ownership.changing():
            reached = self._starts.reached(starts)
            assignment = self._ownership.after(identity, starts.committed, reached, starts.found)
            self._commits.begin(assignment, partitions)
            self._ownership.begin(assignment)
            if self._ownership.ended:  # fail() may not have seen this assignment
                self._ownership.lose(partitions)
                self._ownership.revoke(partitions)
                return
            self.next_commit_at = time.monotonic() + self._commit_interval
            self._choice.choose(partitions, assignment.partitions.keys() - set(partitions), stream_numbers)
            self._starts.begin_saving(starts)
            reset = "earliest" if created else self._reset
            cursors = [
                (self._cursor(assignment.partitions[each], reset, starts.points.get(each)), stream.queue)
                for each in partitions
                if (stream := self._choice.stream_of(each)) is not None
            ]
            self._fetchers.hold_back(cursors)
            self._note_starts(cursors)
            self._listeners.assigned(partitions)
            if not self._ownership.ended:  # otherwise fail() has made them lost
                self._fetchers.release(cursors)

    def revoked(
        self,
        partitions: Collection[TopicPartition],
        timeout: float,
        identity: MemberIdentity | None = None,
    ) -> None:
        """Stop handing out messages of *partitions*, wait for their messages in hand, commit, and call the
        rebalance listener.

        The wait takes *timeout* seconds at most. If *identity* is given, offsets are committed under that
        identity from now on. If all of the partitions are lost, or become lost meanwhile, this method stops
        waiting and does not commit.
        """
        with self._ownership.changing():
            deadline = time.monotonic() + timeout
            revoked = self._ownership.revoke(partitions, identity)
            if revoked:
                self._remove_from_streams(revoked, deadline)
            self._tell_revoked(revoked)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Mark *partitions* as lost, because the group has given them to other members.

        The membership must call :meth:`revoked` for these partitions afterwards. If such a call is waiting
        already, it stops waiting.
        """
        self._ownership.lose(partitions)
        for stream in self._all:
            stream.look_again()

    def extend_lease(self, until: float) -> None:
        """Let the streams hand out messages until the time *until*, in seconds of ``time.monotonic``."""
        self._ownership.lease.until = until

    def keep_lease(self, until: float) -> None:
        """Let the streams hand out messages until the time *until*, in seconds of ``time.monotonic``. Do
        nothing if the previous limit has passed and the streams have stopped."""
        if not self._ownership.lease.ended():
            self.extend_lease(until)

    def left(self) -> None:
        """Remember that the membership has left its group, so that no offset can be committed any more."""
        self._ownership.leave()

    def ended(self) -> None:
        """Remember that the membership has ended, so no further partitions will be assigned."""
        self._ownership.ended = True

    def fail(self, error: Exception) -> None:
        """Mark all partitions as lost, take them from the streams, and make every loop over a stream raise
        *error*.

        The membership calls this if the consumer cannot continue. It must call :meth:`tell_all_lost`
        afterwards.
        """
        self._ownership.failure, self._ownership.ended = error, True
        if (assignment := self._ownership.assignment) is not None:
            self._ownership.lose(assignment.partitions)
            self._ownership.revoke(assignment.partitions)
        for stream in self._all:
            stream.revoke()
            stream.queue.fail(error)

    def tell_all_lost(self) -> None:
        """Tell the rebalance listener that all partitions are lost. The membership calls this after
        :meth:`fail`."""
        with self._ownership.changing():
            self._listeners.all_lost()

    def watch(self, topics: Collection[str] | None) -> None:
        """Refresh the client's metadata of *topics* from time to time. None stands for all topics."""
        self._fetchers.watch(topics)

    def set_topic_errors(self, errors: Mapping[str, KafkaError]) -> None:
        """Make loops raise the errors of their topics. *errors* has an error for each topic to which the
        brokers deny this client access.

        Loops over other topics continue.
        """
        for stream in self._all:
            stream.queue.set_topic_error(
                next((errors[topic] for topic in stream.topics if topic in errors), None)
            )

    def commit_if_due(self, now: float) -> None:
        """Commit the messages that are done, if the next automatic commit is due. *now* is the present time,
        in seconds of ``time.monotonic``.

        This method does not wait for the response.
        """
        if now >= self.next_commit_at:
            self.next_commit_at = now + self._commit_interval
            self._commits.commit_completed_async()

    def stalled_for(self) -> float:
        """Return the number of seconds for which a loop has not asked for a message although a message waits
        for it.

        If several loops are stalled, return the longest time. If no loop is stalled, return 0.0.
        """
        now = time.monotonic()
        times = {stream: stream.stalled_for(now) for stream in self._all}
        self._stalled = [stream for stream, stalled in times.items() if stalled >= self._longest_stall]
        return max(times.values(), default=0.0)

    def goes_on(self) -> bool:
        """Return True if every loop that was stalled at the last call of :meth:`stalled_for` has asked for a
        message since then."""
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
            timeout = max(0.0, min(self._commit_timeout, self._commit_until - time.monotonic()))
            self._commits.commit_completed(timeout, in_hand=self._count_in_hand)

    def _cursor(self, owned: OwnedPartition, reset: str, point: StartPoint | None) -> Cursor:
        cursor = Cursor(owned, position=owned.start, reset=reset)
        cursor.start_point = point if owned.start is None else None
        if (found := owned.looked_up_start) is not None:
            cursor.topic_id = found.topic_id
        return cursor

    def _note_starts(self, cursors: Sequence[tuple[Cursor, FetchQueue]]) -> None:
        """For each of *cursors*, record the offset at which it begins in the queue of its stream, if this
        offset still has to be committed.

        This is so in two cases: only one of two offset storages has the offset, or it was looked up, but not
        committed, before the previous assignment ended. Partitions that have a position in a stream already
        are left out.
        """
        noted = {partition for stream in self._all for partition in stream.handed(in_hand=True)}
        for cursor, queue in cursors:
            start = cursor.owned.start_to_commit
            if start is not None and cursor.partition not in noted:
                queue.begin_at(cursor, start)

    def _tell_revoked(self, revoked: Sequence[OwnedPartition]) -> None:
        lost = [owned.partition for owned in revoked if owned.lost]
        given_back = [owned.partition for owned in revoked if not owned.lost]
        if given_back or not lost:
            self._listeners.revoked(given_back)
        if lost:
            self._listeners.lost(lost)
