"""The part of a stream that threads refer to: loops read from it, and the threads of the fetchers and of the
membership use it.

Fetchers queue undecoded batches. A loop decodes some batches at a time and hands out messages straight from
the kernel's chunk, so that no Python frame runs per message. The position is not stored per message either,
because the chunk knows how many of its messages were handed out. The stream's lock guards the queue and the
chunk, and is never held while decoding.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING

from pyklient import argument_checks
from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.consumer.stream.active_loop import ActiveLoop, Loop
from pyklient.consumer.stream.chunk_reader import ChunkReader, Restart
from pyklient.consumer.stream.messages_or_columns import ColumnDecoding, Decoding
from pyklient.consumer.topic_filters.topic_filter import TopicFilter
from pyklient.errors import (
    ConfigurationError,
    ConsumerTimeout,
)
from pyklient.kernel import Chunk, Lease, LeasedIterator, Message
from pyklient.kernel.decode.column_decoding import OPTIONAL_COLUMNS
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pyklient.consumer.stream.arrow_batches import Assembly

__all__ = ["StreamCore"]

_TICK = 1.0


class StreamCore:
    """A stream without the KafkaStream that the user holds. Threads refer only to the StreamCore.

    *topics* are the names of topics, or the filter that selects them. *restart* drops the queued batches of a
    cursor's partition, and reads the partition again from an offset. *lease* says until when messages may be
    handed out.
    """

    def __init__(
        self,
        topics: Sequence[str] | TopicFilter,
        decoding: Decoding,
        timeout: float | None,
        restart: Restart,
        lease: Lease,
    ) -> None:
        self.topic_filter = topics if isinstance(topics, TopicFilter) else None
        """The filter that selects the topics. None if the program has named the topics."""
        self.topics: tuple[str, ...] = () if isinstance(topics, TopicFilter) else tuple(topics)
        """The topics that the stream reads. If a filter selects them, only the topics of which the client has
        partitions now."""
        self.name = ", ".join(self.topics) if self.topic_filter is None else repr(self.topic_filter)
        self._decoding = decoding
        self._timeout = timeout
        self.queue = FetchQueue(self.name)
        self._lock = self.queue.lock
        self._reader = reader = ChunkReader(self.queue, decoding, restart, lease)
        self._active_loop = ActiveLoop(self._lock, self.queue.asked.notify_all, reader.cut, self._name)
        self._lease = lease
        self._seen = (0, 0)
        self._seen_at = time.monotonic()

    def __repr__(self) -> str:
        return f"<{self._name()}{', ended' if self.queue.ended else ''}>"

    def check_not_forked(self) -> None:
        """Raise ForkError in a child of the process that made the stream."""
        self._active_loop.check_not_forked()

    def _name(self) -> str:
        return f"KafkaStream of {self.name}"

    def __iter__(self) -> Iterator[Message]:
        return self.messages(self.chunks())

    def batches(self, max_records: int = 10_000, timeout: float | None = 1.0) -> Loop[list[Message]]:
        """Return a loop over lists of messages, as ``KafkaStream.batches`` describes it."""
        most = argument_checks.whole(max_records, "max_records", low=1)
        wait = None if timeout is None else argument_checks.seconds(timeout, "timeout")
        step = partial(self._batch, most, wait)
        return Loop(self._active_loop, step, moves=True, reader=self._reader)

    def arrow_batches(
        self,
        max_records: int = 100_000,
        timeout: float | None = 1.0,
        headers: bool = False,
        columns: Iterable[str] | None = None,
    ) -> "Loop[RecordBatch]":
        """Return a loop over Arrow record batches, as ``KafkaStream.arrow_batches`` describes it."""
        from pyklient.consumer.stream.arrow_batches import Assembly, column_names

        most = argument_checks.whole(max_records, "max_records", low=1)
        wait = None if timeout is None else argument_checks.seconds(timeout, "timeout")
        if self._decoding.key_decoder is not None or self._decoding.value_decoder is not None:
            raise ConfigurationError(
                "arrow_batches returns keys and values as bytes and calls no decoder: make the stream "
                "without decoders, and decode the columns in your program"
            )
        if self._decoding.shallow:
            raise ConfigurationError(
                "arrow_batches cannot be used with shallowiterator_enable, which leaves records compressed: "
                "iterate over the stream instead, or turn the option off"
            )
        assembly = Assembly(column_names(columns, headers=headers))
        left_out = frozenset[str]() if columns is None else OPTIONAL_COLUMNS.difference(assembly.schema.names)
        form = ColumnDecoding(most, self._decoding.check_crcs, self._decoding.max_decompressed, left_out)
        step = partial(self._record_batch, form, most, wait, assembly)
        return Loop(self._active_loop, step, moves=True, reader=self._reader)

    def chunks(self) -> Loop[Chunk]:
        """Return a loop over chunks of decoded messages, from which the user's iterator gets the messages."""
        return Loop(self._active_loop, partial(self._reader.next, self._timeout, self._decoding))

    def messages(self, chunks: Loop[Chunk]) -> Iterator[Message]:
        """Return an iterator over the messages of *chunks*. It hands out a message only if the lease has not
        ended."""
        return chain.from_iterable(map(LeasedIterator, chunks, repeat(self._lease)))

    def _batch(self, max_records: int, timeout: float | None) -> list[Message] | None:
        try:
            while True:
                chunk = self._reader.next(self._timeout if timeout is None else timeout, self._decoding)
                if chunk is None:
                    return None
                if batch := self._reader.gather(chunk, max_records):
                    return batch
        except ConsumerTimeout:
            if timeout is None:
                raise
            return []

    def _record_batch(
        self, form: ColumnDecoding, most: int, timeout: float | None, assembly: "Assembly"
    ) -> "RecordBatch | None":
        while True:
            try:
                chunk = self._reader.next(self._timeout if timeout is None else timeout, form)
            except ConsumerTimeout:
                if timeout is None:
                    raise
                return assembly.nothing
            if chunk is None:
                return None
            batch = assembly.batch(chunk, most)
            if self._reader.note_columns(chunk, batch.num_rows):
                return batch

    def check_not_read_elsewhere(self) -> None:
        """Raise StreamInUseError while a loop in another thread reads the stream."""
        with self._lock:
            self._active_loop.check_not_read_elsewhere()

    def redeliver(self) -> None:
        """Go back to the message or batch in hand, as ``KafkaStream.redeliver`` describes it."""
        with self._lock:
            self._active_loop.check_not_read_elsewhere()
            self._reader.redeliver()

    def seek(self, partition: TopicPartition, offset: int) -> Position | None:
        """Continue *partition* at *offset*. Nothing that was fetched before is handed out any more. Return
        the position that the partition had; None if it had none."""
        with self._lock:
            return self._reader.seek(self.queue.cursor(partition), offset)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Hand out no messages of *partitions*, and do not fetch them, until they are resumed."""
        with self._lock:
            for cursor in [self.queue.cursor(each) for each in partitions]:
                cursor.owned.paused = True
                self._reader.pause(cursor)  # also if it is paused: Ctrl-C may have interrupted that call

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Continue *partitions* where they were paused."""
        with self._lock:
            for cursor in [self.queue.cursor(each) for each in partitions]:
                cursor.owned.paused = False
                self.queue.bring_back(cursor.partition)
                cursor.wake_fetcher()

    def position(self, partition: TopicPartition) -> int | None:
        """Return the position of *partition*, including messages in hand. Return None if it is not known yet.

        Raises an error if the offset to begin at cannot be found.
        """
        with self._lock:
            cursor = self.queue.cursor(partition)
            position = self._reader.handed(in_hand=True).get(partition)
            if position is not None and position.generation >= cursor.owned.generation:
                return position.offset
            if cursor.owned.start is None:
                self.queue.raise_failure(cursor)
            return cursor.owned.start

    def cursor(self, partition: TopicPartition) -> Cursor:
        """Return the cursor that reads *partition* now. Raises PartitionNotAssignedError if there is none."""
        with self._lock:
            return self.queue.cursor(partition)

    @property
    def cursors(self) -> dict[TopicPartition, Cursor]:
        """The newest cursor of each partition that the stream reads now."""
        with self._lock:
            return dict(self.queue.cursors)

    # The following methods are for the connector and its threads.

    def revoke(self) -> None:
        """Stop handing out messages of partitions that the client does not own any more.

        The messages of other partitions stay queued.
        """
        with self._lock:
            self.queue.drop_inactive()
            self._reader.stop_if_revoked()

    @property
    def forked(self) -> bool:
        """True in a child of the process that made the stream."""
        return self._active_loop.forked

    def end(self) -> None:
        """End the iteration for good. A loop may still finish the message that it has in hand."""
        with self._lock:
            self.queue.end()
            self._active_loop.leave()  # a loop of the thread that ends it asks for nothing meanwhile
            self._reader.stop()

    def end_with(self, cursors: Sequence[Cursor]) -> None:
        """End the iteration when the messages of all *cursors* have been handed out, up to the ends of the
        cursors."""
        with self._lock:
            self.queue.positions.end_with({cursor.partition: cursor.end for cursor in cursors})

    def is_held_elsewhere(self) -> bool:
        """Return True if a loop in another thread has a message or batch in hand now."""
        reader = self._active_loop.thread
        return (
            self._reader.busy
            and reader is not None
            and reader is not threading.current_thread()
            and reader.is_alive()
        )

    def wait_until_asked(self, left: Callable[[], float]) -> bool:
        """Wait until a loop in another thread asks for its next message, so that the loop has no message of a
        revoked partition in hand any more.

        *left* returns how many seconds remain. Return True if the loop has asked in time.
        """
        with self._lock:
            while self.is_held_elsewhere() and not self._reader.in_hand.stays(self.queue.source):
                if (seconds := left()) <= 0:
                    return False
                self.queue.asked.wait(min(seconds, _TICK))
        return True

    def look_again(self) -> None:
        """Wake the thread that waits in :meth:`wait_until_asked`, because the remaining time has changed."""
        with self._lock:
            self.queue.asked.notify_all()

    def handed(self, *, in_hand: bool) -> dict[TopicPartition, Position]:
        """Return the position of each partition. Messages in hand count as read only if *in_hand* is true."""
        return self._reader.handed(in_hand=in_hand)

    def batch_in_hand(self) -> dict[TopicPartition, tuple[Cursor, Position]]:
        """Return the cursor of each partition of the batch in hand, and the position after the batch. If the
        position was forgotten, because the client has lost the partition, the partition is left out."""
        with self._lock:
            handed = self._reader.handed(in_hand=True)
            return {
                each: (cursor, handed[each])
                for each, (cursor, _) in self._reader.in_hand.batch.items()
                if each in handed
            }

    @property
    def asks(self) -> int:
        """The number of times that loops have asked for messages. A ``for`` loop asks once for each chunk of
        messages."""
        return self._reader.asks

    def count_handed(self) -> None:
        """Count the messages that were handed out since the last count."""
        with self._lock:
            self._reader.count_handed()

    def forget(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Forget positions, so that they are never committed.

        *partitions* maps each partition to a generation. A position is forgotten if it was reached in this
        generation or an earlier one.
        """
        self._reader.forget(partitions)

    def stalled_for(self, now: float) -> float:
        """Return the number of seconds for which no loop has asked for a message, although a message
        waits."""
        with self._lock:
            chunk = self._reader.chunk
            waits = bool(self.queue.items) or (chunk is not None and chunk.remaining > 0)
            seen = (self._reader.asks, 0 if chunk is None else chunk.handed)
        if seen != self._seen or not waits or self.queue.awaited:
            self._seen, self._seen_at = seen, now
        return now - self._seen_at

    @property
    def wanted(self) -> bool:
        """True if a loop waits for a message, or has asked for one since :meth:`stalled_for` was called."""
        return self.queue.awaited or self._reader.asks != self._seen[0]
