"""Commits the positions of a connector's streams. The committer decides which positions are committed, and in
which order. The offset storage sends them."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pyklient.consumer.commit.background_commits import BackgroundCommits, CommitCallback
from pyklient.consumer.commit.commit_failures import why_not_ours, why_rejected
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage, Rejections
from pyklient.consumer.commit.offset_storages.saved_positions import SavedPositions
from pyklient.consumer.commit.uncommitted_positions import ToCommit, UncommittedPositions
from pyklient.consumer.locks import new_counting_lock, new_turn_lock
from pyklient.consumer.owned_partitions import NOBODY, Assignment, Ownership
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.counted import counted
from pyklient.errors import CommitError, KafkaError, KafkaTimeoutError
from pyklient.log_events import log_fields
from pyklient.metrics.consumer_counts import CommitCounts
from pyklient.outage import Outage
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyklient.metrics import CommitMetrics

__all__ = ["OffsetCommitter"]

log = logging.getLogger("pyklient.consumer")

_POLL = 0.05


class OffsetCommitter:
    """Commits the positions of one connector's streams, one commit at a time.

    *partition_count* returns how many partitions a topic has, or 0 if that is not known.
    """

    def __init__(
        self,
        ownership: Ownership,
        store: OffsetStorage,
        streams: Sequence[StreamCore],
        partition_count: Callable[[str], int],
    ) -> None:
        self._ownership = ownership
        self._store = store
        self._streams = streams
        self._partition_count = partition_count
        self._turn = new_turn_lock()
        self._uncommitted = UncommittedPositions(ownership, streams)
        self._sent: Future[Rejections] | None = None
        self._failure_logged = False
        self._outage = Outage(log, "automatic commits", "auto_commit_outage")
        self._by_call, self._automatic = CommitCounts(), CommitCounts()
        self._counting = new_counting_lock()
        self.background = BackgroundCommits(self._commit_in_turn, self._counting)
        """The queue of the commits that :meth:`commit_in_background` makes."""

    def metrics(self) -> "CommitMetrics":
        """Return how many commits were made so far: automatic ones, and those that the program has asked
        for."""
        return self._by_call.plus(self._automatic)

    def begin(self, assignment: Assignment, assigned: Collection[TopicPartition]) -> None:
        """Prepare for *assignment*, in which the partitions *assigned* are new. Forget the positions that
        must not be committed under *assignment*. With an offset store, do nothing, because the program saves
        the positions itself."""
        if not isinstance(self._store, SavedPositions):
            self._uncommitted.begin(assignment, assigned)

    def commit(self, streams: Sequence[StreamCore], timeout: float, *, once: bool = False) -> None:
        """Commit the positions of *streams*. A message in hand counts as read if the calling thread has it,
        but not if a loop in another thread has it.

        Raises CommitError if some partitions were not committed; all others are committed. Raises
        KafkaTimeoutError with the last failure after *timeout* seconds. If *once* is true, this method raises
        the first failure, and does not try again.
        """
        deadline = time.monotonic() + timeout
        find = partial(self._uncommitted.find, streams, in_hand=True)
        with self._taking_turns(timeout, find, for_callbacks=not self._ownership.changes_here()) as wanted:
            self._commit(wanted, deadline, once=once)

    def commit_these(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, once: bool = False
    ) -> None:
        """Commit exactly *offsets*, whether or not the messages before them have been handed out. Raises
        CommitError if some partitions were not committed, and KafkaTimeoutError after *timeout* seconds. If
        *once* is true, raises the first failure and does not try again."""
        deadline = time.monotonic() + timeout
        find = partial(self._uncommitted.name, offsets)
        with self._taking_turns(timeout, find, for_callbacks=not self._ownership.changes_here()) as wanted:
            self._commit(wanted, deadline, once=once)

    def commit_in_background(
        self,
        streams: Sequence[StreamCore],
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        timeout: float,
        callback: CommitCallback | None,
    ) -> None:
        """Commit *offsets*, or the present positions of *streams* if *offsets* is None. Do not wait for the
        commit. Call *callback* after it.

        Later commits of the connector wait until this commit has been made.
        """
        if offsets is None:
            find = partial(self._uncommitted.find, streams, in_hand=True)
            self.background.put(lambda queued: find(queued=queued), timeout, callback)
        else:
            self.background.put(lambda _queued: self._uncommitted.name(offsets), timeout, callback)

    def _commit_in_turn(self, wanted: Mapping[TopicPartition, ToCommit], deadline: float) -> None:
        timeout = max(0.0, deadline - time.monotonic())
        if not self._turn.acquire(timeout=timeout):
            raise self._previous_has_not_ended(timeout)
        try:
            self._commit(wanted, deadline)
        finally:
            self._turn.release()

    def commit_completed_async(self) -> None:
        """Make an automatic commit of the messages that the loops have finished. Do not wait for the
        response."""
        assignment = self._ownership.assignment
        if assignment is None or (self._sent is not None and not self._sent.done()):
            return
        try:
            find = partial(self._uncommitted.find, self._streams, in_hand=False)
            with self._taking_turns(0, find) as handed:
                sent = {
                    each: position
                    for each, position in handed.items()
                    if assignment.holds(each, position.generation)
                }
                positions = {each: position.at for each, position in sent.items()}
                self._sent = self._store.commit_async(positions, assignment.identity) if sent else None
        except KafkaTimeoutError:
            return  # An earlier commit is still being made, and includes these positions.
        if self._sent is not None:
            self._sent.add_done_callback(lambda future: self._answered(assignment, sent, future))

    def commit_completed(self, timeout: float, *, in_hand: bool) -> None:
        """Commit the messages that the loops have finished, and log failures. The connector calls this method
        before it gives back partitions.

        If *in_hand* is true, commit the messages in hand too.
        """
        deadline = time.monotonic() + timeout
        self._failure_logged = False
        try:
            find = partial(self._uncommitted.find, self._streams, in_hand=in_hand)
            with self._taking_turns(timeout, find) as wanted:
                self._commit(wanted, deadline)
        except CommitError as error:
            log.info("the automatic commit did not store the offsets of some partitions: %s", error)
            self._failure_logged = True
        except KafkaError as error:
            log.warning(
                "the automatic commit failed. If no later commit succeeds, the messages since the last "
                "successful commit are delivered again after a rebalance or a restart: %s",
                error,
                extra=log_fields("commit_failed", error=str(error)),
            )
            self._failure_logged = True

    def log_uncommitted(self) -> None:
        """Log a warning that names the partitions with messages that were handed out and not committed.

        The connector calls this as its last step when it closes. Log nothing if the failure of the last
        commit has been logged already.
        """
        positions = self._uncommitted.find(self._streams, in_hand=False)
        left = sorted(each for each, position in positions.items() if position.read)
        if left and not self._failure_logged:
            log.warning(
                "the connector has closed without committing all messages%s; messages of %s will "
                "be delivered again: %s",
                self._why_it_takes_time(),
                counted(len(left), "partition"),
                ", ".join(f"{each.topic}-{each.partition}" for each in left[:10]),
                extra=log_fields("closed_without_commit", partitions=len(left)),
            )

    @contextmanager
    def _taking_turns(
        self,
        timeout: float,
        find: Callable[[], dict[TopicPartition, ToCommit]],
        *,
        for_callbacks: bool = False,
    ) -> Iterator[dict[TopicPartition, ToCommit]]:
        """Wait until all earlier commits have been made, then call *find* and yield the positions that it
        returns. Only one thread at a time gets into the ``with`` block of this context manager, so that no
        older position is stored after a newer position.

        If *for_callbacks* is true, wait until the callbacks of the earlier commits have returned too. The
        thread that rebalances must not wait for callbacks, because a callback may wait for that thread.
        Raises KafkaTimeoutError if the earlier commits take longer than *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        wanted = None
        while wanted is None:
            made = self.background.wait(max(0.0, deadline - time.monotonic()), for_callbacks=for_callbacks)
            if not (made and self._turn.acquire(timeout=max(0.0, deadline - time.monotonic()))):
                raise self._previous_has_not_ended(timeout)
            try:
                wanted = self.background.unless_waiting(find)
                if wanted is not None:
                    yield wanted
            finally:
                self._turn.release()

    def _previous_has_not_ended(self, timeout: float) -> KafkaTimeoutError:
        return KafkaTimeoutError(
            f"offsets were not committed within {timeout:.3g} s, because the previous commit has not "
            f"ended{self._why_it_takes_time()}"
        )

    def _why_it_takes_time(self) -> str:
        if (failure := self._store.unreachable()) is not None:
            return f"; the last failure: {failure}"
        if (reason := self._ownership.failure) is not None:
            return f", because this member has stopped: {reason}"
        return ", because the group rebalances" if self._ownership.rebalancing else ""

    def _commit(
        self, wanted: Mapping[TopicPartition, ToCommit], deadline: float, *, once: bool = False
    ) -> None:
        """Commit the positions *wanted* under the present identity (id and generation) of the member.

        If the group has begun another generation, wait until the member has the identity of that generation,
        and commit again. If *once* is true, commit only once. Raises CommitError for partitions that were
        rejected, or that another member owns now. If another member owns a partition of which this client has
        handed out no message, the partition is ignored.
        """
        failed: dict[TopicPartition, KafkaError] = {}
        left = dict(wanted)
        while left:
            assignment = self._ownership.assignment or Assignment()
            ours = {
                each: position.at
                for each, position in left.items()
                if assignment.holds(each, position.generation)
            }
            gone = {each: position.generation for each, position in left.items() if each not in ours}
            failed.update(
                (
                    each,
                    KafkaError(
                        why_not_ours(each, assignment, generation, self._streams, self._partition_count)
                    ),
                )
                for each, generation in gone.items()
                if wanted[each].read
            )
            for stream in self._streams:
                stream.forget(gone)
            left = {}
            if ours:
                try:
                    rejected = self._store.commit(
                        ours, assignment.identity, max(0.0, deadline - time.monotonic()), once=once
                    )
                except KafkaError:
                    self._by_call.count(0, failed=True)
                    raise
                self._by_call.count(len(ours) - len(rejected), failed=bool(rejected))
                self._uncommitted.note_committed(
                    assignment, {each: wanted[each] for each in ours if each not in rejected}
                )
                again = [] if once else self._await_next(assignment, rejected, deadline)
                left = {each: wanted[each] for each in again}
                failed.update(
                    (each, why_rejected(why, assignment))
                    for each, why in rejected.items()
                    if each not in again
                )
        if failed:
            raise CommitError(
                "offsets were not committed: "
                + "; ".join(f"{each} ({error})" for each, error in failed.items()),
                failed,
            )

    def _await_next(
        self, assignment: Assignment, rejected: Rejections, deadline: float
    ) -> list[TopicPartition]:
        """Wait until the assignment that follows *assignment* begins. Return the partitions in *rejected*
        that can be committed under the new assignment.

        Return no partitions if *deadline* passes first, or if all of these partitions are lost. If the
        calling thread is the one that changes the assignment, return no partitions at once, because waiting
        would never end.
        """
        again = [each for each, why in rejected.items() if why.outdated]
        if not again or self._ownership.changes_here() or assignment.identity == NOBODY:
            return []
        while self._ownership.assignment is assignment:
            lost = all(assignment.partitions[each].lost for each in again)
            if lost or time.monotonic() >= deadline or self._ownership.ended:
                return []
            time.sleep(_POLL)
        return again

    def _answered(
        self,
        assignment: Assignment,
        sent: Mapping[TopicPartition, ToCommit],
        future: "Future[Rejections]",
    ) -> None:
        """Handle the response to the automatic commit of *sent* under *assignment*. *future* has the
        positions that were rejected, or an error. The connection's reader thread calls this method."""
        error = future.exception()
        if error is not None:
            self._automatic.count(0, failed=True)
            self._outage.failed(error, "the next automatic commit includes these offsets")
            return
        rejected = future.result()
        # A client that is not a member gets the same answer until the group has no members any more.
        alone = [each for each in rejected.values() if assignment.identity == NOBODY]
        if alone:
            self._outage.failed(why_rejected(alone[0], assignment), "the next automatic commit tries again")
        else:
            self._outage.ended()
        self._automatic.count(len(sent) - len(rejected), failed=bool(rejected))
        self._uncommitted.note_committed(
            assignment, {each: at for each, at in sent.items() if each not in rejected}
        )
        for partition, why in () if alone else rejected.items():
            log.info("the automatic commit did not store the offset of %s: %s", partition, why.error)
