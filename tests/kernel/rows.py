"""Reads Arrow's buffers without pyarrow, record by record."""

from itertools import pairwise
from typing import Any

from pyklient.kernel.decode.column_decoding import ArrowColumns, ByteColumn, ColumnChunk

__all__ = ["cells", "row_of", "rows", "rows_left"]


def cells(column: ByteColumn) -> list[bytes | None]:
    """Return the byte strings of a column."""
    ends = column.offsets.tolist()
    assert ends[0] == 0
    assert ends[-1] == len(column.data)
    found: list[bytes | None] = [bytes(column.data[start:end]) for start, end in pairwise(ends)]
    if column.validity is not None:
        assert len(column.validity) == (len(found) + 7) // 8
        bits = int.from_bytes(column.validity, "little")
        assert bits >> len(found) == 0, "what lies behind the last is zero"
        for index in range(len(found)):
            if not bits >> index & 1:
                assert found[index] == b""
                found[index] = None
        assert None in found
    return found


def rows(columns: ArrowColumns) -> list[tuple[Any, ...]]:
    """Return (offset, timestamp, timestamp type, key, value, headers) of each record; headers is None if left
    out."""
    offsets = columns.offsets.tolist()
    headers: list[Any] = [None] * len(offsets)
    if columns.headers is not None:
        names = [(name or b"").decode() for name in cells(columns.headers.names)]
        pairs = list(zip(names, cells(columns.headers.values), strict=True))
        ends = columns.headers.offsets.tolist()
        assert (ends[0], ends[-1]) == (0, len(pairs))
        headers = [tuple(pairs[start:end]) for start, end in pairwise(ends)]
    return list(
        zip(
            offsets,
            columns.timestamps.tolist(),
            columns.timestamp_types.tolist(),
            cells(columns.keys),
            cells(columns.values),
            headers,
            strict=True,
        )
    )


def rows_left(chunk: ColumnChunk) -> list[tuple[Any, ...]]:
    """Return the rows that the chunk has left, without handing them out."""
    every = rows(chunk._columns)
    return every[chunk.handed : chunk.handed + chunk.remaining]


def row_of(message: Any) -> tuple[Any, ...]:
    """Return *message* as such a tuple."""
    return (
        message.offset,
        message.timestamp_ms,
        message.timestamp_type,
        message.key,
        message.value,
        message.headers,
    )
