"""The user's loop: what has been fetched becomes messages or columns here, in the thread that reads them.

Fetchers queue undecoded parts; a loop decodes one at a time and hands its messages out straight from the
kernel's chunk, so that no Python frame runs per message. What has been handed out is never written down
per message either: the chunk knows how far it has come.

A message (or batch) is *in hand* from the moment it is handed out until the next one is asked for.

Locks: each stream's lock guards its queue and its chunk, between the reading thread, the fetchers and
the group thread; it is never held while decoding.

Ctrl-C raises between any two steps of a loop in the main thread, which may then go on with a new one. So a
step notes the new state before it lets go of the old, and an interrupted step is done again. A batch that
has reached nobody is queued again, before all else. The lock is entered itself, not through its condition,
whose entry an interrupt can leave with the lock held; for the same reason a loop waits for its bell instead.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pyklient import argument_checks
from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches, FetchFailure, Item
from pyklient.consumer.stream.decoding import AnyChunk, ColumnDecoding, Decoding, Form
from pyklient.consumer.stream.in_hand import Handed, InHand, Starts
from pyklient.consumer.stream.loop import Loop, Ownership
from pyklient.errors import (
    ConfigurationError,
    ConsumerTimeout,
    CorruptRecordError,
    KafkaError,
    MessageTooLargeError,
    UnsupportedCodecError,
    for_another,
)
from pyklient.kernel import Chunk, Message
from pyklient.kernel.column_decoding import ColumnChunk
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from pyklient.consumer.stream.arrow import Assembly

__all__ = ["StreamCore"]

_TICK = 1.0
_NOTHING = memoryview(b"")
_C = TypeVar("_C", Chunk, ColumnChunk)
Restart: TypeAlias = Callable[[Cursor, int | None], None]


class StreamCore:
    """What the user's KafkaStream reads with, and fetchers and the group thread know it by.

    *restart* reads a cursor's partition again from an offset, in place of what is queued.
    """

    def __init__(
        self, topics: Sequence[str], decoding: Decoding, timeout: float | None, restart: Restart
    ) -> None:
        self.topics = tuple(topics)
        self._decoding = decoding
        self._timeout = timeout
        self._restart = restart
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._items: deque[Item] = deque()
        self._chunk: AnyChunk | None = None
        self._source: FetchedBatches | None = None
        self._revoked = False
        self._marks: dict[TopicPartition, Handed] = {}
        self._in_hand = InHand()
        self._unfinished: set[TopicPartition] | None = None
        self._busy = False
        self._waiting = False
        # Not the condition: Ctrl-C at the wrong moment of its wait leaves the lock to nobody.
        self._bell = threading.Lock()
        self._ownership = Ownership(self._lock, self._condition.notify_all, self._cut, self._name)
        self.ended = False
        self._error: Exception | None = None
        self._refusal: KafkaError | None = None
        self._asks = 0
        self._seen = (0, 0)
        self._seen_at = time.monotonic()

    def __repr__(self) -> str:
        return f"<{self._name()}{', ended' if self.ended else ''}>"

    def refuse_fork(self) -> None:
        """Raises ForkError in a child of the process that the stream was made in."""
        self._ownership.refuse_fork()

    def _name(self) -> str:
        return f"KafkaStream of {', '.join(self.topics)}"

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self.chunks())

    def batches(self, max_records: int = 10_000, timeout: float | None = 1.0) -> Loop[list[Message]]:
        """See KafkaStream.batches."""
        most = argument_checks.whole(max_records, "max_records", low=1)
        patience = None if timeout is None else argument_checks.seconds(timeout, "timeout")
        step = partial(self._batch, most, patience)
        return Loop(self._ownership, step, moves=True, take_back=self._take_back)

    def arrow_batches(
        self, max_records: int = 100_000, timeout: float | None = 1.0, headers: bool = False
    ) -> "Loop[RecordBatch]":
        """See KafkaStream.arrow_batches."""
        from pyklient.consumer.stream.arrow import Assembly

        most = argument_checks.whole(max_records, "max_records", low=1)
        wait = None if timeout is None else argument_checks.seconds(timeout, "timeout")
        if self._decoding.key_decoder is not None or self._decoding.value_decoder is not None:
            raise ConfigurationError(
                "Arrow batches hold keys and values as bytes: make the stream without decoders, "
                "and decode the columns"
            )
        assembly = Assembly(headers=argument_checks.flag(headers, "headers"))
        form = ColumnDecoding(most, self._decoding.check_crcs)
        step = partial(self._record_batch, form, most, wait, assembly)
        return Loop(self._ownership, step, moves=True, take_back=self._take_back)

    def chunks(self) -> Loop[Chunk]:
        """What iteration hands out from, decoded chunk by decoded chunk."""
        return Loop(self._ownership, partial(self._next, self._timeout, self._decoding))

    def _batch(self, max_records: int, timeout: float | None) -> list[Message] | None:
        try:
            chunk = self._next(self._timeout if timeout is None else timeout, self._decoding)
        except ConsumerTimeout:
            if timeout is None:
                raise
            return []
        return None if chunk is None else self._gather(chunk, max_records)

    def _record_batch(
        self, form: ColumnDecoding, most: int, timeout: float | None, assembly: "Assembly"
    ) -> "RecordBatch | None":
        while True:
            try:
                chunk = self._next(self._timeout if timeout is None else timeout, form)
            except ConsumerTimeout:
                if timeout is None:
                    raise
                return assembly.nothing
            if chunk is None:
                return None
            batch = assembly.batch(chunk, most)
            with self._lock:
                # less is left only where it has been taken away meanwhile
                if self._source is not None and chunk.remaining:
                    self._in_hand.note_batch(self._source.cursor, chunk.position)
                    chunk.hand_out(batch.num_rows)
                    return batch

    def _next(self, timeout: float | None, form: Form[_C]) -> _C | None:
        """The chunk to hand out from, None at the end. Raises ConsumerTimeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._settle()
        # What is taken away and forgotten from here on is handed out as it is by then: stopped.
        while (chunk := self._chunk) is None or not form.made(chunk):
            if chunk is not None:
                self._remake(chunk, form)
                continue
            item = self._wait(deadline, timeout)
            if item is None:
                return None
            if isinstance(item, FetchFailure):
                self._restart(item.cursor, item.position)
                self.drop(item.cursor)
                raise item.error
            try:
                self._open(item, form)
            except Exception as error:
                raise self._pass_over(item, error) from None
        self._busy = True
        return chunk

    def _settle(self) -> None:
        """The next message is asked for: what was in hand is done with."""
        with self._lock:
            self._busy = False
            self._asks += 1
            chunk = self._chunk
            if chunk is not None and not chunk.remaining:
                self._leave_chunk()
            self._in_hand.settle(None if self._chunk is None else self._source)
            self._condition.notify_all()

    def _remake(self, chunk: AnyChunk, form: Form[_C]) -> None:
        """Go on with what another kind of loop has begun."""
        remade = form.remade(chunk)
        with self._lock:
            if self._chunk is chunk and not chunk.remaining:
                self._leave_chunk()
            if self._chunk is not chunk:
                return
            if chunk.handed and self._source is not None:
                self._mark(self._source.cursor, chunk.position)
            chunk.stop()  # for a loop that still holds it
            self._chunk = remade

    def _leave_chunk(self) -> None:
        """With the lock held: the chunk has nothing more to hand out."""
        chunk, source = self._chunk, self._source
        if chunk is None or source is None:
            return
        # A response read to its end takes what is skipped behind its last message along.
        at_end = not source.size and not self._revoked
        self._mark(source.cursor, source.next_offset if at_end else chunk.position)
        self._chunk = None
        if at_end or self._revoked:
            self._source = None

    def _mark(self, cursor: Cursor, offset: int, *, read: bool = True) -> None:
        self._marks[cursor.partition] = Handed(offset, cursor.assignment.generation, read)
        if self._unfinished is not None and cursor.end is not None and offset >= cursor.end:
            self._unfinished.discard(cursor.partition)

    def _wait(self, deadline: float | None, timeout: float | None) -> Item | None:
        """The next item, None at the end. Raises ConsumerTimeout and what has failed."""
        while True:
            with self._lock:
                if (item := self._ready()) is not None:
                    return item
                if self._error is not None:
                    raise for_another(self._error)
                if self._refusal is not None:
                    raise for_another(self._refusal)
                if self.ended or self._unfinished == set():
                    return None
            left = _TICK if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise ConsumerTimeout(f"no message of {', '.join(self.topics)} within {timeout:.3g} s")
            self._waiting = True
            self._bell.acquire(timeout=min(left, _TICK))
            self._waiting = False

    def _ring(self) -> None:
        """With the lock held: there is something that a loop may wait for."""
        if self._bell.locked():
            self._bell.release()

    def _ready(self) -> Item | None:
        """With the lock held: what is to be opened next, if it is there; a FetchFailure stays queued."""
        if self._source is not None and self._source.cursor.active:
            return self._source
        self._source = None
        while self._items:
            item = self._items[0]
            if item.cursor.active:
                if isinstance(item, FetchedBatches):
                    self._source = item
                    self._items.popleft()
                return item
            self._items.popleft()
        return None

    def _open(self, fetched: FetchedBatches, form: Form[_C]) -> None:
        """Decode what comes next in *fetched* and make it the chunk to hand out from, unless the partition
        has been taken away meanwhile."""
        before = fetched.copy()
        chunk = form.chunk(fetched)
        used = chunk.nbytes if chunk.nbytes or chunk.remaining else fetched.size
        fetched.cursor.take(used)
        with self._lock:
            if fetched is self._source and fetched.cursor.active:
                if chunk.remaining:
                    self._in_hand.note_fetched(fetched, before)
                self._chunk, self._revoked = chunk, False
            fetched.at += used
            fetched.start = chunk.next_offset
            if not fetched.size:
                fetched.buffer = _NOTHING  # "at" stays: a fetcher may be copying the buffer this very moment
            if self._chunk is chunk and not chunk.remaining:
                self._leave_chunk()

    def _pass_over(self, fetched: FetchedBatches, error: Exception) -> Exception:
        """*fetched* cannot be decoded from where it stands: make sure that a new ``iter()`` can go on."""
        if isinstance(error, CorruptRecordError | UnsupportedCodecError | MessageTooLargeError):
            self._source = None
            self._restart(fetched.cursor, fetched.start)
            return type(error)(f"{fetched.cursor.partition} at offset {fetched.start}: {error}")
        offset = self._decoding.next_offset(fetched)
        self._in_hand.undecodable = fetched, offset
        fetched.start = offset + 1
        return error

    def _gather(self, chunk: AnyChunk | None, max_records: int) -> list[Message]:
        """Up to *max_records* messages from *chunk* and from what is there behind it."""
        batch: list[Message] = []
        while isinstance(chunk, Chunk):
            with self._lock:
                if self._source is not None and chunk.remaining:
                    self._in_hand.note_batch(self._source.cursor, chunk.position)
                batch += chunk.hand_out(max_records - len(batch))
                if len(batch) >= max_records:
                    break
                self._leave_chunk()
                item = self._ready()
                if not isinstance(item, FetchedBatches):
                    break
            try:
                self._open(item, self._decoding)
            except Exception:
                break  # what is in the batch goes first; the next one meets the error again
            chunk = self._chunk
        return batch

    def redeliver(self) -> None:
        """See KafkaStream.redeliver."""
        with self._lock:
            self._ownership.refuse_others()
            if self._in_hand.undecodable is not None:
                fetched, offset = self._in_hand.undecodable
                fetched.start, self._in_hand.undecodable = offset, None
            elif self._busy:
                self._put_back(self._in_hand.starts(self._chunk, self._source))

    def _put_back(self, starts: Starts) -> None:
        """With the lock held: queue what is in hand before all else. It begins at *starts*."""
        if not starts:
            return
        for cursor, offset in starts.values():
            mark = self._marks.get(cursor.partition)
            if mark is None or mark.generation <= cursor.assignment.generation:
                self._mark(cursor, offset)
            if self._unfinished is not None:
                self._unfinished.add(cursor.partition)
        chunk, source = self._chunk, self._source
        if chunk is not None and source is not None:
            # An interruption may have left a chunk behind of which nothing has been handed out yet.
            starts = {source.cursor.partition: (source.cursor, chunk.position), **starts}
        parts = self._in_hand.fetched_again(starts)
        if source is not None and all(source is not fetched for fetched, _ in parts):
            self._items.appendleft(source)
        self._items.extendleft(before for _, before in reversed(parts))
        if chunk is not None:
            chunk.stop()
        self._chunk = self._source = None
        self._busy = False
        self._in_hand.settle(None)

    def _take_back(self) -> None:
        """The batch that has been made has reached nobody: the next one begins with it."""
        with self._lock:
            self._put_back(dict(self._in_hand.batch))

    # What follows is for the connector and the threads behind it.

    def put(self, items: Sequence[Item]) -> None:
        """Queue *items* of one cursor. Never waits. Called by fetchers and by the finder of leaders."""
        with self._lock:
            if items and items[0].cursor.active and not self.ended:
                for item in items:
                    item.cursor.fetched += item.size
                self._items.extend(items)
                self._ring()

    def begin_at(self, cursor: Cursor, offset: int) -> None:
        """Note that *cursor* goes on at *offset*, which was looked up. Called by the finder of leaders.

        It counts as handed out to there, at once or when what is queued of it has been handed out.
        """
        with self._lock:
            if not cursor.active or self.ended:
                return
            source = self._source
            if (source is not None and source.cursor is cursor) or any(
                item.cursor is cursor for item in self._items
            ):
                self._items.append(FetchedBatches(cursor, _NOTHING, offset, offset))
            else:
                before = self._marks.get(cursor.partition)
                self._mark(cursor, offset, read=before is not None and before.read)
            self._ring()

    def drop(self, cursor: Cursor) -> None:
        """Forget what is queued of *cursor*, which is read again from elsewhere."""
        with self._lock:
            self._items = deque(item for item in self._items if item.cursor is not cursor)

    def revoke(self) -> None:
        """Hand nothing more out of what is there. What comes from inactive cursors is dropped by itself."""
        with self._lock:
            self._items.clear()
            self._revoked = True
            if self._chunk is not None:
                self._chunk.stop()
            else:
                self._source = None

    def _cut(self) -> None:
        """In a child of the process, where no lock can be had: what a loop holds is the parent's."""
        if (chunk := self._chunk) is not None:
            chunk.stop()

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that the stream was made in."""
        return self._ownership.forked

    def end(self) -> None:
        """End the iteration for good, once what is in hand is done with."""
        with self._lock:
            self.ended = True
            self._ownership.leave()  # a loop of the thread that ends it asks for nothing meanwhile
            self._ring()
        self.revoke()

    def fail(self, error: Exception) -> None:
        """Every loop raises *error* from now on, instead of waiting for more."""
        with self._lock:
            self._error = error
            self._ring()

    def refuse(self, error: KafkaError | None) -> None:
        """Loops raise *error* instead of waiting for more, until this is called with None."""
        with self._lock:
            self._refusal = error
            if error is not None:
                self._ring()

    def end_with(self, cursors: Sequence[Cursor]) -> None:
        """End the iteration once each of *cursors* has been handed out up to its end."""
        with self._lock:
            self._unfinished = {cursor.partition for cursor in cursors}

    def is_held_elsewhere(self) -> bool:
        """Whether a loop in another thread has something in hand right now."""
        reader = self._ownership.thread
        return (
            self._busy
            and reader is not None
            and reader is not threading.current_thread()
            and reader.is_alive()
        )

    def wait_until_asked(self, left: Callable[[], float]) -> bool:
        """Wait for a loop in another thread to finish what it has in hand, while there are seconds *left*.
        → whether it has finished."""
        with self._lock:
            while self.is_held_elsewhere():
                if (seconds := left()) <= 0:
                    return False
                self._condition.wait(min(seconds, _TICK))
        return True

    def look_again(self) -> None:
        """Fewer seconds are left to whoever waits for this stream's loop."""
        with self._lock:
            self._condition.notify_all()

    def handed(self, *, in_hand: bool) -> dict[TopicPartition, Handed]:
        """The next offset of each partition after what was handed out; with or without what is in hand."""
        with self._lock:
            found = dict(self._marks)
            chunk, source = self._chunk, self._source
            if chunk is not None and source is not None and chunk.handed:
                cursor = source.cursor
                offset = chunk.position if in_hand else chunk.last_handed
                found[cursor.partition] = Handed(offset, cursor.assignment.generation)
            if not in_hand:
                for partition, (cursor, offset) in self._in_hand.batch.items():
                    found[partition] = Handed(offset, cursor.assignment.generation)
        return found

    def forget(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Nothing is to be committed of *partitions* that was handed out under the generation that stands
        with each, or before. What has been handed out of it since stays."""
        with self._lock:
            handed = self.handed(in_hand=True)
            for partition, generation in partitions.items():
                if partition in handed and handed[partition].generation <= generation:
                    self._marks.pop(partition, None)
                    self._in_hand.batch.pop(partition, None)
            source = self._source
            if source is not None and not source.cursor.active and source.cursor.partition in partitions:
                self._chunk = self._source = None

    def stalled_for(self, now: float) -> float:
        """Seconds for which no message has been taken although one waits, as far as calls of this tell."""
        with self._lock:
            chunk = self._chunk
            seen = (self._asks, 0 if chunk is None else chunk.handed)
            waits = bool(self._items) or (chunk is not None and chunk.remaining > 0)
        if seen != self._seen or not waits:
            self._seen, self._seen_at = seen, now
        return now - self._seen_at

    @property
    def wanted(self) -> bool:
        """Whether a loop stands waiting for a message, or has asked for one since it was found stalled."""
        return self._waiting or self._asks != self._seen[0]
