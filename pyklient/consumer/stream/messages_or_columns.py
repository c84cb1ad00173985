"""The two forms in which a loop gets records: messages, or columns for Arrow.

Loops of both forms may read the same stream, so each must be able to continue a chunk that a loop of the
other form has begun. When the form changes, the remaining records of the chunk are converted one by one.
"""

from collections.abc import Callable
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

from pyklient.consumer.fetch.fetch_position import FetchedBatches
from pyklient.consumer.stream.batch_iteration import batch_chunk
from pyklient.consumer.stream.shallow_iteration import shallow_chunk
from pyklient.corrupt_records import CorruptHandler
from pyklient.kernel import Chunk, ColumnBuilder, Message, decode, decode_columns
from pyklient.kernel.decode.column_decoding import ByteColumn, ColumnChunk
from pyklient.protocol.records import DEFAULT_MAX_DECOMPRESSED
from pyklient.protocol.records.layout import Columns

__all__ = ["AnyChunk", "ColumnDecoding", "Decoding", "Form"]

_ENOUGH_RECORDS: Final = 10_000
"""The smallest number of records to decode at a time, so that small batches do not make small chunks."""

AnyChunk: TypeAlias = Chunk | ColumnChunk
_Made = TypeVar("_Made", Chunk, ColumnChunk, covariant=True)


class Form(Protocol[_Made]):
    """The form in which a loop gets records: messages, or columns."""

    def chunk(self, fetched: FetchedBatches) -> _Made:
        """Decode the next records of *fetched* into a chunk, up to the ``end`` of the cursor.

        Raises CorruptRecordError or a similar error if the bytes are damaged, and the exception of a decoder.
        """

    def made(self, chunk: AnyChunk) -> TypeGuard[_Made]:
        """Return True if *chunk* has this form."""

    def remade(self, chunk: AnyChunk) -> _Made | None:
        """Convert the remaining records of *chunk* from the other form to this form. Return None if *chunk*
        lacks columns that are needed, so that the records must be decoded again."""


class Decoding(NamedTuple):
    """The options for decoding fetched batches. The decoders convert the bytes of keys and values. Without a
    decoder, they stay bytes."""

    key_decoder: Callable[[bytes | None], Any] | None = None
    value_decoder: Callable[[bytes | None], Any] | None = None
    check_crcs: bool = True
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    shallow: bool = False
    """True if compressed batches are handed out as they are."""
    on_corrupt: CorruptHandler | None = None
    """The function to call before a batch that cannot be read is skipped. None if loops raise an error."""
    whole_batches: bool = False
    """True if a mirror reads the stream: batches that a producer can send again are handed out as they
    are."""

    def chunk(self, fetched: FetchedBatches) -> Chunk:
        """Decode the next records of *fetched* into messages, up to the ``end`` of the cursor."""
        if self.shallow:
            return shallow_chunk(fetched, self.check_crcs, self._replace(shallow=False).chunk)
        if self.whole_batches:
            return batch_chunk(fetched, self._replace(whole_batches=False).chunk)
        chunk = self._decode(fetched, self.key_decoder, self.value_decoder)
        end = fetched.cursor.end
        if end is None or chunk.next_offset <= end:
            return chunk
        messages = [message for message in chunk.hand_out(chunk.remaining) if message.offset < end]
        return Chunk(chunk.topic, chunk.partition, messages, end, fetched.size)

    def next_offset(self, fetched: FetchedBatches) -> int:
        """Return the offset of the next message of *fetched*, without calling the decoders."""
        if self.shallow:
            return self._replace(key_decoder=None, value_decoder=None).chunk(fetched).position
        return self._decode(fetched, None, None).position

    def made(self, chunk: AnyChunk) -> TypeGuard[Chunk]:
        """Return True if *chunk* contains messages."""
        return isinstance(chunk, Chunk)

    def remade(self, chunk: AnyChunk) -> Chunk | None:
        """Return the remaining records of *chunk* as messages, or None if *chunk* was made without columns
        that a message needs.

        No decoder is needed, because columns are made only for streams without decoders.
        """
        if isinstance(chunk, Chunk):
            return chunk
        if chunk.left_out:
            return None
        return Chunk(chunk.topic, chunk.partition, _messages_left(chunk), chunk.next_offset, chunk.nbytes)

    def _decode(self, fetched: FetchedBatches, key_decoder: Any, value_decoder: Any) -> Chunk:
        topic, partition = fetched.cursor.partition
        return decode(
            fetched.buffer,
            topic,
            partition,
            fetched.start,
            position=fetched.at,
            check_crcs=self.check_crcs,
            aborted=fetched.aborted,
            max_decompressed=self.max_decompressed,
            key_decoder=key_decoder,
            value_decoder=value_decoder,
        )


class ColumnDecoding(NamedTuple):
    """Decodes batches into columns. If the program has not chosen the columns, they include the headers,
    because a later loop over messages may continue with the same columns."""

    most: int
    """The number of records that the loop asks for at a time."""
    check_crcs: bool = True
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    left_out: frozenset[str] = frozenset()
    """The names of the columns that the loop does not need, out of ``OPTIONAL_COLUMNS``."""

    def chunk(self, fetched: FetchedBatches) -> ColumnChunk:
        """Decode the next records of *fetched* into columns, up to the ``end`` of the cursor."""
        topic, partition = fetched.cursor.partition
        chunk = decode_columns(
            fetched.buffer,
            topic,
            partition,
            fetched.start,
            position=fetched.at,
            check_crcs=self.check_crcs,
            aborted=fetched.aborted,
            left_out=self.left_out,
            max_decompressed=self.max_decompressed,
            enough=max(self.most, _ENOUGH_RECORDS),
        )
        if (end := fetched.cursor.end) is not None and chunk.next_offset > end:
            chunk.end_at(end, fetched.size)
        return chunk

    def made(self, chunk: AnyChunk) -> TypeGuard[ColumnChunk]:
        """Return True if *chunk* contains the columns that the loop needs."""
        return isinstance(chunk, ColumnChunk) and chunk.left_out <= self.left_out

    def remade(self, chunk: AnyChunk) -> ColumnChunk | None:
        """Return the remaining records of *chunk* as columns, or None if *chunk* was made without columns
        that this loop needs."""
        if isinstance(chunk, ColumnChunk):
            return chunk if self.made(chunk) else None
        filling = ColumnBuilder(frozenset())
        for kind, run in groupby(chunk.left(), attrgetter("timestamp_type")):
            filling.add_parsed(_parsed(list(run)), kind)
        return ColumnChunk(chunk.topic, chunk.partition, filling.finish(), chunk.next_offset, chunk.nbytes)


def _parsed(messages: list[Message]) -> Columns:
    return Columns(
        [message.offset for message in messages],
        [message.timestamp_ms for message in messages],
        [message.key for message in messages],
        [message.value for message in messages],
        {index: message.headers for index, message in enumerate(messages) if message.headers},
    )


def _messages_left(chunk: ColumnChunk) -> list[Message]:
    columns, start, stop = chunk.left()
    keys, values = _cells(columns.keys), _cells(columns.values)
    headers: list[Any] = [()] * len(keys)
    if columns.headers is not None:
        names = [str(name, "utf-8") for name in _cells(columns.headers.names) if name is not None]
        pairs = list(zip(names, _cells(columns.headers.values), strict=True))
        headers = [tuple(pairs[first:last]) for first, last in pairwise(columns.headers.offsets)]
    return [
        Message(
            chunk.topic,
            chunk.partition,
            columns.offsets[row],
            columns.timestamps[row],
            columns.timestamp_types[row],
            keys[row],
            values[row],
            headers[row],
        )
        for row in range(start, stop)
    ]


def _cells(column: ByteColumn) -> list[bytes | None]:
    data, bits = column.data, column.validity
    return [
        bytes(data[start:end]) if bits is None or bits[row >> 3] >> (row & 7) & 1 else None
        for row, (start, end) in enumerate(pairwise(column.offsets))
    ]
