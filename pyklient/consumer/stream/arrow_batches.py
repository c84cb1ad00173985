"""Makes Arrow RecordBatches of columns, without copying. Programs that need no Arrow batches do not import
this module, because it imports pyarrow.

The schema is that of Spark's Kafka source: key, value, topic, partition, offset, timestamp (in microseconds,
UTC) and timestampType. A column headers is added on request. A program may choose some of these columns.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.kernel import microseconds
from pyklient.kernel.decode.column_decoding import (
    MOST_MILLISECONDS,
    ArrowColumns,
    ByteColumn,
    ColumnChunk,
    HeaderColumn,
)
from pyklient.missing_packages import without_pyarrow

try:
    import pyarrow
except ImportError as error:
    raise without_pyarrow() from error

__all__ = ["Assembly", "column_names", "table"]

_MICROSECONDS: Final = pyarrow.timestamp("us", tz="UTC")
_HEADER: Final = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
_HEADERS: Final = pyarrow.list_(pyarrow.field("element", _HEADER))
_MOST_REPEATED: Final = 32
"""The largest number of columns with one repeated value that are kept for later batches. Each column has a
few hundred KiB."""
_TYPES: Final = {
    "key": pyarrow.binary(),
    "value": pyarrow.binary(),
    "topic": pyarrow.string(),
    "partition": pyarrow.int32(),
    "offset": pyarrow.int64(),
    "timestamp": _MICROSECONDS,
    "timestampType": pyarrow.int32(),
    "headers": _HEADERS,
}


def column_names(columns: Iterable[str] | None, *, headers: bool) -> tuple[str, ...]:
    """Return the names of the columns of a batch: *columns*, or all columns if it is None. In the latter
    case, the headers are included only if *headers* is true.

    Raises ConfigurationError if *columns* is empty, has a name that is unknown or repeated, or is given
    although *headers* is true.
    """
    argument_checks.flag(headers, "headers")
    if columns is None:
        return tuple(name for name in _TYPES if headers or name != "headers")
    names = tuple(argument_checks.several(columns, "columns"))
    if headers:
        raise ConfigurationError(
            "headers=True cannot be used with columns; to get the headers, add 'headers' to columns"
        )
    known = ", ".join(_TYPES)
    if not names:
        raise ConfigurationError(f"columns is empty; name at least one of {known}")
    for index, name in enumerate(names):
        if not isinstance(name, str) or name not in _TYPES:
            raise ConfigurationError(
                f"the argument columns names {name!r}, which is not a column; the columns are {known}"
            )
        if name in names[:index]:
            raise ConfigurationError(
                f"the argument columns names {name!r} twice; name each column once, out of {known}"
            )
    return names


def _schema(columns: Sequence[str]) -> pyarrow.Schema:
    return pyarrow.schema([(name, _TYPES[name]) for name in columns])


def table(batches: Iterable[pyarrow.RecordBatch], columns: Sequence[str]) -> pyarrow.Table:
    """Return one table with *columns* that consists of the records of all *batches*, without copying them."""
    return pyarrow.Table.from_batches(batches, _schema(columns))


class Assembly:
    """Makes the Arrow record batches that one loop gets. *columns* names the columns of these batches."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.schema = _schema(columns)
        self.nothing = pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([], field.type) for field in self.schema], schema=self.schema
        )
        """A batch without records, which a loop gets if no record arrives within its time-out."""
        self._names = tuple(columns)
        self._repeated: dict[str | int, pyarrow.Array] = {}

    def batch(self, chunk: ColumnChunk, most: int) -> pyarrow.RecordBatch:
        """Return up to *most* of the next records of *chunk* as a batch. The caller then counts these records
        as handed out."""
        columns, start, stop = chunk.left()
        count = min(most, stop - start)
        arrays = [self._array(name, chunk, columns, start, count) for name in self._names]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(
        self, name: str, chunk: ColumnChunk, columns: ArrowColumns, start: int, count: int
    ) -> pyarrow.Array:
        """Return the column *name* of the *count* records of *chunk* from row *start* on."""
        match name:
            case "key":
                return _strings(columns.keys, pyarrow.binary(), start, count)
            case "value":
                return _strings(columns.values, pyarrow.binary(), start, count)
            case "topic":
                return self._repeat(chunk.topic, pyarrow.string(), count)
            case "partition":
                return self._repeat(chunk.partition, pyarrow.int32(), count)
            case "offset":
                return _numbers(columns.offsets, pyarrow.int64(), start, count)
            case "timestamp":
                return _timestamps(columns.timestamps, start, count)
            case "timestampType":
                return _numbers(columns.timestamp_types, pyarrow.int32(), start, count)
            case _:
                return _headers(columns.headers, start, count)

    def _repeat(self, value: str | int, kind: pyarrow.DataType, count: int) -> pyarrow.Array:
        """Return a column of one repeated value. The column is made once, because all batches can share
        it."""
        known = self._repeated.get(value)
        if known is None or len(known) < count:
            if len(self._repeated) >= _MOST_REPEATED:
                self._repeated.clear()
            known = pyarrow.repeat(pyarrow.scalar(value, kind), 1 << (count - 1).bit_length())
            self._repeated[value] = known
        return known.slice(0, count)


def _numbers(column: memoryview, kind: pyarrow.DataType, start: int, count: int) -> pyarrow.Array:
    return pyarrow.Array.from_buffers(kind, count, [None, pyarrow.py_buffer(column)], 0, start)


def _strings(column: ByteColumn, kind: pyarrow.DataType, start: int, count: int) -> pyarrow.Array:
    validity = None if column.validity is None else pyarrow.py_buffer(column.validity)
    buffers = [validity, pyarrow.py_buffer(column.offsets), pyarrow.py_buffer(column.data)]
    return pyarrow.Array.from_buffers(kind, count, buffers, 0 if validity is None else -1, start)


def _headers(column: HeaderColumn | None, start: int, count: int) -> pyarrow.Array:
    if column is None:
        raise ValueError("the records were decoded without their headers, so there is no column headers")
    total = column.offsets[-1]
    names = _strings(column.names, pyarrow.string(), 0, total)
    values = _strings(column.values, pyarrow.binary(), 0, total)
    pairs = pyarrow.Array.from_buffers(_HEADER, total, [None], 0, children=[names, values])
    offsets = pyarrow.py_buffer(column.offsets)
    return pyarrow.Array.from_buffers(_HEADERS, count, [None, offsets], 0, start, children=[pairs])


def _timestamps(column: memoryview, start: int, count: int) -> pyarrow.Array:
    converted = microseconds(column, start, start + count)
    if converted is not None:
        return _numbers(converted, _MICROSECONDS, 0, count)
    # A producer may write any 64 bits. Timestamps after the year 294,000 must not make a log unreadable.
    fitting = [
        each * 1000 if abs(each) <= MOST_MILLISECONDS else None for each in column[start : start + count]
    ]
    return pyarrow.array(fitting, _MICROSECONDS)
