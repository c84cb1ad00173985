"""Finds where assigned partitions begin: at the committed offsets of the group, at the positions in the
program's offset store, or at the positions that the streams have reached already."""

import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.commit.offset_storages.saved_positions import SavedPositions
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.fetch.leader_lookup import reset_point
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.owned_partitions import Assignment, Ownership
from pyklient.consumer.start_points import StartPoint
from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.offset_stores.offset_store import StoredPosition
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["AssignedStarts", "StartPositions"]

_LONGEST_BLOCK: Final = 60.0
"""The number of seconds after which loops are told that partitions cannot be acquired in the offset store."""


class AssignedStarts(NamedTuple):
    """The points at which assigned partitions begin."""

    committed: Mapping[TopicPartition, OffsetAndMetadata | None]
    """For each partition, its committed offset or its offset in the offset store. None if it has no such
    offset."""
    points: Mapping[TopicPartition, StartPoint]
    """The start points of the partitions that begin at a time or an offset that the program has chosen."""
    found: Mapping[TopicPartition, int]
    """The offset that was looked up for each partition in ``points``. A partition is missing if its offset
    could not be looked up."""
    stored: Mapping[TopicPartition, StoredPosition]
    """The positions in the offset store, with the epochs with which they were acquired. Empty if the
    connector has no offset store."""


class StartPositions:
    """Finds where the partitions of a connector begin. *storage* has the offsets of the group. *choice* has
    the streams that read the partitions."""

    def __init__(
        self,
        config: ConsumerConfig,
        choice: StreamChoice,
        fetchers: FetcherManager,
        ownership: Ownership,
        storage: OffsetStorage,
    ) -> None:
        self._choice = choice
        self._fetchers = fetchers
        self._ownership = ownership
        self._storage = storage
        self._reset = config.auto_offset_reset
        self._blocked_since: float | None = None
        """The time at which acquiring partitions in the offset store began to fail, in seconds of
        ``time.monotonic``. None if it does not fail."""
        self._timeout = max(config.heartbeat_interval_ms, config.session_timeout_ms / 3) / 1000

    def find(self, partitions: Collection[TopicPartition], *, created: bool) -> AssignedStarts:
        """Return where *partitions* begin. If *created* is true, they are new and begin at their first
        message.

        Raises an error if the offsets of the group cannot be fetched.
        """
        if isinstance(self._storage, SavedPositions):
            return self._acquire(self._storage, partitions, created=created)
        committed = self._storage.fetch(partitions, self._timeout)
        points = self._choice.subscription.start.to_find(committed, created=created)
        found = self._fetchers.find_starts(points, self._timeout) if points else {}
        return AssignedStarts(committed | dict.fromkeys(points), points, found, {})

    def reached(self, starts: AssignedStarts) -> dict[TopicPartition, int]:
        """Return the positions that the streams have reached in partitions of *starts*. Leave out the
        partitions that the client has not owned without a gap.

        If a message is in hand, the position is the offset of this message, unless the committed offset
        includes the message. No position is returned in two cases: with an offset store, all partitions begin
        at their stored positions, and in a mirror, they begin at their committed offsets.
        """
        if isinstance(self._storage, SavedPositions) or self._choice.subscription.continues_at_committed:
            return {}
        before = self._ownership.assignment or Assignment()
        newest: dict[TopicPartition, tuple[int, int]] = {}
        for stream in self._choice.streams:
            after_hand = stream.handed(in_hand=True)
            for each, position in stream.handed(in_hand=False).items():
                if each in starts.committed and position.read and before.holds(each, position.generation):
                    committed = starts.committed[each]
                    done = committed is not None and committed.offset == after_hand[each].offset
                    offset = after_hand[each].offset if done else position.offset
                    newest[each] = max(newest.get(each, (-1, -1)), (position.generation, offset))
        return {each: offset for each, (_, offset) in newest.items()}

    def begin_saving(self, starts: AssignedStarts) -> None:
        """Allow each stream to save positions of its partitions in *starts*, if the connector has an offset
        store."""
        if not isinstance(self._storage, SavedPositions):
            return
        for stream in self._choice.streams:
            of_stream = [each for each in starts.stored if self._choice.stream_of(each) is stream]
            self._storage.begin(stream, {each: starts.stored[each] for each in of_stream})

    def _acquire(
        self, saved: SavedPositions, partitions: Collection[TopicPartition], *, created: bool
    ) -> AssignedStarts:
        """Acquire *partitions* in the offset store, and return their positions there.

        A partition without a stored offset begins at its start point, or where ``auto_offset_reset`` says.
        This offset is stored before any message is read, so that a later owner begins at the same offset.
        Raises KafkaTimeoutError if the offset for a start point cannot be looked up in time.
        """
        stored = self._acquire_in_store(saved, dict.fromkeys(partitions))
        lacking = [each for each, position in stored.items() if position.offset is None]
        points = self._choice.subscription.start.to_find(dict.fromkeys(lacking), created=created)
        default = reset_point("earliest" if created else self._reset)
        if default is not None:
            points = dict.fromkeys(lacking, default) | points
        if points:
            found = self._fetchers.find_starts(points, self._timeout)
            if unknown := sorted(points.keys() - found.keys()):
                raise KafkaTimeoutError(
                    "cannot tell where to begin to read, because the leaders of these partitions have not "
                    f"answered: {', '.join(map(str, unknown))}"
                )
            stored |= self._acquire_in_store(saved, found)
        committed = {
            each: None if position.offset is None else OffsetAndMetadata(position.offset)
            for each, position in stored.items()
        }
        return AssignedStarts(committed, {}, {}, stored)

    def _acquire_in_store(
        self, saved: SavedPositions, starts: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, StoredPosition]:
        """Acquire the partitions in *starts*, and return their stored positions. A partition without a stored
        offset gets its offset in *starts*.

        If retriable errors prevent this for a minute, make loops that wait for messages raise an error,
        because an open transaction of the program itself may block the store.
        """
        began = time.monotonic()
        try:
            stored = saved.acquire(starts)
        except KafkaError as failure:
            if failure.retriable:
                self._note_blocked(starts, began, failure)
            raise
        except BaseException as failure:
            if isinstance(failure, Exception):
                raise
            # sys.exit() in a store would end this thread of the connector, and not the program.
            raise KafkaError(
                f"acquire() of the offset store raised {failure!r}; it may raise only subclasses of Exception"
            ) from failure
        self._blocked_since = None
        for stream in self._choice.streams:
            stream.queue.interrupt(None)
        return stored

    def _note_blocked(
        self, partitions: Collection[TopicPartition], began: float, failure: KafkaError
    ) -> None:
        now = time.monotonic()
        if self._blocked_since is None:
            self._blocked_since = began
        if (blocked := now - self._blocked_since) < _LONGEST_BLOCK:
            return
        self._blocked_since = now
        names = ", ".join(map(str, sorted(partitions)))
        error = KafkaTimeoutError(
            f"cannot read {names}: the offset store has been locked or unreachable for {blocked:.3g} s "
            f"({failure}). If this program has an open transaction in that database, end it before the loop "
            "continues"
        )
        error.__cause__ = failure
        for stream in self._choice.streams:
            stream.queue.interrupt(error)
