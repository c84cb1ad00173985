"""What a loop has in hand, and where it came from, so that it can be handed out again without a new fetch."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from pyklient.consumer.stream.decoding import AnyChunk
from pyklient.topic_partition import TopicPartition

__all__ = ["Handed", "InHand", "Starts"]

Starts: TypeAlias = Mapping[TopicPartition, tuple[Cursor, int]]
"""For each partition its cursor and an offset."""


class Handed(NamedTuple):
    """The next offset of a partition after what has been handed out, and the generation it was read under."""

    offset: int
    generation: int
    read: bool = True
    """False for a start that was looked up, until something is handed out behind it."""


class InHand:
    """The message or batch in hand. Used under the stream's lock.

    It keeps copies of the parts that hold these messages, as they stood before they were decoded, and so
    their bytes in memory for that long.
    """

    def __init__(self) -> None:
        self.batch: dict[TopicPartition, tuple[Cursor, int]] = {}
        """Where the batch in hand begins in each partition; empty for a message."""
        self.undecodable: tuple[FetchedBatches, int] | None = None
        """The batches and the offset of the message for which a decoder raised."""
        self._parts: list[tuple[FetchedBatches, FetchedBatches]] = []

    def note_fetched(self, fetched: FetchedBatches, before: FetchedBatches) -> None:
        """Messages have been decoded from *fetched*; *before* is a copy from the time before that."""
        if not self._parts or self._parts[-1][0] is not fetched:
            self._parts.append((fetched, before))

    def note_batch(self, cursor: Cursor, offset: int) -> None:
        """The batch to be handed out begins there in its partition, unless it began before."""
        self.batch.setdefault(cursor.partition, (cursor, offset))

    def settle(self, fetched: FetchedBatches | None) -> None:
        """Nothing is in hand any more; the next message comes from *fetched*, if that is not None."""
        self.batch.clear()
        self.undecodable = None
        self._parts = [each for each in self._parts if each[0] is fetched]

    def starts(self, chunk: AnyChunk | None, source: FetchedBatches | None) -> Starts:
        """Where what is in hand begins. *chunk*, from the batches *source*, is what hands out messages."""
        if self.batch or chunk is None or source is None or not chunk.handed:
            return dict(self.batch)
        return {source.cursor.partition: (source.cursor, chunk.last_handed)}

    def fetched_again(self, starts: Starts) -> list[tuple[FetchedBatches, FetchedBatches]]:
        """The parts of the partitions in *starts*, in order, each with one that goes on from there.

        Those of partitions that were taken away are left out. The bytes count as waiting again; the first of
        each two lets go of them.
        """
        found: list[tuple[FetchedBatches, FetchedBatches]] = []
        for fetched, before in self._parts:
            cursor, offset = starts.get(fetched.cursor.partition, (None, 0))
            if cursor is fetched.cursor and cursor.active:
                before.start = max(before.start, offset)
                cursor.taken -= fetched.at - before.at
                fetched.buffer = memoryview(b"")
                found.append((fetched, before))
        return found
