"""Decodes a fetched buffer into messages. The compiled kernel and the Python kernel share this module."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

from pyklient.kernel.decode.batch_reader import ENOUGH_BYTES, BatchReader, RecordLoops
from pyklient.kernel.decode.message import Message
from pyklient.kernel.decode.message_chunk import Chunk, IteratorChunk
from pyklient.protocol.records.aborted_transactions import AbortedTransactions
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED
from pyklient.protocol.records.layout import (
    BATCH_SIZE,
    COUNT_AT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    MAGIC_AT,
    Buffer,
    Columns,
)

__all__ = ["decode"]

_ENOUGH_MESSAGES: Final = 1_000


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

    Control batches are skipped, and so are the batches of aborted transactions, which *aborted* knows. If
    *aborted* is None, the batches of aborted transactions are read too (``read_uncommitted``).

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
    if reader.iterator is not None:
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
        self.iterator: Any = None
        """An iterator over all collected messages, or None. If there is an iterator, ``messages`` is
        empty."""
        self._topic = topic
        self._partition = partition
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._alone = False

    @property
    def count(self) -> int:
        count: int = len(self.messages) if self.iterator is None else self.iterator.count
        return count

    def has_space_for(self, batch: memoryview) -> bool:
        count = self.count
        if count >= _ENOUGH_MESSAGES or self.nbytes >= ENOUGH_BYTES:
            return False
        # A batch that is enough by itself gets a chunk to itself.
        return not (count and (self._alone or _is_enough(batch)))

    def add_batch(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        self._alone = count >= _ENOUGH_MESSAGES
        if self._key_decoder is None and self._value_decoder is None:
            section = data, count, base_offset, last_delta, base_timestamp, append_time
            source = self._topic, self._partition, self.next_offset
            if self._alone and self.loops.iterate_messages is not None:
                iterator = self.loops.iterate_messages(*section, *source)
                # Without a message it must not end the chunk.
                self.iterator = iterator if iterator.count else None
            else:
                self.messages += self.loops.parse_messages(*section, *source)
            return
        columns = self.loops.parse_records(data, count, base_offset, last_delta, base_timestamp)
        if append_time is not None:
            columns.timestamps[:] = [append_time] * count
        self.add_entry(columns, CREATE_TIME if append_time is None else LOG_APPEND_TIME)

    def add_entry(self, columns: Columns, kind: int) -> None:
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


def _is_enough(batch: memoryview) -> bool:
    return batch[MAGIC_AT] == 2 and int.from_bytes(batch[COUNT_AT:BATCH_SIZE]) >= _ENOUGH_MESSAGES


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
