"""The positions of a stream's partitions, which tell how far each partition has been handed out."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.consumer.read_epochs import UNKNOWN_EPOCH, ReadEpochs
from pyklient.topic_partition import TopicPartition

__all__ = ["Position", "Positions"]


class Position(NamedTuple):
    """The offset of the next message of a partition, and the group's generation in which the messages before
    this offset were read."""

    offset: int
    generation: int
    read: bool = True
    """True if a message before the offset has been handed out. False for an offset that was only looked
    up."""
    metadata: str | None = None
    """The text to commit with the offset. If it is None and this offset is committed already, the committed
    text is kept."""
    chosen: bool = False
    """True if the program has called ``seek`` or ``redeliver`` since the partition was assigned. The offset
    is then committed even if it is before the committed offset."""
    leader_epoch: int = UNKNOWN_EPOCH
    """The leader epoch of the last record before the offset (KIP-320), if it is known."""
    after_message: int | None = None
    """The offset after the last message that was handed out. None unless records between this offset and
    ``offset`` were skipped, such as control records."""


class Positions:
    """The position of each partition of a stream. It does not yet include the messages that were handed out
    of the current chunk.

    The stream's lock must be held.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, Position] = {}
        self._chosen: dict[TopicPartition, int] = {}
        """For each partition, the generation in which the program last called ``seek`` or ``redeliver``."""
        self._ends: Mapping[TopicPartition, int | None] = {}
        self._unfinished: set[TopicPartition] | None = None
        self.leader_epochs = ReadEpochs()

    @property
    def finished(self) -> bool:
        """True if the stream is bounded and every partition has been handed out up to its end."""
        return self._unfinished is not None and not self._unfinished

    def end_with(self, ends: Mapping[TopicPartition, int | None]) -> None:
        """Finish the stream when each partition in *ends* has been handed out up to its offset there. A
        partition with the end None never ends."""
        self._ends, self._unfinished = ends, set(ends)

    def note(self, owned: OwnedPartition, offset: int, *, read: bool = True) -> None:
        """Remember that the messages of *owned* before *offset* have been handed out. *read* is false if
        *offset* was only looked up."""
        self._known[owned.partition] = self.at(owned, offset, read=read)
        if self._unfinished is not None:
            end = self._ends.get(owned.partition)
            if end is not None and offset >= end:
                self._unfinished.discard(owned.partition)

    def at(self, owned: OwnedPartition, offset: int, *, read: bool = True) -> Position:
        """Return *offset* as a position of *owned*. If a bounded read ends at a smaller offset, return that
        offset instead."""
        if (end := self._ends.get(owned.partition)) is not None:
            offset = min(offset, end)  # its last batch may contain records after the end
        generation = owned.generation
        chosen = self._chosen.get(owned.partition) == generation
        leader_epoch = self.leader_epochs.before(owned.partition, offset)
        return Position(offset, generation, read, chosen=chosen, leader_epoch=leader_epoch)

    def note_left(self, owned: OwnedPartition, after_message: int | None, offset: int) -> None:
        """Note that all messages of *owned* before *offset* were handed out or skipped.

        *after_message* is the offset after the last message that was handed out. It is None if no message was
        handed out since the last call.
        """
        before = self._known.get(owned.partition)
        if after_message is None and before is not None:
            after_message = before.offset if before.after_message is None else before.after_message
        self.note(owned, offset)
        if after_message != offset:
            position = self._known[owned.partition]
            self._known[owned.partition] = position._replace(after_message=after_message)

    def seek(self, owned: OwnedPartition, offset: int) -> None:
        """Remember that the program has called ``seek``, so that *owned* continues at *offset*."""
        self._chosen[owned.partition] = owned.generation
        self.note(owned, offset)

    def repeat(self, partitions: Iterable[OwnedPartition]) -> None:
        """Remember that ``redeliver`` hands out messages of *partitions* again."""
        self._chosen.update((each.partition, each.generation) for each in partitions)

    def note_start(self, owned: OwnedPartition, offset: int) -> None:
        """Remember that reading of *owned* begins at *offset*, which was looked up in the log."""
        before = self._known.get(owned.partition)
        self.note(owned, offset, read=before is not None and before.read)

    def go_back(self, owned: OwnedPartition, offset: int) -> None:
        """Set the position of *owned* back to *offset*, because its messages will be handed out again from
        there on.

        The position does not change if the partition has been assigned again since their first hand-out.
        """
        before = self._known.get(owned.partition)
        if before is None or before.generation <= owned.generation:
            self.note(owned, offset)
        if self._unfinished is not None:
            self._unfinished.add(owned.partition)

    def forget(self, partition: TopicPartition) -> None:
        """Forget the position of *partition*, so that it is not committed."""
        self._known.pop(partition, None)
        self.leader_epochs.forget(partition)

    def all(self) -> dict[TopicPartition, Position]:
        """Return a copy of all positions."""
        return dict(self._known)
