"""The positions of a stream's partitions, which tell how far each partition has been handed out."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.read_epochs import UNKNOWN_EPOCH, ReadEpochs
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
    """The text to commit with the offset. None if the text does not matter."""
    chosen: bool = False
    """True if the program has called ``seek`` or ``redeliver`` since the partition was assigned, so that an
    offset is committed even if it is before the committed offset."""
    leader_epoch: int = UNKNOWN_EPOCH
    """The leader epoch of the last record before the offset (KIP-320), if it is known."""
    after_message: int | None = None
    """The offset after the last message that was handed out, if records between it and ``offset`` were
    skipped, such as control records. Otherwise None."""


class Positions:
    """The position of each partition of a stream. Messages of the current chunk that were handed out do not
    count yet.

    The stream's lock must be held.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, Position] = {}
        self._chosen: dict[TopicPartition, int] = {}
        """The generation in which the program has called ``seek`` or ``redeliver`` last."""
        self._unfinished: set[TopicPartition] | None = None
        self.leader_epochs = ReadEpochs()

    @property
    def finished(self) -> bool:
        """True if the stream is bounded and every partition has been handed out up to its end."""
        return self._unfinished is not None and not self._unfinished

    def end_with(self, partitions: Collection[TopicPartition]) -> None:
        """Finish the stream when all of *partitions* have been handed out up to their ends."""
        self._unfinished = set(partitions)

    def note(self, cursor: Cursor, offset: int, *, read: bool = True) -> None:
        """Record that the messages of *cursor* before *offset* have been handed out."""
        self._known[cursor.partition] = self.at(cursor, offset, read=read)
        if self._unfinished is not None and cursor.end is not None and offset >= cursor.end:
            self._unfinished.discard(cursor.partition)

    def at(self, cursor: Cursor, offset: int, *, read: bool = True) -> Position:
        """Return *offset* as a position of *cursor*, which is at most the end of a bounded read."""
        if cursor.end is not None:
            offset = min(offset, cursor.end)  # its last batch may contain records after the end
        generation = cursor.owned.generation
        chosen = self._chosen.get(cursor.partition) == generation
        leader_epoch = self.leader_epochs.before(cursor.partition, offset)
        return Position(offset, generation, read, chosen=chosen, leader_epoch=leader_epoch)

    def note_left(self, cursor: Cursor, after_message: int | None, offset: int) -> None:
        """Record that no message of *cursor* is left before *offset*. The last message that was handed out
        ends at *after_message*; None if no message was handed out since the last call."""
        before = self._known.get(cursor.partition)
        if after_message is None and before is not None:
            after_message = before.offset if before.after_message is None else before.after_message
        self.note(cursor, offset)
        if after_message != offset:
            position = self._known[cursor.partition]
            self._known[cursor.partition] = position._replace(after_message=after_message)

    def seek(self, cursor: Cursor, offset: int) -> None:
        """Record that the program has called ``seek``, so that *cursor* continues at *offset*."""
        self._chosen[cursor.partition] = cursor.owned.generation
        self.note(cursor, offset)

    def repeat(self, starts: "Starts") -> "Starts":
        """Record that ``redeliver`` hands out the messages from *starts* on again. Return *starts*."""
        self._chosen.update((each, cursor.owned.generation) for each, (cursor, _) in starts.items())
        return starts

    def note_start(self, cursor: Cursor, offset: int) -> None:
        """Record that *cursor* continues at *offset*, which was looked up."""
        before = self._known.get(cursor.partition)
        self.note(cursor, offset, read=before is not None and before.read)

    def go_back(self, cursor: Cursor, offset: int) -> None:
        """Record that messages of *cursor* are handed out again from *offset* on.

        The position does not change if the partition has been assigned again since then.
        """
        before = self._known.get(cursor.partition)
        if before is None or before.generation <= cursor.owned.generation:
            self.note(cursor, offset)
        if self._unfinished is not None:
            self._unfinished.add(cursor.partition)

    def forget(self, partition: TopicPartition) -> None:
        """Forget the position of *partition*, so that it is not committed."""
        self._known.pop(partition, None)
        self.leader_epochs.forget(partition)

    def all(self) -> dict[TopicPartition, Position]:
        """Return a copy of all positions."""
        return dict(self._known)


Starts = Mapping[TopicPartition, tuple[Cursor, int]]
"""The offset at which messages of each partition begin, with the partition's cursor."""
