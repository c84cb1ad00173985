"""What has been handed out, and how much of that is committed."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple

from pyklient.consumer.group.membership import Assignment, Membership
from pyklient.consumer.stream.in_hand import Handed
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.error_codes import ErrorCode
from pyklient.errors import CommitError, KafkaError, KafkaTimeoutError, broker_error, error_facts
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Commits"]

log = logging.getLogger("pyklient.consumer")

_POLL = 0.05
_MOVED_ON = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


class _Position(NamedTuple):
    """An offset to commit. The generation and ``read`` are those of Handed."""

    at: OffsetAndMetadata
    generation: int
    read: bool = True


class Commits:
    """Commits of one connector's streams, one at a time.

    *partition_count* tells how many partitions a topic has, as far as is known.
    """

    def __init__(
        self,
        membership: Membership,
        streams: Sequence[StreamCore],
        partition_count: Callable[[str], int],
    ) -> None:
        self._membership = membership
        self._streams = streams
        self._partition_count = partition_count
        self._turn = threading.Lock()
        self._committed: dict[TopicPartition, int] = {}
        # Offsets that are committed, and are handed out again.
        self._again: dict[TopicPartition, range] = {}
        # What the user has committed by name stands against a start that was looked up.
        self._named: set[TopicPartition] = set()
        self._sent: Future[dict[TopicPartition, int]] | None = None

    def begin(self, assignment: Assignment) -> None:
        """A new assignment starts from what is committed. What concerns older ones is forgotten, unless it is
        still to be committed."""
        for stream in self._streams:
            stream.forget(
                {
                    each: generation
                    for each, (offset, generation, read) in stream.handed(in_hand=True).items()
                    if self._committed.get(each) == offset
                    or (each in assignment.starts and not assignment.holds(each, generation))
                    or not (read or (each in assignment.starts and assignment.start(each) == offset))
                }
            )
        self._again = {}
        self._named = set()
        self._committed = {
            partition: start.offset for partition, start in assignment.starts.items() if start is not None
        }

    def commit(self, streams: Sequence[StreamCore], timeout: float) -> None:
        """Commit what *streams* have handed out, but for what a loop in another thread has in hand.

        Raises CommitError naming the partitions not committed, after committing the rest; and
        KafkaTimeoutError, naming the last failure, after *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        with self._taking_turns(timeout):
            self._store(self._handed(streams, in_hand=True), deadline)

    def commit_these(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Commit *offsets*, whatever has been handed out. Raises as :meth:`commit`."""
        deadline = time.monotonic() + timeout
        with self._taking_turns(timeout):
            assignment = self._membership.assignment
            generation = -1 if assignment is None else assignment.generation
            self._named.update(offsets)
            self._store({each: _Position(at, generation) for each, at in offsets.items()}, deadline)

    def send_completed(self) -> None:
        """Commit what has been handed out and is not in hand, without waiting. On the group thread."""
        assignment = self._membership.assignment
        if assignment is None or (self._sent is not None and not self._sent.done()):
            return
        try:
            with self._taking_turns(0):
                handed = self._handed(self._streams, in_hand=False)
                offsets = {
                    each: position.at
                    for each, position in handed.items()
                    if assignment.holds(each, position.generation)
                }
                self._sent = self._membership.send(assignment, offsets) if offsets else None
        except KafkaTimeoutError:
            return  # a commit is under way that covers this one
        if self._sent is not None:
            sent = {each: handed[each] for each in offsets}
            self._sent.add_done_callback(lambda future: self._answered(assignment, sent, future))

    def commit_completed(self, timeout: float, *, in_hand: bool) -> None:
        """The same, waiting for the answer; failures are logged. Called before partitions are released."""
        deadline = time.monotonic() + timeout
        try:
            with self._taking_turns(timeout):
                self._store(self._handed(self._streams, in_hand=in_hand), deadline)
        except CommitError as error:
            log.info("automatic commit: %s", error)
        except KafkaError as error:
            log.warning("automatic commit failed, messages will be delivered again: %s", error)

    @contextmanager
    def _taking_turns(self, timeout: float) -> Iterator[None]:
        """Commit one at a time, so that an older position never overtakes a newer one on its way.

        Raises KafkaTimeoutError, saying why where that is known, if the commit before takes longer than
        *timeout* seconds.
        """
        if not self._turn.acquire(timeout=max(0.0, timeout)):
            raise KafkaTimeoutError(
                f"offsets not committed within {timeout:.3g} s: the commit before is not done"
                f"{self._why_it_takes_time()}"
            )
        try:
            yield
        finally:
            self._turn.release()

    def _why_it_takes_time(self) -> str:
        if (trouble := self._membership.trouble()) is not None:
            return f"; the last failure: {trouble}"
        assignment = self._membership.assignment
        return ", because the group rebalances" if assignment is not None and not assignment.active else ""

    def _handed(self, streams: Sequence[StreamCore], *, in_hand: bool) -> dict[TopicPartition, _Position]:
        """How far each partition has come, where that is not committed yet.

        A start that was looked up counts, unless the user has committed an offset of that partition by name.

        A partition that somebody committed with its message in hand stays so: leaving that message out
        would take the commit back. So would a message that was committed in the middle of a rebalance, and
        comes again because the new assignment starts from what was committed before.
        """
        found: dict[TopicPartition, Handed] = {}
        settled: set[TopicPartition] = set()
        for stream in streams:
            counts = in_hand and not stream.is_held_elsewhere()
            for partition, handed in stream.handed(in_hand=counts).items():
                # A partition may have moved from one of our streams to another.
                if partition not in found or _newness(handed) > _newness(found[partition]):
                    found[partition] = handed
            settled.update(
                partition
                for partition, handed in stream.handed(in_hand=True).items()
                if self._committed.get(partition) == handed.offset
            )
        return {
            partition: _Position(OffsetAndMetadata(handed.offset), handed.generation, handed.read)
            for partition, handed in found.items()
            if partition not in settled
            and (handed.read or partition not in self._named)
            and self._committed.get(partition) != handed.offset
            and handed.offset not in self._again.get(partition, ())
        }

    def _store(self, wanted: Mapping[TopicPartition, _Position], deadline: float) -> None:
        """Commit as the holder of the current assignment; wait for the next one where the group moves on.

        A partition that has gone to another member is an error, unless nothing was handed out of it.
        """
        failed: dict[TopicPartition, KafkaError] = {}
        left = dict(wanted)
        while left:
            assignment = self._membership.assignment
            ours = {
                each: position.at
                for each, position in left.items()
                if assignment is not None and assignment.holds(each, position.generation)
            }
            lost = {each: position.generation for each, position in left.items() if each not in ours}
            failed.update(
                (each, KafkaError(self._why_not_ours(each, assignment, generation)))
                for each, generation in lost.items()
                if wanted[each].read
            )
            for stream in self._streams:
                stream.forget(lost)
            left = {}
            if assignment is not None and ours:
                codes = self._membership.commit(assignment, ours, deadline - time.monotonic())
                self._stored(assignment, {each: wanted[each] for each in ours if each not in codes})
                again = self._awaits_next(assignment, codes, deadline)
                left = {each: wanted[each] for each in again}
                failed.update((e, broker_error(code)) for e, code in codes.items() if e not in again)
        if failed:
            raise CommitError(
                "not committed: " + "; ".join(f"{each} ({error})" for each, error in failed.items()), failed
            )

    def _stored(self, assignment: Assignment, stored: Mapping[TopicPartition, _Position]) -> None:
        """These have been committed as the holder of *assignment*."""
        for each, position in stored.items():
            self._committed[each] = position.at.offset
            if position.generation < assignment.generation:
                self._again[each] = range(assignment.start(each) or 0, position.at.offset)

    def _why_not_ours(self, partition: TopicPartition, assignment: Assignment | None, generation: int) -> str:
        """What is known of why *assignment* does not hold *partition* since *generation*."""
        if not any(partition.topic in stream.topics for stream in self._streams):
            return "this connector has no stream of that topic"
        count = self._partition_count(partition.topic)
        if not count:
            return "there is no such topic"
        if partition.partition >= count:
            return f"there is no such partition: the topic has {count}, numbered from 0"
        if assignment is None or assignment.generation < 0:
            return (
                "this connector is not in its group now: it has not joined yet, or it has left because it "
                "closes or because a loop took no message for max_poll_interval_ms"
            )
        since = assignment.held_since.get(partition)
        if since is None:
            return (
                f"the group did not assign it to this connector in generation {assignment.generation}; its "
                "messages come again, from the committed offset, where it is assigned"
            )
        return (
            f"it was taken away after generation {generation} and assigned to this connector again in "
            f"generation {since}; its messages come again from the committed offset"
        )

    def _awaits_next(
        self, assignment: Assignment, codes: Mapping[TopicPartition, int], deadline: float
    ) -> list[TopicPartition]:
        """Those refused only because the group moves on, once the assignment after *assignment* is there."""
        again = [each for each, code in codes.items() if code in _MOVED_ON]
        if not again or self._membership.runs_here():
            return []
        while self._membership.assignment is assignment:
            if time.monotonic() >= deadline or not self._membership.thread.is_alive():
                return []
            time.sleep(_POLL)
        return again

    def _answered(
        self,
        assignment: Assignment,
        sent: Mapping[TopicPartition, _Position],
        future: "Future[dict[TopicPartition, int]]",
    ) -> None:
        """An automatic commit has come back. On the connection's reader thread."""
        error = future.exception()
        if error is not None:
            log.info("automatic commit failed, it is tried again: %s", error)
            return
        codes = future.result()
        self._stored(assignment, {each: at for each, at in sent.items() if each not in codes})
        for partition, code in codes.items():
            log.info("automatic commit of %s: %s", partition, error_facts(code).sentence)


def _newness(handed: Handed) -> tuple[int, int]:
    return handed.generation, handed.offset
