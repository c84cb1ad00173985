"""Handles records that cannot be read: the loop raises an error, or skips the records (``on_corrupt``)."""

import logging
from collections.abc import Callable

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches, FetchFailure, Item
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.consumer.stream.message_in_hand import InHand
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.corrupt_records import CorruptRecords
from pyklient.errors import CorruptRecordError, KafkaError, MessageTooLargeError, UnsupportedCodecError
from pyklient.log_events import log_fields
from pyklient.metrics.consumer_counts import CorruptCounts
from pyklient.protocol.records.batch_header import batch_end
from pyklient.protocol.records.damaged_batch import damaged_offsets
from pyklient.topic_partition import TopicPartition

__all__ = ["DecodingFailures"]

log = logging.getLogger("pyklient.consumer")


class DecodingFailures:
    """Prepares the next step of a loop over *queue* after it has met records that cannot be read. *restart*
    drops the queued batches of a cursor's partition, and reads the partition again from an offset.

    Bytes may have been damaged on their way from the broker. So a batch is skipped only if it was fetched
    twice and could not be read either time.
    """

    def __init__(
        self,
        queue: FetchQueue,
        decoding: Decoding,
        in_hand: InHand,
        restart: Callable[[Cursor, int | None], None],
    ) -> None:
        self._queue = queue
        self._decoding = decoding
        self._in_hand = in_hand
        self._restart = restart
        self._suspects: dict[TopicPartition, tuple[Cursor | None, int]] = {}
        """For each partition, the cursor that fetches unreadable records for the second time, and the offset
        of these records. If another cursor fetches them later, they are again fetched twice before they are
        skipped, because they may have been read meanwhile."""
        self._unbroken: dict[TopicPartition, tuple[Cursor | None, int]] = {}
        """For each partition in which only a single offset was skipped, because the end of the damaged batch
        is not known: the cursor that continues, and the offset at which it continues. Records there that
        cannot be read count as the same batch."""
        self._skipped: tuple[Cursor, int] | None = None
        """The last cursor whose skip was counted, and the offset after the skip. If Ctrl-C interrupts the
        skip before another cursor replaces this one, the same offsets are skipped again, but not counted
        again."""
        self._unlogged: list[tuple[CorruptRecords, int]] = []
        """The damaged records that were skipped and not logged yet, each with its log level. Ctrl-C can
        interrupt the loop between the skip and the log record."""

    def fetch_failed(self, failure: FetchFailure) -> None:
        """Raise the error of *failure*, and let the next loop fetch the records again. However, if
        ``on_corrupt`` is set and the error is a CorruptRecordError, skip an offset or fetch the records
        again, and return."""
        cursor, position = failure.cursor, failure.position
        if isinstance(failure.error, CorruptRecordError) and position is not None and self._skips:
            self._skip_or_fetch_again(failure, cursor, position, None, failure.error)
            return
        self._restart(cursor, position)
        raise failure.error

    def decode(self, fetched: FetchedBatches, decode: Callable[[], None]) -> None:
        """Call *decode*, which decodes the next records of *fetched*. Raise its error, or return if the loop
        continues without these records."""
        if self._unlogged:
            self._log_skips()
        try:
            decode()
        except Exception as error:
            if fetched is not self._queue.source:
                return  # another thread has paused the partition, or continues it at another offset
            failure = self._pass_over(fetched, error)
            if failure is None:
                return
            try:
                raise failure from None
            finally:
                del failure  # its traceback refers to this frame; so a stream that is dropped can be freed

    def _pass_over(self, fetched: FetchedBatches, error: Exception) -> Exception | None:
        """Return the error that the loop raises after *error* has prevented decoding of *fetched*. Return
        None if the loop does not raise an error, because the damaged batch is skipped or fetched again.

        After damaged bytes, the next loop begins with the same bytes, which are fetched again. After an
        exception of a decoder, the next loop begins after the message that could not be decoded.
        """
        if isinstance(error, CorruptRecordError | UnsupportedCodecError | MessageTooLargeError):
            cursor = fetched.cursor
            found = type(error)(f"{cursor.partition} at offset {fetched.start}: {error}")
            if self._skips and not isinstance(error, UnsupportedCodecError):
                end = cursor.counts.readable_to
                offsets = damaged_offsets(fetched.buffer, fetched.at, fetched.start, end)
                if offsets == (fetched.start, fetched.start):
                    self._pass_by(fetched)
                else:
                    self._skip_or_fetch_again(fetched, cursor, fetched.start, offsets, found)
                return None
            self._fetch_again(fetched, cursor, fetched.start)
            return found
        offset = self._decoding.next_offset(fetched)
        self._in_hand.undecodable = fetched, offset
        fetched.start = offset + 1
        return error

    @property
    def _skips(self) -> bool:
        return self._decoding.on_corrupt is not None

    def _fetch_again(self, item: Item, cursor: Cursor, position: int) -> None:
        self._restart(cursor, position)
        if self._queue.source is item:
            self._queue.source = None

    def _skip_or_fetch_again(
        self, item: Item, cursor: Cursor, position: int, offsets: tuple[int, int] | None, error: KafkaError
    ) -> None:
        """Skip *offsets*, the offsets of the damaged batch at *position*. This batch is the first of *item*.
        If this batch was fetched only once so far, fetch it again instead.

        If *offsets* is None, the end of the batch is not known. In that case, skip only one offset, because
        the next offset may belong to an intact batch. If the program's function ``on_corrupt`` raises an
        exception, raise it; the next loop then fetches the batch again.
        """
        goes_on = offsets is None and self._unbroken.get(cursor.partition) == (cursor, position)
        if not goes_on and self._suspects.get(cursor.partition) != (cursor, position):
            self._fetch_suspect_again(item, cursor, position)
            return
        corrupt = CorruptRecords(*cursor.partition, *(offsets or (position, position + 1)), error)
        try:
            if self._decoding.on_corrupt is not None:
                self._decoding.on_corrupt(corrupt)
        except BaseException:
            self._fetch_suspect_again(item, cursor, position)
            raise
        counts = CorruptCounts(0 if goes_on else 1, corrupt.next_offset - corrupt.first_offset)
        if self._skip(item, cursor, corrupt, counts):
            if offsets is None:
                self._unbroken[cursor.partition] = self._newest(cursor), corrupt.next_offset
            self._log_skips()

    def _fetch_suspect_again(self, item: Item, cursor: Cursor, position: int) -> None:
        """Fetch the records at *position* again. If they cannot be read the second time, they are skipped."""
        self._fetch_again(item, cursor, position)
        self._suspects[cursor.partition] = self._newest(cursor), position

    def _newest(self, cursor: Cursor) -> Cursor | None:
        """Return the cursor that reads the partition of *cursor* now, or None if no cursor reads it."""
        return self._queue.cursors.get(cursor.partition)

    def _skip(self, item: Item, cursor: Cursor, corrupt: CorruptRecords, counts: CorruptCounts) -> bool:
        """Continue after the offsets of *corrupt*, and add *counts* to the cursor's counts. Return False if
        the partition was revoked, paused or moved to another offset while ``on_corrupt`` ran."""
        queue, to = self._queue, corrupt.next_offset
        level = logging.WARNING if counts.batches else logging.DEBUG
        with queue.lock:
            if not cursor.active or queue.next() is not item:
                return False
            # First, so that Ctrl-C in the steps below cannot skip records that are not counted or logged.
            queue.positions.note(cursor.owned, to)
            if self._skipped != (cursor, to):
                total, unlogged = cursor.counts.corrupt.plus(counts), [*self._unlogged, (corrupt, level)]
                # One line, so that Ctrl-C cannot separate them.
                cursor.counts.corrupt, self._unlogged, self._skipped = total, unlogged, (cursor, to)
            if cursor.end is None or to < cursor.end:
                self._fetch_again(item, cursor, to)
            else:
                queue.replace(cursor, cursor.end)  # everything up to the end has been fetched
            self._suspects.pop(cursor.partition, None)
            self._unbroken.pop(cursor.partition, None)
            return True

    def _pass_by(self, fetched: FetchedBatches) -> None:
        """Leave out the next batch of *fetched*, unless another thread has moved or paused the partition. All
        records of the batch come before the position. The broker has sent the batch only because its damaged
        header names later offsets."""
        with self._queue.lock:
            if fetched is self._queue.source:
                cursor, end = fetched.cursor, batch_end(fetched.buffer, fetched.at)
                # One line, so that Ctrl-C cannot separate the two: no byte is counted twice.
                fetched.at, cursor.taken = end, cursor.taken + end - fetched.at
                cursor.wake_fetcher()

    def _log_skips(self) -> None:
        while self._unlogged:
            _log_skipped(*self._unlogged[0])
            self._unlogged = self._unlogged[1:]


def _log_skipped(corrupt: CorruptRecords, level: int) -> None:
    log.log(
        level,
        "the offsets %d to %d of %s-%d are skipped (on_corrupt), because they cannot be read: %s",
        corrupt.first_offset,
        corrupt.next_offset - 1,
        corrupt.topic,
        corrupt.partition,
        corrupt.error,
        extra=log_fields(
            "corrupt_records_skipped",
            topic=corrupt.topic,
            partition=corrupt.partition,
            offset=corrupt.first_offset,
            next=corrupt.next_offset,
            error=str(corrupt.error),
        ),
    )
