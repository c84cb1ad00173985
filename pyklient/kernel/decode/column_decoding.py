"""Decodes a fetched buffer into columns in Arrow's memory layout.

The compiled kernel and the Python kernel both use this module.

The bytes of keys and values are copied once, from the decompressed batch into their column, and no object is
made per record. pyarrow is not needed here: a column consists of a few buffers, in the machine's byte order.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, Protocol

from pyklient.errors import MessageTooLargeError
from pyklient.kernel.decode.batch_reader import ENOUGH_BYTES, BatchReader, RecordLoops, size_of
from pyklient.protocol.records.aborted_transactions import AbortedTransactions
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED, Decompressor
from pyklient.protocol.records.layout import INT32_MAX, Buffer, Columns

__all__ = [
    "MOST_MILLISECONDS",
    "OPTIONAL_COLUMNS",
    "ArrowColumns",
    "ByteColumn",
    "ColumnChunk",
    "ColumnSlice",
    "Builder",
    "HeaderColumn",
    "decode_columns",
    "readable",
    "too_large",
]

MOST_MILLISECONDS: Final = (2**63 - 1) // 1000
"""The largest number of milliseconds before or after 1970 that still fits into 64 bits when it is converted
to microseconds."""

OPTIONAL_COLUMNS: Final = frozenset(("key", "value", "timestamp", "timestampType", "headers"))
"""The names of the columns that can be left out. The column of offsets is always made, because the position
of a reader is read from it."""
_ENOUGH_RECORDS: Final = 100_000
_MOST_RESERVED: Final = ENOUGH_BYTES + (1 << 20)
"""The largest number of bytes that is reserved for the columns of a chunk. The last batch of a chunk may go
beyond ``ENOUGH_BYTES``, so this number is larger."""


class ByteColumn(NamedTuple):
    """A column of byte strings, some of which may be null."""

    validity: memoryview | None
    """A bit for each byte string, lowest bit first: 0 if the byte string is null. None if no byte string is
    null."""
    offsets: memoryview
    """The start of each byte string in *data*, and the end of the last one, as int32."""
    data: memoryview


class HeaderColumn(NamedTuple):
    """A column with the headers of each record, as lists of (name, value)."""

    offsets: memoryview
    """For each record, the index of its first header among all headers, as int32. One more item at the end is
    the number of all headers."""
    names: ByteColumn
    """The names of the headers, in UTF-8."""
    values: ByteColumn


class ArrowColumns(NamedTuple):
    """The records of a chunk, as one column per field, in Arrow's layout. A column that was left out is
    empty."""

    offsets: memoryview
    """The offset of each record in its partition, as int64."""
    timestamps: memoryview
    """The timestamp of each record in milliseconds since 1970, as int64; -1 means no timestamp."""
    timestamp_types: memoryview
    """The timestamp type of each record, as int32: 0 CreateTime, 1 LogAppendTime, -1 none (format 0)."""
    keys: ByteColumn
    values: ByteColumn
    headers: HeaderColumn | None
    """The headers of each record; None if they were left out."""


class ColumnSlice(NamedTuple):
    """The records *start* to *stop* - 1 of a chunk, as columns."""

    columns: ArrowColumns
    start: int
    stop: int


class Builder(Protocol):
    """The type of objects that collect records in columns. Each kernel has its own class."""

    count: int
    """The number of records that were collected so far."""

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
        """Append the records of a batch of format 2, from offset *start_offset* on.

        *data* has all records of the batch, encoded. *append_time* is the timestamp of all of them if the
        broker has set one, otherwise None. The other arguments are fields of the batch's header. Raises
        CorruptRecordError if *data* is not *count* well-formed records. After an error, the columns are as
        they were before, and nothing more may be added.
        """

    def add_batches(
        self,
        data: memoryview,
        position: int,
        start_offset: int,
        most_records: int,
        most_bytes: int,
        most_in_columns: int,
        check_crcs: bool,
        none_aborted_below: int,
        decompress: Decompressor,
    ) -> tuple[int, int, int]:
        """Append the records of plain batches from byte *position* of *data* on. A plain batch has format 2
        and is not damaged. Transactional batches from the offset *none_aborted_below* on are not plain.
        *decompress* gets the number of a codec and compressed records, and returns the records.

        Stop after the batch that brings the number of records to *most_records*, or the added bytes to
        *most_bytes*. Stop before a batch that would bring the added bytes above *most_in_columns*, unless it
        is the first.

        Return the position after these batches, the offset to continue at, and the bytes of their records.
        """

    def add_parsed(self, columns: Columns, timestamp_type: int) -> None:
        """Append the records in *columns*, which were parsed already."""

    def finish(self) -> ArrowColumns:
        """Return the columns that were collected. Nothing may be added afterwards."""


class ColumnChunk:
    """Decoded records of one partition in columns, in order, with a count of the records that were handed
    out.

    Like a ``Chunk``, it hands out each record once. The reading thread gets the records in slices. If several
    threads read a chunk, they must use a lock.
    """

    __slots__ = (
        "_at", "_columns", "_offsets", "_stopped", "left_out", "nbytes", "next_offset", "partition", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        columns: ArrowColumns,
        next_offset: int,
        nbytes: int,
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        """The offset at which reading continues after this chunk, and after the control records, gaps and
        aborted batches that follow it."""
        self.nbytes = nbytes
        """The size in bytes of the part of the fetched buffer that was decoded into this chunk."""
        self.left_out = left_out
        """The names of the columns that were not made, out of ``OPTIONAL_COLUMNS``."""
        self._columns = columns
        self._offsets = columns.offsets
        self._at = 0
        self._stopped = False

    def hand_out(self, limit: int) -> ColumnSlice:
        """Return a slice with up to *limit* more records, and count these as handed out."""
        start = self._at
        self._at = start + min(limit, self.remaining)
        return ColumnSlice(self._columns, start, self._at)

    def left(self) -> ColumnSlice:
        """Return the records that have not been handed out, without handing them out."""
        return ColumnSlice(self._columns, self._at, self._at + self.remaining)

    def stop(self) -> None:
        """Hand out no more records from now on. The position does not change."""
        self._stopped = True

    def end_at(self, offset: int, nbytes: int) -> None:
        """End the chunk before *offset*. *nbytes* is the new size in bytes of the chunk's part of the fetched
        buffer. No record may have been handed out yet."""
        self._offsets = self._offsets[: bisect_left(self._offsets, offset)]
        self.next_offset = offset
        self.nbytes = nbytes

    @property
    def handed(self) -> int:
        """The number of records that were handed out."""
        return self._at

    @property
    def remaining(self) -> int:
        """The number of records that have not been handed out; 0 after ``stop``."""
        return 0 if self._stopped else len(self._offsets) - self._at

    @property
    def position(self) -> int:
        """The offset of the next record to hand out, or ``next_offset`` if all records were handed out."""
        return self._offsets[self._at] if self._at < len(self._offsets) else self.next_offset

    @property
    def last_handed(self) -> int:
        """The offset of the last record that was handed out; -1 if none was."""
        return self._offsets[self._at - 1] if self._at else -1


def decode_columns(
    loops: RecordLoops,
    new_builder: Callable[[frozenset[str], int], Builder],
    buffer: Buffer,
    topic: str,
    partition: int,
    start_offset: int,
    *,
    position: int = 0,
    check_crcs: bool = True,
    aborted: AbortedTransactions | None = None,
    left_out: frozenset[str] = frozenset(),
    enough: int = _ENOUGH_RECORDS,
    most_bytes: int = INT32_MAX,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
) -> ColumnChunk:
    """Return the next records of a fetched *buffer* as columns, without the columns in *left_out*.

    Control batches, transactions, errors and the position to continue at are handled as in ``decode`` of
    ``message_decoding``, which returns the same records as messages. A chunk ends after the batch that makes
    it reach *enough* records or 4 MiB. It ends earlier if the next batch would make it larger than
    *most_bytes*, because Arrow counts the bytes of a column in 32 bits.
    """
    view = memoryview(buffer)
    builder = new_builder(left_out, min(len(view) - position, _MOST_RESERVED))
    reader = _ColumnReader(
        loops,
        start_offset,
        check_crcs,
        aborted,
        min(max_decompressed, INT32_MAX),
        builder,
        enough,
        most_bytes,
    )
    nbytes = reader.read(view, position)
    return ColumnChunk(topic, partition, builder.finish(), reader.next_offset, nbytes, left_out)


class _ColumnReader(BatchReader):
    """Collects records in columns, during one call of :func:`decode_columns`."""

    def __init__(
        self,
        loops: RecordLoops,
        start_offset: int,
        check_crcs: bool,
        aborted: AbortedTransactions | None,
        max_decompressed: int,
        builder: Builder,
        enough: int,
        most_bytes: int,
    ) -> None:
        super().__init__(loops, start_offset, check_crcs, aborted, max_decompressed)
        self._builder = builder
        self._enough = enough
        self._most_bytes = most_bytes

    @property
    def count(self) -> int:
        return self._builder.count

    def add_batches(self, view: memoryview, position: int) -> int:
        position, self.next_offset, size = self._builder.add_batches(
            view,
            position,
            self.next_offset,
            self._enough,
            ENOUGH_BYTES - self.nbytes,
            self._most_bytes - self.nbytes,
            self._check_crcs,
            self.none_aborted_below,
            self._decompress,
        )
        self.nbytes += size
        return position

    def has_space_for(self, batch: memoryview) -> bool:
        return self._builder.count < self._enough and self.nbytes < ENOUGH_BYTES

    def add_batch(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        self._check_size(len(data))
        self._builder.add(data, count, base_offset, last_delta, base_timestamp, append_time, self.next_offset)

    def add_entry(self, columns: Columns, kind: int) -> None:
        columns = columns.since(bisect_left(columns.offsets, self.next_offset))
        self._check_size(size_of(columns))
        self._builder.add_parsed(columns, kind)

    def _check_size(self, size: int) -> None:
        """Raise an error if the columns would be too large with *size* more bytes. ``read`` then ends the
        chunk before the batch with these bytes."""
        if self._builder.count and self.nbytes + size > self._most_bytes:
            raise too_large(self.nbytes + size)


def too_large(size: int) -> MessageTooLargeError:
    """Return the error for a column that would have *size* bytes."""
    return MessageTooLargeError(
        f"{size} bytes do not fit in an Arrow column, which holds at most 2³¹ - 1 bytes"
    )


def readable(names: ByteColumn) -> ByteColumn:
    """Return the header names in *names*, with invalid UTF-8 replaced as in a Message."""
    cells = [bytes(names.data[start:end]) for start, end in pairwise(names.offsets)]
    cells = [cell.decode("utf-8", "replace").encode() for cell in cells]
    data = b"".join(cells)
    if len(data) > INT32_MAX:
        raise too_large(len(data))
    offsets = array("i", accumulate(map(len, cells), initial=0))
    return ByteColumn(None, memoryview(offsets), memoryview(data))
