"""The positions of a stream's partitions: how far each has been handed out."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.topic_partition import TopicPartition

__all__ = ["Position", "Positions"]


class Position(NamedTuple):
    """The next offset of a partition after what has been handed out, and the generation it was read under."""

    offset: int
    generation: int
    read: bool = True
    """False for a start that was looked up, until something is handed out behind it."""


class Positions:
    """The position of each partition, as of the last chunk that was read to its end. Used under the stream's
    lock."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, Position] = {}
        self._unfinished: set[TopicPartition] | None = None

    @property
    def finished(self) -> bool:
        """True if the stream is bounded and every partition has been handed out up to its end."""
        return self._unfinished is not None and not self._unfinished

    def end_with(self, partitions: Collection[TopicPartition]) -> None:
        """Be finished once each of *partitions* has been handed out up to its end."""
        self._unfinished = set(partitions)

    def note(self, cursor: Cursor, offset: int, *, read: bool = True) -> None:
        """Note that *cursor* has been handed out up to *offset*."""
        self._known[cursor.partition] = Position(offset, cursor.owned.generation, read)
        if self._unfinished is not None and cursor.end is not None and offset >= cursor.end:
            self._unfinished.discard(cursor.partition)

    def note_start(self, cursor: Cursor, offset: int) -> None:
        """Note that *cursor* goes on at *offset*, which was looked up."""
        before = self._known.get(cursor.partition)
        self.note(cursor, offset, read=before is not None and before.read)

    def go_back(self, cursor: Cursor, offset: int) -> None:
        """Note that *cursor* is handed out again from *offset* on, unless it has been assigned anew since."""
        before = self._known.get(cursor.partition)
        if before is None or before.generation <= cursor.owned.generation:
            self.note(cursor, offset)
        if self._unfinished is not None:
            self._unfinished.add(cursor.partition)

    def forget(self, partition: TopicPartition) -> None:
        """Have nothing to commit of *partition*."""
        self._known.pop(partition, None)

    def all(self) -> dict[TopicPartition, Position]:
        """Return a copy of all positions."""
        return dict(self._known)


Starts = Mapping[TopicPartition, tuple[Cursor, int]]
"""The cursor of each partition, and an offset."""
