"""Appends rows of Arrow columns to batches, in Python. ``arrow_rows.pxi`` must behave exactly as this module.

A row results in the same record as a call of ``Appender.send`` with its cells: the same bytes, partition and
memory accounting. Buffers are checked when an ArrowRows is made, so that later loops need no checks.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from pyklient.kernel.append.appender import Appender, Batch
from pyklient.kernel.append.arrow_columns import AT_ONCE, Cells, HeaderLists, Numbers
from pyklient.kernel.append.record_encoding import murmur2
from pyklient.protocol.records.layout import HeaderTuple

__all__ = ["ArrowRows", "append_rows"]

Row: TypeAlias = tuple[bytes | None, bytes | None, int | None, int | None, HeaderTuple]


class ArrowRows:
    """Records of one topic, as columns of equal length.

    *partition* is a column, or one number for all rows. If it is null or None, the partitioner chooses the
    partition. A *timestamp* is in milliseconds since 1970; null means the time at which the row is appended.
    Raises ValueError for buffers that do not have Arrow's layout, and UnicodeDecodeError (a ValueError) for a
    header name that is not UTF-8.
    """

    __module__ = "pyklient.kernel"

    def __init__(
        self,
        value: Cells,
        key: Cells | None = None,
        partition: Numbers | int | None = None,
        timestamp: Numbers | None = None,
        headers: HeaderLists | None = None,
    ) -> None:
        self.count = value.length
        """The number of rows in the columns."""
        self._everywhere = partition if isinstance(partition, int) else None
        numbers = None if isinstance(partition, int) else partition
        columns: dict[str, Cells | Numbers | HeaderLists | None] = {
            "value": value,
            "key": key,
            "partition": numbers,
            "timestamp": timestamp,
            "headers": headers,
        }
        for name, column in columns.items():
            if column is not None:
                column.check(name)
                if column.length != value.length:
                    raise ValueError(
                        f"column {name} has {column.length} rows, but column value has {value.length}"
                    )
        self._value = _Bytes("value", value)
        self._key = None if key is None else _Bytes("key", key)
        self._partition = None if numbers is None else _Numbers(numbers)
        self._timestamp = None if timestamp is None else _Numbers(timestamp)
        self._headers = [()] * self.count if headers is None else list(_headers(headers))

    def row(self, index: int) -> Row:
        """Return the value, key, partition, timestamp and headers of row *index*, as arguments of
        ``send``."""
        if not 0 <= index < self.count:
            raise IndexError(f"there is no row {index}: there are only {self.count} rows")
        partition, timestamp, key = self._partition, self._timestamp, self._key
        return (
            self._value[index],
            None if key is None else key[index],
            self._everywhere if partition is None else partition[index],
            None if timestamp is None else timestamp[index],
            self._headers[index],
        )


def append_rows(
    appender: Appender, topic: str, rows: ArrowRows, start: int
) -> tuple[int, list[tuple[Batch, int, int]]]:
    """Append rows from row *start* on, in order, to the batches under construction of their partitions.

    Stop at the first row that does not fit into its batch, or after about ``AT_ONCE`` bytes. Return the
    number of appended rows, and a list of tuples (batch, first, stop), ordered by partition: the records
    *first* to *stop* - 1 of that batch were appended. If no row was appended, the caller must pass the next
    row to ``send``. If the producer has encoders or a partitioner, no row is appended.
    """
    known = appender._sendable.get(topic)
    if known is None or not 0 <= start <= rows.count or known.count <= 0 or not appender._plain:
        return 0, []
    runs: list[tuple[int, Batch, int, int]] = []
    latest: dict[int, int] = {}
    written = 0
    index = start
    with appender._lock:
        now_ms = appender._clock_ns() // 1_000_000
        while index < rows.count and written < AT_ONCE:
            value, key, number, timestamp_ms, headers = rows.row(index)
            if number is None:
                number = known.sticky if key is None else murmur2(key) % known.count
            time_ms = now_ms if timestamp_ms is None else timestamp_ms
            batch = known.batches[number] if 0 <= number < known.count else None
            if batch is None or time_ms < 0:
                break
            size = batch.size
            delivery = appender._put(known, number, value, key, time_ms, headers, None, appender.memory_limit)
            if delivery is None:
                break
            written += batch.size - size
            index += 1
            batch, at = delivery.batch_and_index
            # There is a gap if a signal handler has sent a record in between.
            run = latest.get(number)
            if run is not None and runs[run][1:] == (batch, runs[run][2], at):
                runs[run] = (number, batch, runs[run][2], at + 1)
            else:
                latest[number] = len(runs)
                runs.append((number, batch, at, at + 1))
    return index - start, [run[1:] for run in sorted(runs, key=_partition_of)]


def _partition_of(run: tuple[int, Batch, int, int]) -> int:
    return run[0]


class _Bits:
    """Tells which cells of a column are not null: the item at a cell's index is True if the cell is not
    null."""

    def __init__(self, column: Cells | Numbers | HeaderLists) -> None:
        self._bits = None if column.validity is None else memoryview(column.validity).cast("B")
        self._first = column.first

    def __getitem__(self, index: int) -> bool:
        index += self._first
        return self._bits is None or bool(self._bits[index >> 3] >> (index & 7) & 1)


class _Ranges:
    """The start and the end of each cell of a column, as positions in the column's data. The data begins at
    position *base* and ends at *base* + *size*."""

    def __init__(self, name: str, column: Cells | HeaderLists, size: int, base: int = 0) -> None:
        self._valid = _Bits(column)
        width = 8 if column.wide else 4
        end = column.first + column.length + 1 if column.length else column.first
        raw: Any = memoryview(column.offsets).cast("B")[column.first * width : end * width]
        self._offsets: list[int] = raw.cast("q" if column.wide else "i").tolist()
        last = base
        for offset in (*self._offsets, base + size):
            if offset < last:
                raise ValueError(f"the offsets of column {name} do not increase from {base} to {base + size}")
            last = offset

    def __getitem__(self, index: int) -> tuple[int, int] | None:
        if not self._valid[index]:
            return None
        return self._offsets[index], self._offsets[index + 1]


class _Bytes:
    def __init__(self, name: str, column: Cells) -> None:
        self._data = memoryview(column.data).cast("B")
        self._ranges = _Ranges(name, column, len(self._data))

    def __getitem__(self, index: int) -> bytes | None:
        found = self._ranges[index]
        return None if found is None else bytes(self._data[found[0] : found[1]])


class _Numbers:
    def __init__(self, column: Numbers) -> None:
        self._valid = _Bits(column)
        raw: Any = memoryview(column.data).cast("B")[8 * column.first : 8 * (column.first + column.length)]
        self._numbers = raw.cast("q")

    def __getitem__(self, index: int) -> int | None:
        return int(self._numbers[index]) if self._valid[index] else None


def _headers(column: HeaderLists) -> Iterator[HeaderTuple]:
    names, values = _Bytes("headers.key", column.names), _Bytes("headers.value", column.values)
    ranges, base = _Ranges("headers", column, column.names.length, column.base), column.base
    for index in range(column.length):
        first, stop = ranges[index] or (base, base)
        yield tuple([(_text(names[at]), values[at]) for at in range(first - base, stop - base)])


def _text(name: bytes | None) -> str:
    if name is None:
        raise ValueError("column headers has a header whose name is null")
    return name.decode()
