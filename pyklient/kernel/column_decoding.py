"""From a fetched buffer to columns in Arrow's memory layout: what both kernels have in common.

The bytes of keys and values are copied once, from the batch (or from what it decompresses to) into their
column, and no object is made per record. pyarrow is not needed here: a column is a few buffers, in the
machine's byte order.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, Protocol

from pyklient.errors import MessageTooLargeError
from pyklient.kernel.message_decoding import ENOUGH_BYTES, Loops, Reader, size_of
from pyklient.protocol.records.aborted import AbortedTransactions
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED
from pyklient.protocol.records.layout import INT32_MAX, Buffer, Columns

__all__ = [
    "MOST_MILLISECONDS",
    "ArrowColumns",
    "ByteColumn",
    "ColumnChunk",
    "ColumnSlice",
    "Filling",
    "HeaderColumn",
    "decode_columns",
    "readable",
    "too_large",
]

MOST_MILLISECONDS: Final = (2**63 - 1) // 1000
"""What microseconds can count, before 1970 and after."""

_ENOUGH_RECORDS: Final = 100_000
_ROOM: Final = ENOUGH_BYTES + (1 << 20)
"""What a chunk is likely to take at most: its last batch goes beyond what is enough."""


class ByteColumn(NamedTuple):
    """Byte strings, some of them null."""

    validity: memoryview | None
    """A bit for each, lowest first, 0 for null; None where none is null."""
    offsets: memoryview
    """Where each begins in *data*, and where the last one ends: int32."""
    data: memoryview


class HeaderColumn(NamedTuple):
    """Lists of (name, value)."""

    offsets: memoryview
    """Where each record's headers begin among all, and where the last one's end: int32."""
    names: ByteColumn
    """UTF-8."""
    values: ByteColumn


class ArrowColumns(NamedTuple):
    """Records, field by field, in Arrow's layout."""

    offsets: memoryview
    """int64."""
    timestamps: memoryview
    """int64: milliseconds since 1970, -1 for none."""
    timestamp_types: memoryview
    """int32: 0 CreateTime, 1 LogAppendTime, -1 none (format 0)."""
    keys: ByteColumn
    values: ByteColumn
    headers: HeaderColumn | None
    """None where they were not asked for."""


class ColumnSlice(NamedTuple):
    """Some records of a chunk: those from *start* up to, and without, *stop*."""

    columns: ArrowColumns
    start: int
    stop: int


class Filling(Protocol):
    """Columns under construction: what a kernel does for each record."""

    count: int
    """Records in them."""

    def add(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
        start_offset: int,
    ) -> None:
        """Append the records at *start_offset* and above in the records section of a batch of format 2.

        The arguments are those of ``parse_messages``, and so are the errors; after one, what was there before
        is still there, and nothing may be added.
        """

    def add_parsed(self, columns: Columns, timestamp_type: int) -> None:
        """Append records that have been parsed."""

    def finish(self) -> ArrowColumns:
        """The columns. Nothing may be added any more."""


class ColumnChunk:
    """Columns of records of one partition, in order, with the place that reading them has reached.

    The twin of ``Chunk`` for columns: the reading thread takes slices, each record once. Whoever shares it
    with other threads has a lock for it.
    """

    __slots__ = ("_at", "_columns", "_offsets", "_stopped", "nbytes", "next_offset", "partition", "topic")

    def __init__(
        self, topic: str, partition: int, columns: ArrowColumns, next_offset: int, nbytes: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        """The offset to read on from after this chunk, past control records, gaps and aborted batches."""
        self.nbytes = nbytes
        """Bytes of the buffer that this chunk has used up."""
        self._columns = columns
        self._offsets = columns.offsets
        self._at = 0
        self._stopped = False

    def take(self, limit: int) -> ColumnSlice:
        """Up to *limit* more records."""
        start = self._at
        self._at = start + min(limit, self.remaining)
        return ColumnSlice(self._columns, start, self._at)

    def left(self) -> ColumnSlice:
        """What is still to be handed out, which this does not do."""
        return ColumnSlice(self._columns, self._at, self._at + self.remaining)

    def stop(self) -> None:
        """Hand out nothing more. The position stays where it is."""
        self._stopped = True

    def end_at(self, offset: int, nbytes: int) -> None:
        """Leave out what is at *offset* and above, before anything has been taken. All *nbytes* that there
        are count as used up then."""
        self._offsets = self._offsets[: bisect_left(self._offsets, offset)]
        self.next_offset = offset
        self.nbytes = nbytes

    @property
    def handed(self) -> int:
        """How many records have been handed out."""
        return self._at

    @property
    def remaining(self) -> int:
        """How many records are still to be handed out; 0 once stopped."""
        return 0 if self._stopped else len(self._offsets) - self._at

    @property
    def position(self) -> int:
        """The offset of the next record to be handed out; ``next_offset`` when there is none left."""
        return self._offsets[self._at] if self._at < len(self._offsets) else self.next_offset

    @property
    def last_handed(self) -> int:
        """The offset of the record handed out last; -1 before the first."""
        return self._offsets[self._at - 1] if self._at else -1


def decode_columns(
    loops: Loops,
    fill: Callable[[bool, int], Filling],
    buffer: Buffer,
    topic: str,
    partition: int,
    start_offset: int,
    *,
    position: int = 0,
    check_crcs: bool = True,
    aborted: AbortedTransactions | None = None,
    headers: bool = False,
    enough: int = _ENOUGH_RECORDS,
    most_bytes: int = INT32_MAX,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
) -> ColumnChunk:
    """The next records of a fetched *buffer* as columns: ``decode`` with another result.

    Batches, control batches, transactions, damage and the way to go on are as there. A chunk is closed after
    the batch that reaches *enough* records or 4 MiB of them, and before one that would take it beyond
    *most_bytes*, since Arrow counts the bytes of a column in 32 bits.
    """
    view = memoryview(buffer)
    reader = _ColumnReader(loops, start_offset, check_crcs, aborted, min(max_decompressed, INT32_MAX))
    reader.columns = fill(headers, min(len(view) - position, _ROOM))
    reader.enough = enough
    reader.most_bytes = most_bytes
    nbytes = reader.read(view, position)
    return ColumnChunk(topic, partition, reader.columns.finish(), reader.next_offset, nbytes)


class _ColumnReader(Reader):
    """One call of :func:`decode_columns` under way."""

    columns: Filling
    enough: int
    most_bytes: int

    @property
    def count(self) -> int:
        return self.columns.count

    def wants(self, batch: memoryview) -> bool:
        return self.columns.count < self.enough and self.nbytes < ENOUGH_BYTES

    def take_batch(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        self._check_room(len(data))
        self.columns.add(data, count, base_offset, last_delta, base_timestamp, append_time, self.next_offset)

    def take_entry(self, columns: Columns, kind: int) -> None:
        columns = columns.since(bisect_left(columns.offsets, self.next_offset))
        self._check_room(size_of(columns))
        self.columns.add_parsed(columns, kind)

    def _check_room(self, size: int) -> None:
        """What raises here is seen by nobody: it closes the chunk before this batch."""
        if self.columns.count and self.nbytes + size > self.most_bytes:
            raise too_large(self.nbytes + size)


def too_large(size: int) -> MessageTooLargeError:
    """Why *size* bytes cannot be in one column."""
    return MessageTooLargeError(f"{size} bytes do not fit a column of Arrow's, which holds 2³¹ - 1")


def readable(names: ByteColumn) -> ByteColumn:
    """Header names with what is no UTF-8 replaced, as a Message has them."""
    cells = [bytes(names.data[start:end]) for start, end in pairwise(names.offsets)]
    cells = [cell.decode("utf-8", "replace").encode() for cell in cells]
    data = b"".join(cells)
    if len(data) > INT32_MAX:
        raise too_large(len(data))
    offsets = array("i", accumulate(map(len, cells), initial=0))
    return ByteColumn(None, memoryview(offsets), memoryview(data))
