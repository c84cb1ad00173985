"""Finds the positions of a connector's streams that are still to be committed."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.owned_partitions import Assignment, Ownership
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["ToCommit", "UncommittedPositions"]


class ToCommit(NamedTuple):
    """An offset to commit, and the generation in which the stream has reached it. ``read`` is false if the
    stream has not handed out any message of the partition. The offset is then the one at which the stream
    begins, for example by ``auto_offset_reset``."""

    at: OffsetAndMetadata
    generation: int
    read: bool = True


class UncommittedPositions:
    """Compares the positions of *streams* with the offsets that are committed already.

    Only one commit at a time uses this object. When the assignment changes, the assignment handler calls
    :meth:`begin`, even during a commit.
    """

    def __init__(self, ownership: Ownership, streams: Sequence[StreamCore]) -> None:
        self._ownership = ownership
        self._streams = streams
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        # The offsets of messages that are committed, and are handed out again.
        self._again: dict[TopicPartition, range] = {}
        # The partitions for which the user has committed an offset. The offset that auto_offset_reset gives
        # does not replace it.
        self._named: set[TopicPartition] = set()

    def begin(self, assignment: Assignment, assigned: Collection[TopicPartition]) -> None:
        """Prepare for *assignment*, in which the partitions *assigned* are new and begin at their committed
        offsets.

        Keep the uncommitted positions of partitions that the client has owned without a gap. Also keep those
        of partitions that it no longer owns, so that the next commit reports them. Forget all other
        positions.
        """
        stay = assignment.partitions.keys() - set(assigned)
        for stream in self._streams:
            stream.forget(
                {
                    each: handed.generation
                    for each, handed in stream.handed(in_hand=True).items()
                    if each not in stay and self._is_over(each, handed, assignment)
                }
            )
        # Commits of other threads may change these dictionaries meanwhile, so copies are iterated over.
        self._again = {each: offsets for each, offsets in self._again.copy().items() if each in stay}
        self._named = self._named.copy() & stay
        self._committed = {each: stored for each, stored in self._committed.copy().items() if each in stay}
        for each in assigned:
            owned = assignment.partitions[each]
            if owned.committed is not None and owned.committed_offset is not None:
                self._committed[each] = owned.committed

    def _is_over(self, partition: TopicPartition, handed: Position, assignment: Assignment) -> bool:
        """Return True if the position *handed* has to be forgotten when *assignment* begins."""
        goes_on = assignment.holds(partition, handed.generation) and handed.read
        if self._is_committed(partition, handed) and not goes_on:
            return True
        if partition not in assignment.partitions:
            return not handed.read
        if not assignment.holds(partition, handed.generation):
            return True
        return not handed.read and assignment.start(partition) != handed.offset

    def find(
        self,
        streams: Sequence[StreamCore],
        *,
        in_hand: bool,
        queued: Mapping[TopicPartition, OffsetAndMetadata] = MappingProxyType({}),
    ) -> dict[TopicPartition, ToCommit]:
        """Return the positions of *streams* that are not committed yet.

        If *in_hand* is true, the messages in hand count as read, except for those of a loop in another
        thread. If a partition begins at an offset from ``auto_offset_reset``, this offset is a position too,
        unless the user has committed an offset of the partition.

        A position is left out if it is before an offset that has been committed, unless the program has gone
        back by ``seek`` or ``redeliver``. A position can be before a committed offset in two cases: a message
        was committed while a loop had it in hand, or a new assignment begins at an older offset than the last
        commit stored.

        *queued* has the offsets of commits that wait in the queue. They count as committed here. A position
        that is equal to a queued offset is returned nevertheless, because the earlier commit may fail.
        """
        assignment = self._ownership.assignment or Assignment()
        found: dict[TopicPartition, Position] = {}
        settled: set[TopicPartition] = set()
        for stream in streams:
            # A loop may go on meanwhile. So what it has in hand is looked at first: an older position that is
            # looked at first would be compared with a newer message in hand, and be committed.
            settled.update(
                partition
                for partition, handed in stream.handed(in_hand=True).items()
                if self._is_committed(partition, handed, queued)
            )
            counts = in_hand and not stream.is_held_elsewhere()
            for partition, handed in stream.handed(in_hand=counts).items():
                # A partition may have moved from one of our streams to another.
                if partition not in found or _newness(handed) > _newness(found[partition]):
                    found[partition] = handed
        settled -= {each for each, at in queued.items() if each in found and found[each].offset == at.offset}
        return {
            partition: ToCommit(_at(assignment, partition, handed), handed.generation, handed.read)
            for partition, handed in found.items()
            if partition not in settled
            and (handed.read or partition not in self._named)
            and (partition in queued or not self._is_committed(partition, handed))
            and (handed.chosen or handed.offset not in self._again.get(partition, ()))
        }

    def name(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, ToCommit]:
        """Return *offsets*, which the user commits, as positions of the present generation. Remember their
        partitions: an offset that comes from ``auto_offset_reset`` must not replace these positions."""
        generation = (self._ownership.assignment or Assignment()).identity.generation
        self._named.update(offsets)
        return {each: ToCommit(at, generation) for each, at in offsets.items()}

    def note_committed(self, assignment: Assignment, stored: Mapping[TopicPartition, ToCommit]) -> None:
        """Remember that the positions *stored* have been committed under *assignment*."""
        for each, position in stored.items():
            self._committed[each] = position.at
            owned = assignment.partitions[each]
            if position.generation < owned.generation:
                self._again[each] = range(owned.start or 0, position.at.offset)

    def _is_committed(
        self,
        partition: TopicPartition,
        handed: Position,
        queued: Mapping[TopicPartition, OffsetAndMetadata] = MappingProxyType({}),
    ) -> bool:
        """Return True if the offset and the metadata of the position *handed* are committed. The metadata is
        not compared if *handed* has none. An offset in *queued* counts as committed."""
        stored = queued.get(partition) or self._committed.get(partition)
        if stored is None or stored.offset != handed.offset:
            return False
        return handed.metadata is None or handed.metadata == stored.metadata


def _at(assignment: Assignment, partition: TopicPartition, handed: Position) -> OffsetAndMetadata:
    if handed.metadata is None:
        return assignment.to_commit(partition, handed.offset, handed.leader_epoch)
    return OffsetAndMetadata(handed.offset, handed.metadata, handed.leader_epoch)


def _newness(handed: Position) -> tuple[int, int]:
    return handed.generation, handed.offset
