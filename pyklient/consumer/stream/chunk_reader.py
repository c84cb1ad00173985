"""Reads the queue of one stream: it decodes fetched batches into chunks, and counts the messages that are
handed out.

Ctrl-C may raise KeyboardInterrupt between any two steps of a loop in the main thread, and a new loop must be
able to continue. So a step stores the new state before it drops the old state, and the next loop repeats an
interrupted step. An interrupt in the code of ``threading.Condition`` can leave its lock held. So this module
acquires the stream's lock directly, and a loop that waits for messages waits for a separate lock, ``_bell``.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches, FetchFailure
from pyklient.consumer.fetch.fetch_queue import NO_BYTES, FetchQueue
from pyklient.consumer.stream.decoding_failures import DecodingFailures
from pyklient.consumer.stream.handed_counts import HandedCounts
from pyklient.consumer.stream.message_in_hand import InHand, Starts
from pyklient.consumer.stream.messages_or_columns import AnyChunk, Decoding, Form
from pyklient.kernel import Chunk, Lease, Message
from pyklient.kernel.decode.column_decoding import ColumnChunk
from pyklient.topic_partition import TopicPartition

__all__ = ["ChunkReader", "Restart"]

_C = TypeVar("_C", Chunk, ColumnChunk)
Restart: TypeAlias = Callable[[FetchQueue, Cursor, int | None], None]


class ChunkReader:
    """Decodes fetched batches into the chunk from which a loop gets messages.

    One loop at a time uses a ChunkReader, which shares the lock of *queue*. *restart* drops the queued
    batches of a cursor's partition, and reads the partition again from an offset. After *lease* has ended,
    loops wait until it is extended.
    """

    def __init__(self, queue: FetchQueue, decoding: Decoding, restart: Restart, lease: Lease) -> None:
        self.asks = 0
        """The number of times that loops have asked for messages."""
        self.busy = False
        """True while a loop has a message or batch in hand: it has not asked for the next one yet."""
        self.chunk: AnyChunk | None = None
        self._queue = queue
        self._lock = queue.lock
        self._positions = queue.positions
        self._decoding = decoding
        self._restart = partial(_restart, queue, restart)
        self.in_hand = InHand()
        self._failures = DecodingFailures(queue, decoding, self.in_hand, self._restart)
        self._lease = lease
        self._stopped = False
        """True if the chunk was stopped before all of its messages were handed out: its partition is revoked
        or being paused, or the stream has ended."""
        self._counts = HandedCounts()

    def next(self, timeout: float | None, form: Form[_C]) -> _C | None:
        """Return the chunk from which a loop gets its next records. *form* says whether they are messages or
        columns. Return None at the end of the stream.

        Raises ConsumerTimeout if no message arrives in *timeout* seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._finish()
        self._queue.await_lease(self._lease, deadline, timeout)
        # A chunk that is revoked from here on is handed out all the same, but stopped.
        while (chunk := self.chunk) is None or not form.made(chunk):
            if chunk is not None:
                self._remake(chunk, form)
                continue
            item = self._queue.wait(deadline, timeout)
            if item is None:
                return None
            if isinstance(item, FetchFailure):
                self._failures.fetch_failed(item)
            else:
                self._failures.decode(item, partial(self._open, item, form))
        self.busy = True
        return chunk

    def _finish(self) -> None:
        """Remember that a loop asks for the next message, so that no message is in hand any more."""
        with self._lock:
            self.busy = False
            chunk, source = self.chunk, self._queue.source
            if source is None or source.cursor.dropped or (chunk is not None and not chunk.remaining):
                self._leave_chunk()
            self.in_hand.finish(self.chunk, self._queue.source)
            self.asks += 1
            self._queue.asked.notify_all()

    def _remake(self, chunk: AnyChunk, form: Form[_C]) -> None:
        """Convert *chunk* to *form* (messages or columns). A loop has read a part of it in another form. If
        *chunk* lacks columns, drop it, so that its remaining records are decoded again."""
        remade = form.remade(chunk)
        with self._lock:
            if self.chunk is chunk and remade is None:
                self.stop()
            if self.chunk is chunk and not chunk.remaining:
                self._leave_chunk()
            if self.chunk is not chunk or remade is None:
                self.in_hand.finish(self.chunk, self._queue.source)
                return
            if chunk.handed and self._queue.source is not None:
                self._positions.note(self._queue.source.cursor.owned, chunk.position)
            self.count_handed()
            self.chunk, self.in_hand.done = remade, 0
            self._counts.go_on()
            chunk.stop()  # for a loop that still holds it

    def _leave_chunk(self) -> None:
        """Drop the chunk, because it can hand out no more messages. The stream's lock must be held."""
        chunk, source = self.chunk, self._queue.source
        if chunk is None or source is None or source.cursor.dropped:
            self.chunk = None  # Ctrl-C interrupted a call of pause or seek that had replaced the source
            return
        self.count_handed()
        if self._stopped and source.cursor.active and not self._queue.ended:
            # Ctrl-C interrupted a call of pause: what the chunk did not hand out is decoded again.
            unread = self.in_hand.unread(source, chunk.position)
            if chunk.handed:
                self._positions.note(source.cursor.owned, chunk.position)
            self.chunk, self._queue.source = None, unread
            source.cursor.taken -= source.at - unread.at
            return
        # The position moves past what is skipped after the last message, if all batches have been read.
        at_end = not source.size and not self._stopped
        next_offset = source.next_offset if at_end else chunk.position
        self._positions.note_left(source.cursor.owned, chunk.position if chunk.handed else None, next_offset)
        self.chunk = None
        if at_end or self._stopped:
            self._queue.source = None

    def _open(self, fetched: FetchedBatches, form: Form[_C]) -> None:
        """Decode the next records of *fetched* into a new chunk of messages or columns, as *form* says. Drop
        them if the partition was revoked meanwhile."""
        before = fetched.copy()
        chunk = form.chunk(fetched)
        used = chunk.nbytes if (has_messages := chunk.remaining > 0) or chunk.nbytes else fetched.size
        with self._lock:
            if fetched is not self._queue.source:
                return  # another thread has paused the partition, or continues it at another offset
            fetched.cursor.note_decoded(used)
            if fetched.cursor.active:
                epochs = self._positions.leader_epochs
                epochs.note(fetched.cursor.partition, before.start, chunk.next_offset, fetched.leader_epoch)
                if has_messages:
                    self.in_hand.note_fetched(fetched, before)
                self.chunk, self._stopped, self.in_hand.done = chunk, False, 0
                self._counts.begin(used)
            fetched.at += used
            fetched.start = chunk.next_offset
            if not fetched.size:
                fetched.buffer = NO_BYTES  # "at" stays: a fetcher may be copying the buffer this very moment
            if self.chunk is chunk and not has_messages:
                self._leave_chunk()

    def gather(self, chunk: AnyChunk | None, max_records: int) -> list[Message]:
        """Return up to *max_records* messages from *chunk* and from the batches queued after it.

        The list is empty if the lease has ended.
        """
        batch: list[Message] = []
        parts: list[tuple[Cursor, int]] = []
        """The cursors of the messages in the batch, each with the index of its first message."""
        while isinstance(chunk, Chunk):
            with self._lock:
                if self._queue.source is not None and chunk.remaining:
                    parts.append((self._queue.source.cursor, len(batch)))
                    self.in_hand.note_batch(self._queue.source.cursor, chunk.position)
                batch += chunk.hand_out(max_records - len(batch))
                if len(batch) >= max_records:
                    break
                self._leave_chunk()
                item = self._queue.next()
                if not isinstance(item, FetchedBatches):
                    break
            try:
                self._open(item, self._decoding)
            except Exception:
                break  # the messages before it are handed out first; the next batch meets the error again
            chunk = self.chunk
        if self._lease.ended():
            self.return_unread()
            return []
        return batch if all(not cursor.dropped for cursor, _ in parts) else _without_dropped(batch, parts)

    def note_columns(self, chunk: ColumnChunk, rows: int) -> bool:
        """Count the next *rows* rows of *chunk* as handed out. Return False if they may not be handed out,
        because the partition was revoked or the lease has ended meanwhile."""
        with self._lock:
            if self._queue.source is None or not chunk.remaining or self._lease.ended():
                return False
            self.in_hand.note_batch(self._queue.source.cursor, chunk.position)
            chunk.hand_out(rows)
            return True

    def redeliver(self) -> None:
        """Hand out the message or batch in hand again, or the message that could not be decoded.

        The stream's lock must be held.
        """
        if self.in_hand.undecodable is not None:
            fetched, offset = self.in_hand.undecodable
            fetched.start, self.in_hand.undecodable = offset, None
        elif self.busy:
            starts = self.in_hand.starts(self.chunk, self._queue.source)
            self._positions.repeat(cursor.owned for cursor, _ in starts.values())
            self._put_back(starts)

    def _put_back(self, starts: Starts) -> None:
        """Put the messages in hand, which begin at *starts*, back into the queue. The lock must be held."""
        if not starts:
            return
        for cursor, offset in starts.values():
            self._positions.go_back(cursor.owned, offset)
            if self.in_hand.must_be_fetched_again(cursor.partition):
                self._restart(cursor, offset)
        self.count_handed()
        chunk, source = self.chunk, self._queue.source
        if chunk is not None and source is not None:
            # An interruption may have left a chunk of which nothing has been handed out yet.
            starts = {source.cursor.partition: (source.cursor, chunk.position), **starts}
        parts = self.in_hand.fetched_again(starts)
        begun = [] if source is None or any(source is fetched for fetched, _ in parts) else [source]
        items = deque((*(before for _, before in parts), *begun, *self._queue.items))
        # One line, so that Ctrl-C cannot separate them: every message is in hand or queued, and none in both.
        self._queue.items, self.chunk, self._queue.source, self.busy = items, None, None, False
        if chunk is not None:
            chunk.stop()
        for fetched, before in parts:
            fetched.cursor.taken -= fetched.at - before.at
            fetched.buffer = NO_BYTES
        self.in_hand.finish(None, None)

    def seek(self, cursor: Cursor, offset: int) -> Position | None:
        """Continue *cursor* at *offset*. Return the position that it had before this call, or None if it had
        none. The caller must hold the lock of the stream."""
        self._restart(cursor, offset)
        before = self._positions.all().get(cursor.partition)
        if (source := self._queue.source) is not None and source.cursor.partition == cursor.partition:
            self.stop()
            before = self.handed(in_hand=True).get(cursor.partition)
            self.chunk = self._queue.source = None
        self.in_hand.leave_out(cursor.partition)
        self._positions.seek(cursor.owned, offset)
        return before

    def pause(self, cursor: Cursor) -> None:
        """Hand out no messages of *cursor* until its partition is resumed, and keep its fetched batches. The
        lock must be held."""
        source, chunk, begun = self._queue.source, self.chunk, None
        if source is not None and source.cursor is cursor:
            begun = source
            if chunk is not None:
                self.stop()
                begun = self.in_hand.unread(source, chunk.position)
                if chunk.handed:
                    if self.busy:
                        self.in_hand.note_batch(cursor, self.in_hand.first(chunk, chunk.position))
                    self._positions.note(cursor.owned, chunk.position)
        self._queue.set_aside(cursor.partition, begun)
        if source is not None and begun is not None and begun is not source:
            self.chunk = None
            cursor.taken -= source.at - begun.at
            source.buffer = NO_BYTES
        self.in_hand.note_paused(cursor.partition)

    def return_unread(self) -> None:
        """Put the last batch back: the loop does not get it, because of Ctrl-C or the end of the lease."""
        with self._lock:
            self._put_back(dict(self.in_hand.batch))

    def stop_if_revoked(self) -> None:
        """Stop handing out the chunk if its partition is not owned any more. The lock must be held."""
        if self._queue.source is not None and not self._queue.source.cursor.active:
            self.stop()

    def stop(self) -> None:
        """Stop handing out messages of the chunk. The stream's lock must be held."""
        if self.chunk is not None:
            self._stopped = True  # first, so that no interrupted step takes its last message for the end
            self.chunk.stop()
            self.count_handed()
        else:
            self._queue.source = None

    def count_handed(self) -> None:
        """Count the messages of the chunk that were handed out since the last call. The stream's lock must be
        held."""
        self._counts.count(self.chunk, self._queue.source)

    def cut(self) -> None:
        """Hand out no more messages of the chunk in a forked child process: the stream belongs to the parent.

        No lock is taken, because a thread of the parent may have held it at the fork.
        """
        if (chunk := self.chunk) is not None:
            chunk.stop()

    def handed(self, *, in_hand: bool) -> dict[TopicPartition, Position]:
        """Return the position of each partition. Messages in hand count as read only if *in_hand* is true."""
        with self._lock:
            found = self._positions.all()
            chunk, source = self.chunk, self._queue.source
            if chunk is not None and source is not None and chunk.handed:
                position = chunk.position  # before "busy": a loop may get a message at any moment
                offset = self.in_hand.first(chunk, position) if self.busy and not in_hand else position
                found[source.cursor.partition] = self._positions.at(source.cursor.owned, offset)
            if not in_hand:
                for partition, (cursor, offset) in self.in_hand.batch.items():
                    found[partition] = self._positions.at(cursor.owned, offset)
        return found

    def forget(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Forget positions, so that they are never committed.

        *partitions* maps each partition to a generation. A position is forgotten if it was reached in this
        generation or an earlier one. Positions of later generations stay.
        """
        with self._lock:
            handed = self.handed(in_hand=True)
            for partition, generation in partitions.items():
                if partition in handed and handed[partition].generation <= generation:
                    self._positions.forget(partition)
                    self.in_hand.batch.pop(partition, None)
            source = self._queue.source
            if source is not None and not source.cursor.active and source.cursor.partition in partitions:
                self.chunk = self._queue.source = None


def _restart(queue: FetchQueue, restart: Restart, cursor: Cursor, position: int | None) -> None:
    """Call *restart* with the other arguments, to fetch the partition of *cursor* again from *position* on.
    If Ctrl-C interrupts the call, complete the call before KeyboardInterrupt is raised."""
    with queue.lock:
        if cursor.dropped:
            return
        try:
            restart(queue, cursor, position)
        except BaseException:
            # The new cursor may not have been given to the leader lookup yet.
            newest = queue.cursors.get(cursor.partition)
            if cursor.dropped and newest is not None:
                restart(queue, newest, position)
            raise


def _without_dropped(batch: list[Message], parts: list[tuple[Cursor, int]]) -> list[Message]:
    """Return *batch* without the messages of dropped cursors. A cursor is dropped when another thread
    seeks in its partition. *parts* has the index of the first message of each cursor."""
    ends = [*(start for _, start in parts[1:]), len(batch)]
    kept = [batch[start:end] for (cursor, start), end in zip(parts, ends, strict=True) if not cursor.dropped]
    return [message for part in kept for message in part]
