"""Columns as Arrow's RecordBatches, not copied. Alone here pyarrow is imported, when it is needed.

The schema is that of Spark's Kafka source: key, value, topic, partition, offset, timestamp (in microseconds,
UTC) and timestampType; headers on request.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyklient.extras import without_pyarrow
from pyklient.protocol.records.columns import ByteColumn, ColumnChunk, HeaderColumn

try:
    import pyarrow
except ImportError as error:
    raise without_pyarrow() from error

__all__ = ["Assembly", "schema", "table"]

_MILLISECONDS: Final = pyarrow.timestamp("ms", tz="UTC")
_MICROSECONDS: Final = pyarrow.timestamp("us", tz="UTC")
_FURTHEST: Final = (2**63 - 1) // 1000
_HEADER: Final = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
_HEADERS: Final = pyarrow.list_(pyarrow.field("element", _HEADER))
_FIELDS: Final = (
    ("key", pyarrow.binary()),
    ("value", pyarrow.binary()),
    ("topic", pyarrow.string()),
    ("partition", pyarrow.int32()),
    ("offset", pyarrow.int64()),
    ("timestamp", _MICROSECONDS),
    ("timestampType", pyarrow.int32()),
)


def schema(*, headers: bool) -> pyarrow.Schema:
    """The schema of all batches, with a column of headers or without."""
    return pyarrow.schema([*_FIELDS, ("headers", _HEADERS)] if headers else _FIELDS)


def table(batches: Iterable[pyarrow.RecordBatch], *, headers: bool) -> pyarrow.Table:
    """All *batches* in one table, not copied."""
    return pyarrow.Table.from_batches(batches, schema(headers=headers))


class Assembly:
    """Makes the batches of one loop."""

    def __init__(self, *, headers: bool) -> None:
        self.schema = schema(headers=headers)
        self.nothing = pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([], field.type) for field in self.schema], schema=self.schema
        )
        """A batch of no records."""
        self._with_headers = headers
        self._topics: dict[str, pyarrow.Array] = {}

    def batch(self, chunk: ColumnChunk, most: int) -> pyarrow.RecordBatch:
        """What *chunk* goes on with, *most* records of it or all; nothing is handed out by that."""
        columns, start, stop = chunk.left()
        count = min(most, stop - start)
        timestamps = _numbers(columns.timestamps, _MILLISECONDS, start, count)
        arrays = [
            _strings(columns.keys, pyarrow.binary(), start, count),
            _strings(columns.values, pyarrow.binary(), start, count),
            self._topic(chunk.topic, count),
            pyarrow.repeat(pyarrow.scalar(chunk.partition, pyarrow.int32()), count),
            _numbers(columns.offsets, pyarrow.int64(), start, count),
            _in_microseconds(timestamps, columns.timestamps[start : start + count]),
            _numbers(columns.timestamp_types, pyarrow.int32(), start, count),
        ]
        if self._with_headers and columns.headers is not None:
            arrays.append(_headers(columns.headers, start, count))
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _topic(self, topic: str, count: int) -> pyarrow.Array:
        """The same name again and again: made once, in advance, since all batches can share it."""
        known = self._topics.get(topic)
        if known is None or len(known) < count:
            known = pyarrow.repeat(pyarrow.scalar(topic, pyarrow.string()), 1 << (count - 1).bit_length())
            self._topics[topic] = known
        return known.slice(0, count)


def _numbers(column: memoryview, kind: pyarrow.DataType, start: int, count: int) -> pyarrow.Array:
    return pyarrow.Array.from_buffers(kind, count, [None, pyarrow.py_buffer(column)], 0, start)


def _strings(column: ByteColumn, kind: pyarrow.DataType, start: int, count: int) -> pyarrow.Array:
    validity = None if column.validity is None else pyarrow.py_buffer(column.validity)
    buffers = [validity, pyarrow.py_buffer(column.offsets), pyarrow.py_buffer(column.data)]
    return pyarrow.Array.from_buffers(kind, count, buffers, 0 if validity is None else -1, start)


def _headers(column: HeaderColumn, start: int, count: int) -> pyarrow.Array:
    total = column.offsets[-1]
    names = _strings(column.names, pyarrow.string(), 0, total)
    values = _strings(column.values, pyarrow.binary(), 0, total)
    pairs = pyarrow.Array.from_buffers(_HEADER, total, [None], 0, children=[names, values])
    offsets = pyarrow.py_buffer(column.offsets)
    return pyarrow.Array.from_buffers(_HEADERS, count, [None, offsets], 0, start, children=[pairs])


def _in_microseconds(timestamps: pyarrow.Array, milliseconds: Sequence[int]) -> pyarrow.Array:
    try:
        return timestamps.cast(_MICROSECONDS)
    except pyarrow.ArrowInvalid:
        # A producer may write any 64 bits; what lies beyond the year 294,000 must not make a log unreadable.
        fitting = [each * 1000 if abs(each) <= _FURTHEST else None for each in milliseconds]
        return pyarrow.array(fitting, _MICROSECONDS)
