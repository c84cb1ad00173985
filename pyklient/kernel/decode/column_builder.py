"""Decodes records into Arrow columns, in Python. ``column_builder.pxi`` must behave exactly as this
module."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from pyklient.kernel.decode.column_decoding import (
    MOST_MILLISECONDS,
    ArrowColumns,
    ByteColumn,
    HeaderColumn,
    too_large,
)
from pyklient.kernel.decode.record_parsing import parse_records
from pyklient.protocol.records.compression import Decompressor
from pyklient.protocol.records.layout import (
    CREATE_TIME,
    INT32_MAX,
    LOG_APPEND_TIME,
    Buffer,
    Columns,
    HeaderTuple,
)

__all__ = ["ColumnBuilder", "memory", "microseconds"]

_NO_HEADERS: Final[HeaderTuple] = ()


def memory(size: int) -> memoryview:
    """Return *size* writable bytes. Their content is undefined until something is written."""
    return memoryview(bytearray(size))


def microseconds(milliseconds: memoryview, start: int, stop: int) -> memoryview | None:
    """Return a copy of the numbers *start* to *stop* - 1 of the column *milliseconds*, converted to
    microseconds.

    Return None if a result needs more than 64 bits.
    """
    if not 0 <= start <= stop <= len(milliseconds):
        raise IndexError(f"rows {start} to {stop} do not exist: the column has {len(milliseconds)} rows")
    numbers = milliseconds[start:stop].tolist()
    if numbers and not -MOST_MILLISECONDS <= min(numbers) <= max(numbers) <= MOST_MILLISECONDS:
        return None
    return memoryview(array("q", [number * 1000 for number in numbers]))


class ColumnBuilder:
    """Collects records in columns. The columns that *left_out* names are not made. *size* is the expected
    number of bytes of all records."""

    def __init__(self, left_out: frozenset[str], size: int = 0) -> None:
        self.count = 0
        self._left_out = left_out
        self._offsets = array("q")
        self._timestamps = array("q")
        self._timestamp_types = array("i")
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[HeaderTuple] | None = [] if "headers" not in left_out else None

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
        they were before.
        """
        parsed = parse_records(data, count, base_offset, last_delta, base_timestamp)
        parsed = parsed.since(bisect_left(parsed.offsets, start_offset))
        if append_time is not None:
            parsed.timestamps[:] = [append_time] * len(parsed.timestamps)
        self.add_parsed(parsed, CREATE_TIME if append_time is None else LOG_APPEND_TIME)

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
        """Append nothing. In the compiled kernel, this method appends the records of the plain batches from
        byte *position* of *data* on; this kernel appends each batch by ``add``.

        Return *position*, *start_offset* and 0: the position after the appended batches, the offset to
        continue at, and the bytes of their records.
        """
        return position, start_offset, 0

    def add_parsed(self, parsed: Columns, timestamp_type: int) -> None:
        """Append the records in *parsed*, which were parsed already."""
        offsets, timestamps, keys, values, headers = parsed
        count = len(offsets)
        self._offsets.extend(offsets)
        if "timestamp" not in self._left_out:
            self._timestamps.extend(timestamps)
        if "timestampType" not in self._left_out:
            self._timestamp_types.extend([timestamp_type] * count)
        if "key" not in self._left_out:
            self._keys += keys
        if "value" not in self._left_out:
            self._values += values
        if self._headers is not None:
            self._headers += [headers.get(index, _NO_HEADERS) for index in range(count)]
        self.count += count

    def finish(self) -> ArrowColumns:
        """Return the columns that were collected. Nothing may be added afterwards."""
        return ArrowColumns(
            memoryview(self._offsets),
            memoryview(self._timestamps),
            memoryview(self._timestamp_types),
            _column(self._keys),
            _column(self._values),
            None if self._headers is None else _header_column(self._headers),
        )


def _column(cells: Sequence[bytes | None]) -> ByteColumn:
    data = b"".join(filter(None, cells))
    if len(data) > INT32_MAX:
        raise too_large(len(data))
    offsets = array("i", accumulate((len(cell or b"") for cell in cells), initial=0))
    validity = None
    if None in cells:
        bits = "".join("0" if cell is None else "1" for cell in reversed(cells))
        validity = memoryview(int(bits, 2).to_bytes((len(cells) + 7) // 8, "little"))
    return ByteColumn(validity, memoryview(offsets), memoryview(data))


def _header_column(headers: Sequence[HeaderTuple]) -> HeaderColumn:
    pairs = [pair for of_one in headers for pair in of_one]
    offsets = array("i", accumulate(map(len, headers), initial=0))
    names = _column([name.encode() for name, _ in pairs])
    return HeaderColumn(memoryview(offsets), names, _column([value for _, value in pairs]))
