"""Counts the messages that a stream has handed out, chunk by chunk."""

import time

from pyklient.consumer.fetch.fetch_position import FetchedBatches
from pyklient.consumer.stream.messages_or_columns import AnyChunk

__all__ = ["HandedCounts"]


class HandedCounts:
    """Counts the messages that were handed out of a stream's current chunk. The stream's lock must be held to
    use it."""

    def __init__(self) -> None:
        self._counted = 0
        """The number of messages of the chunk that are counted as handed out."""
        self._counted_at = 0.0
        self._uncounted_bytes = 0

    def begin(self, size: int) -> None:
        """Begin to count a new chunk, which was decoded from *size* bytes."""
        self._counted, self._counted_at, self._uncounted_bytes = 0, time.monotonic(), size

    def go_on(self) -> None:
        """Begin to count a chunk that replaces the last one. It has the remaining messages of that chunk, as
        Arrow columns instead of messages, or the other way round."""
        self._counted = 0

    def count(self, chunk: AnyChunk | None, source: FetchedBatches | None) -> None:
        """Count the messages of *chunk*, decoded from *source*, that were handed out since the last call."""
        if chunk is None or source is None:
            return
        now, handed = time.monotonic(), chunk.handed
        source.cursor.counts.consumed.add_evenly(
            handed - self._counted, self._uncounted_bytes, self._counted_at, now
        )
        self._counted, self._counted_at, self._uncounted_bytes = handed, now, 0
