"""The message or batch that a loop has in hand, and its bytes, so that it can be handed out again."""

from collections.abc import Mapping
from typing import TypeAlias

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from pyklient.consumer.stream.messages_or_columns import AnyChunk
from pyklient.topic_partition import TopicPartition

__all__ = ["InHand", "Starts"]

Starts: TypeAlias = Mapping[TopicPartition, tuple[Cursor, int]]
"""The points at which some messages begin: for each of their partitions, its cursor and the offset of the
first of these messages."""


class InHand:
    """The message or batch that a loop has in hand. The stream's lock must be held to use it.

    It keeps copies of the fetched batches that contain the message or batch, as they were before decoding.
    The bytes stay in memory until the loop asks for the next message or batch.
    """

    def __init__(self) -> None:
        self.done = 0
        """The number of messages of the current chunk that the loop has got before the message in hand."""
        self.batch: dict[TopicPartition, tuple[Cursor, int]] = {}
        """The offset at which the batch in hand begins in each partition. Empty if the loop has got a single
        message."""
        self.undecodable: tuple[FetchedBatches, int] | None = None
        """The message at which a decoder raised an exception: the fetched batches that contain it, and its
        offset."""
        self._parts: list[tuple[FetchedBatches, FetchedBatches]] = []
        self._paused: set[TopicPartition] = set()

    def note_fetched(self, fetched: FetchedBatches, before: FetchedBatches) -> None:
        """Remember that messages have been decoded from *fetched*. *before* is a copy made before the
        decoding."""
        if not self._parts or self._parts[-1][0] is not fetched:
            self._parts.append((fetched, before))

    def note_batch(self, cursor: Cursor, offset: int) -> None:
        """Remember that the batch in hand begins at *offset* in the partition of *cursor*, unless an earlier
        offset is recorded already."""
        self.batch.setdefault(cursor.partition, (cursor, offset))

    def unread(self, fetched: FetchedBatches, offset: int) -> FetchedBatches:
        """Return a copy of *fetched* from which its messages from *offset* on can be decoded again."""
        unread = next((before for each, before in self._parts if each is fetched), fetched).copy()
        unread.start = max(unread.start, offset)
        return unread

    def note_paused(self, partition: TopicPartition) -> None:
        """Remember that *partition* is paused, and drop the copies of its fetched batches."""
        self._paused.add(partition)
        self._parts = [each for each in self._parts if each[0].cursor.partition != partition]

    def must_be_fetched_again(self, partition: TopicPartition) -> bool:
        """Return True if *partition* was paused while its messages were in hand. The copies of their fetched
        batches were dropped then."""
        return partition in self._paused

    def leave_out(self, partition: TopicPartition) -> None:
        """Forget the messages of *partition*, so that they are not handed out again."""
        self.batch.pop(partition, None)
        self._parts = [each for each in self._parts if each[0].cursor.partition != partition]
        if self.undecodable is not None and self.undecodable[0].cursor.partition == partition:
            self.undecodable = None

    def finish(self, chunk: AnyChunk | None, source: FetchedBatches | None) -> None:
        """Remember that no message is in hand any more. The next message may come from *chunk*, which was
        decoded from *source*."""
        fetched = None if chunk is None else source
        self.done = 0 if chunk is None else chunk.handed
        self.batch.clear()
        self._paused.clear()
        self.undecodable = None
        self._parts = [each for each in self._parts if each[0] is fetched]

    def first(self, chunk: AnyChunk, position: int) -> int:
        """Return the offset of the message of *chunk* that is in hand. If a loop has asked for a message and
        has not got it yet, return *position*, the position of the chunk."""
        return position if chunk.handed == self.done else chunk.last_handed

    def stays(self, source: FetchedBatches | None) -> bool:
        """Return True if the client still owns all partitions of the messages in hand.

        If a single message is in hand, *source* contains it.
        """
        cursors = [cursor for cursor, _ in self.batch.values()]
        if source is not None:
            cursors.append(source.cursor)
        return bool(cursors) and all(cursor.owned.active for cursor in cursors)

    def starts(self, chunk: AnyChunk | None, source: FetchedBatches | None) -> Starts:
        """Return the cursors and offsets at which the messages in hand begin.

        A single message in hand comes from *chunk*, which was decoded from *source*.
        """
        if self.batch or chunk is None or source is None or not chunk.handed:
            return dict(self.batch)
        return {source.cursor.partition: (source.cursor, self.first(chunk, chunk.position))}

    def fetched_again(self, starts: Starts) -> list[tuple[FetchedBatches, FetchedBatches]]:
        """Return pairs: fetched batches of a partition in *starts*, and a copy of them that begins at the
        partition's offset in *starts*.

        The pairs are in the order in which the batches were fetched. Revoked partitions are left out.
        """
        found: list[tuple[FetchedBatches, FetchedBatches]] = []
        for fetched, before in self._parts:
            cursor, offset = starts.get(fetched.cursor.partition, (None, 0))
            if cursor is fetched.cursor and cursor.active:
                before.start = max(before.start, offset)
                found.append((fetched, before))
        return found
