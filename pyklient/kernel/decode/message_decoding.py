"""Decodes a fetched buffer into messages. The compiled kernel and the Python kernel share this module."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

from pyklient.kernel.decode.batch_reader import BatchReader, RecordLoops
from pyklient.kernel.decode.message import Message
from pyklient.kernel.decode.message_chunk import Chunk, IteratorChunk
from pyklient.protocol.records.aborted_transactions import AbortedTransactions
from pyklient.protocol.records.batch_header import RecordBatch
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED
from pyklient.protocol.records.layout import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    MAGIC_AT,
    Buffer,
    Columns,
    batch_end,
)

__all__ = ["decode"]

_ENOUGH_MESSAGES: Final = 10_000
_ENOUGH_AT_ONCE: Final = 1_000
"""The number of messages after which a chunk ends if all its messages are made at once: if there are
decoders, or in the Python kernel. More messages would not fit into the processor's cache."""
_ENOUGH_BYTES: Final = 1 << 20
"""The number of decompressed bytes after which a chunk ends. A limit is needed because bytes that were
decoded into a chunk no longer count towards the fetch budget, but stay in memory until all messages of the
chunk have been handed out."""


def decode(
    loops: RecordLoops,
    buffer: Buffer,
    topic: str,
    partition: int,
    start_offset: int,
    *,
    position: int = 0,
    check_crcs: bool = True,
    aborted: AbortedTransactions | None = None,
    key_decoder: Callable[[bytes | None], Any] | None = None,
    value_decoder: Callable[[bytes | None], Any] | None = None,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
) -> Chunk:
    """Return the next messages of a fetched *buffer*, from byte *position* and offset *start_offset* on.

    Whole batches are decoded until the chunk has enough messages. *buffer* must not change until the chunk's
    messages have been handed out. To get further messages, call again with ``position + chunk.nbytes``,
    ``chunk.next_offset`` and the same *aborted*. At the end of the buffer, where only an incomplete batch may
    be left, the chunk has no messages and its ``nbytes`` is 0.

    Control batches are skipped, and so are the batches of the transactions in *aborted*. If *aborted* is
    None, the batches of aborted transactions are read too (``read_uncommitted``).

    Raises CorruptRecordError, UnsupportedCodecError or MessageTooLargeError for bytes that cannot be decoded,
    and any error of a decoder, with a note that names the record. The messages before the bad record are
    returned first.
    """
    reader = _MessageReader(
        loops,
        start_offset,
        check_crcs,
        aborted,
        max_decompressed,
        topic,
        partition,
        key_decoder,
        value_decoder,
    )
    nbytes = reader.read(buffer, position)
    if reader.iterator is not None and reader.iterator.count:
        return IteratorChunk(topic, partition, reader.iterator, reader.next_offset, nbytes)
    return Chunk(topic, partition, reader.messages, reader.next_offset, nbytes)


class _MessageReader(BatchReader):
    """Collects messages, during one call of :func:`decode`."""

    def __init__(
        self,
        loops: RecordLoops,
        start_offset: int,
        check_crcs: bool,
        aborted: AbortedTransactions | None,
        max_decompressed: int,
        topic: str,
        partition: int,
        key_decoder: Callable[[bytes | None], Any] | None,
        value_decoder: Callable[[bytes | None], Any] | None,
    ) -> None:
        super().__init__(loops, start_offset, check_crcs, aborted, max_decompressed)
        self.messages: list[Message] = []
        decoded = key_decoder is not None or value_decoder is not None
        self.iterator: Any = None if decoded or not loops.iterator else loops.iterator(topic, partition)
        """An iterator over the messages of format 2. None if all messages are made at once."""
        self._topic = topic
        self._partition = partition
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._decoded = decoded
        self._enough = _ENOUGH_AT_ONCE if self.iterator is None else _ENOUGH_MESSAGES
        self._modern = True
        """True if the collected messages are of format 2. The chunk then has no messages of older formats."""

    @property
    def count(self) -> int:
        return len(self.messages) + (self.iterator.count if self.iterator is not None else 0)

    def add_batches(self, view: memoryview, position: int) -> int:
        if self._decoded:
            return self._add_decoded(view, position)
        if self.iterator is None or self.messages:
            return position
        position, self.next_offset, size = self.iterator.add_batches(
            view,
            position,
            self.next_offset,
            self._enough,
            _ENOUGH_BYTES - self.nbytes,
            self._check_crcs,
            self.none_aborted_below,
            self._decompress,
        )
        self.nbytes += size
        self._modern = True
        return position

    def _add_decoded(self, view: memoryview, position: int) -> int:
        """Collect the messages of plain batches from byte *position* of *view* on, and return the position
        after these batches. This method does the work of ``add_batches`` if there are decoders, which get the
        records of many batches at once."""
        if self.loops.parse_batches is None or (self.messages and not self._modern):
            return position
        columns, kind, end, next_offset, size = self.loops.parse_batches(
            view,
            position,
            self.next_offset,
            self._enough - len(self.messages),
            _ENOUGH_BYTES - self.nbytes,
            self._check_crcs,
            self.none_aborted_below,
            self._decompress,
        )
        self._modern = True
        try:
            self._add_columns(columns, kind)
        except Exception:
            # This has set next_offset. The record's batch is read once more, by itself, and raises the error.
            return _batch_with(view, position, self.next_offset)
        self.next_offset = next_offset
        self.nbytes += size
        return end

    def has_space_for(self, batch: memoryview) -> bool:
        if self.count >= self._enough or self.nbytes >= _ENOUGH_BYTES:
            return False
        return not self.count or self._modern == (batch[MAGIC_AT] == 2)

    def add_batch(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        self._modern = True
        section = data, count, base_offset, last_delta, base_timestamp
        if self.iterator is not None:
            self.iterator.add(*section, append_time, self.next_offset)
            return
        if not self._decoded and self.loops.parse_messages is not None:
            self.messages += self.loops.parse_messages(
                *section, append_time, self._topic, self._partition, self.next_offset
            )
            return
        columns = self.loops.parse_records(*section)
        if append_time is not None:
            columns.timestamps[:] = [append_time] * count
        self._add_columns(columns, CREATE_TIME if append_time is None else LOG_APPEND_TIME)

    def add_entry(self, columns: Columns, kind: int) -> None:
        self._modern = False
        self._add_columns(columns, kind)

    def _add_columns(self, columns: Columns, kind: int) -> None:
        columns = columns.since(bisect_left(columns.offsets, self.next_offset))
        offsets, timestamps, keys, values, headers = columns
        keys, key_failure = _decoded(keys, self._key_decoder)
        values, value_failure = _decoded(values[: len(keys)], self._value_decoder)
        whole = len(values)
        self.messages += self.loops.make_messages(
            self._topic, self._partition, kind, Columns(offsets[:whole], timestamps, keys, values, headers)
        )
        failure = value_failure or key_failure
        if failure:
            self.next_offset = offsets[whole]
            what = "value" if value_failure else "key"
            failure.add_note(
                f"while decoding the {what} of {self._topic}-{self._partition} at offset {offsets[whole]}"
            )
            raise failure


def _batch_with(view: memoryview, position: int, offset: int) -> int:
    """Return the position in *view* of the batch that contains *offset*. Search from byte *position* on."""
    while (end := batch_end(view, position)) and RecordBatch(view[position:end]).last_offset < offset:
        position = end
    return position


def _decoded(
    column: list[bytes | None], decoder: Callable[[bytes | None], Any] | None
) -> tuple[list[Any], Exception | None]:
    """Decode the values in *column* up to the first one at which *decoder* raises an exception.

    Return the decoded values, and the exception or None.
    """
    if decoder is None:
        return column, None
    decoded: list[Any] = []
    try:
        decoded.extend(map(decoder, column))
    except Exception as error:
        return decoded, error
    if len(decoded) < len(column):
        return decoded, RuntimeError("the decoder of a key or value raised StopIteration")
    return decoded, None
