"""The message or batch in hand, and its bytes, so that it can be handed out again without a new fetch."""

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from pyklient.consumer.stream.consumed_positions import Starts
from pyklient.consumer.stream.messages_or_columns import AnyChunk
from pyklient.topic_partition import TopicPartition

__all__ = ["InHand"]


class InHand:
    """The message or batch in hand. Used under the stream's lock.

    It keeps copies of the fetched batches that hold these messages, as they were before decoding. Their bytes
    stay in memory until the next message or batch is asked for.
    """

    def __init__(self) -> None:
        self.batch: dict[TopicPartition, tuple[Cursor, int]] = {}
        """The offset at which the batch in hand begins in each partition; empty for a message."""
        self.undecodable: tuple[FetchedBatches, int] | None = None
        """The fetched batches and the offset of the message at which a decoder raised an exception."""
        self._parts: list[tuple[FetchedBatches, FetchedBatches]] = []

    def note_fetched(self, fetched: FetchedBatches, before: FetchedBatches) -> None:
        """Record that messages have been decoded from *fetched*. *before* is a copy of it from before the
        decoding."""
        if not self._parts or self._parts[-1][0] is not fetched:
            self._parts.append((fetched, before))

    def note_batch(self, cursor: Cursor, offset: int) -> None:
        """Record that the batch in hand begins at *offset* in its partition, unless it began before that
        offset."""
        self.batch.setdefault(cursor.partition, (cursor, offset))

    def finish(self, fetched: FetchedBatches | None) -> None:
        """Record that nothing is in hand any more. The next message may come from *fetched*."""
        self.batch.clear()
        self.undecodable = None
        self._parts = [each for each in self._parts if each[0] is fetched]

    def stays(self, source: FetchedBatches | None) -> bool:
        """Return True if the client still owns all partitions of what is in hand. Messages come from
        *source*."""
        cursors = [cursor for cursor, _ in self.batch.values()]
        if source is not None:
            cursors.append(source.cursor)
        return bool(cursors) and all(cursor.owned.active for cursor in cursors)

    def starts(self, chunk: AnyChunk | None, source: FetchedBatches | None) -> Starts:
        """Return the cursors and offsets at which what is in hand begins. Messages come from *chunk*, which
        was decoded from *source*."""
        if self.batch or chunk is None or source is None or not chunk.handed:
            return dict(self.batch)
        return {source.cursor.partition: (source.cursor, chunk.last_handed)}

    def fetched_again(self, starts: Starts) -> list[tuple[FetchedBatches, FetchedBatches]]:
        """Return the fetched batches of the partitions in *starts*, in order, each with a copy that begins at
        the offset in *starts*.

        Revoked partitions are left out. The bytes count as queued again; only the copies keep them in memory.
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
