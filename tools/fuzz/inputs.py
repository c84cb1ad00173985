"""Mutated input for both kernels: the part of ``python -m tools.fuzz`` that each of its processes runs.

It runs as a file, so that the sanitized build of the package is imported.
"""

import ctypes
import random
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from pyklient.errors import CorruptRecordError
from pyklient.kernel import _kernel, encode_batch, python_kernel
from pyklient.kernel.append.arrow_columns import Cells, HeaderLists, Numbers
from pyklient.kernel.decode.column_decoding import OPTIONAL_COLUMNS
from pyklient.protocol.records import (
    AbortedTransactions,
    Compression,
    NewRecord,
)

FIELDS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "key",
    "value",
    "headers",
)
EDGES: Final = (0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
INT64: Final = (1 << 63) - 1
LIMIT: Final = 1 << 20
_AT_ONCE: Final = 200
NUMBERS: Final = (0, 1, 63, 64, 8191, 8192, 1 << 31, 1 << 32, 1 << 62, INT64)


def exact(data: bytes) -> memoryview:
    """Return a copy of the data without the extra byte that Python puts behind its buffers."""
    return memoryview((ctypes.c_char * len(data)).from_buffer_copy(data)).cast("B")


def outcome(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result or the error of a call, in a form that can be compared."""
    try:
        result = call(*arguments, **options)
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", [])
    if isinstance(result, list):
        return [tuple(getattr(message, name) for name in FIELDS) for message in result]
    return result


def _iterated(*arguments: Any) -> list[Any]:
    """Return the messages that an iterator of the compiled kernel makes of a section."""
    iterator = _kernel.MessageIterator("t", 1)
    iterator.add(*arguments)
    return list(iterator)


def _moved(batch: bytes, offset: int) -> bytes:
    """Return *batch* with another base offset. In formats 0 and 1, this is the offset of the last record."""
    return offset.to_bytes(8, "big") + batch[8:]


class Fuzz:
    """Makes inputs from one seed and runs them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.sections = [self._section() for _ in range(200)]
        self.batches = [
            encode_batch(self._records(magic), magic=magic, compression=codec, base_offset=3)
            for magic in (0, 1, 2)
            for codec in Compression
            if magic == 2 or codec != Compression.ZSTD
            for _ in range(4)
        ]

    def some(self) -> int:
        """Try some inputs and return their number. Raises AssertionError if the kernels do not agree."""
        kind = self.chance.random()
        if kind < 0.5:
            return self._bytes_of_a_section()
        if kind < 0.75:
            self._records_section()
        elif kind < 0.8:
            self._batch()
        elif kind < 0.85:
            self._columns()
        elif kind < 0.92:
            self._encoding()
        elif kind < 0.96:
            self._arrow_rows()
        else:
            self._appending()
        return 1

    def _bytes_of_a_section(self) -> int:
        """Try many inputs, which differ in a byte or two, on the compiled kernel, and the last on both."""
        chance = self.chance
        data, count = chance.choice(self.sections)
        view = exact(data)
        size = len(view)
        columns = chance.random() < 0.5
        for _ in range(_AT_ONCE):
            at, next_at = int(chance.random() * size), int(chance.random() * size)
            before, next_before = view[at], view[next_at]
            view[next_at] = EDGES[int(chance.random() * len(EDGES))]
            view[at] = int(chance.random() * 256)
            with suppress(CorruptRecordError):
                if columns:
                    _kernel.ColumnBuilder(frozenset()).add(view, count, 0, count, 5, None, 0)
                else:
                    run = _kernel.MessageIterator("t", 0)
                    run.add(view, count, 0, count, 5, None, 0)
                    # which is safe, if not right
                    view[next_at] = next_before
                    list(run)
            view[next_at] = next_before
            view[at] = before
        view[at] = chance.choice(EDGES)
        self._same("parse_records", view, count, 0, count, 5)
        return _AT_ONCE + 1

    def _same(self, name: str, *arguments: Any, **options: Any) -> Any:
        python = outcome(getattr(python_kernel, name), *arguments, **options)
        compiled = outcome(getattr(_kernel, name), *arguments, **options)
        if python != compiled:
            raise AssertionError(f"{name}{arguments} {options}: {python} is not {compiled}")
        return python

    def _bytes(self, most: int = 40) -> bytes | None:
        if self.chance.random() < 0.2:
            return None
        size = self.chance.choice((0, 1, 5, most, self.chance.randrange(most), self.chance.randrange(300)))
        return self.chance.randbytes(size)

    def _headers(self) -> tuple[tuple[str, bytes | None], ...]:
        count = self.chance.choice((0, 0, 0, 1, 2, 70))
        return tuple((self.chance.choice(("", "name", "größe")), self._bytes(8)) for _ in range(count))

    def _records(self, magic: int = 2) -> list[NewRecord]:
        count = self.chance.choice((1, 2, 3, 8))
        return [
            NewRecord(
                1000 + self.chance.choice((0, 5, 70, 1 << 20)),
                self._bytes(),
                self._bytes(),
                self._headers() if magic == 2 else (),
            )
            for _ in range(count)
        ]

    def _section(self) -> tuple[bytes, int]:
        records = self._records()
        return encode_batch(records)[61:], len(records)

    def _mutated(self, data: bytes) -> bytes:
        mutated = bytearray(data)
        chance = self.chance
        for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
            if not mutated:
                break
            at = chance.randrange(len(mutated))
            what = chance.random()
            if what < 0.6:
                mutated[at] = chance.choice(EDGES)
            elif what < 0.75:
                mutated[at] = chance.randrange(256)
            elif what < 0.85:
                del mutated[at:]
            elif what < 0.95:
                del mutated[at : at + chance.randrange(1, 12)]
            else:
                mutated[at:at] = chance.choice((b"\xff" * 12, b"\x80" * 9 + b"\x01", b"\x00" * 20))
        return bytes(mutated)

    def _records_section(self) -> None:
        chance = self.chance
        data, count = chance.choice(self.sections)
        view = exact(self._mutated(data))
        count = count if chance.random() < 0.9 else chance.choice((-1, 0, 1, 7, 1 << 31))
        base = chance.choice((0, 3, INT64 - 4, -5, -INT64 - 1))
        arguments = (view, count, base, count + chance.choice((-1, 0, 3)), chance.choice((5, INT64, -INT64)))
        if chance.random() < 0.5:
            self._same("parse_records", *arguments)
        else:
            start = min(base + chance.choice((0, 1, 5)), INT64)
            stamp = chance.choice((None, 7))
            messages = outcome(python_kernel.parse_messages, *arguments, stamp, "t", 1, start)
            iterated = outcome(_iterated, *arguments, stamp, start)
            if iterated != messages:
                raise AssertionError(f"{arguments}, {stamp}, {start}: {iterated} is not {messages}")

    def _batch(self) -> None:
        chance = self.chance
        whole = b"".join(
            _moved(chance.choice(self.batches), 10 * index) for index in range(chance.choice((0, 0, 1, 4)))
        )
        view = exact(whole + self._mutated(_moved(chance.choice(self.batches), 50)))
        options = {"check_crcs": chance.random() < 0.1, "max_decompressed": LIMIT}
        transactions = chance.random() < 0.5
        results = []
        for kernel in (python_kernel, _kernel):
            aborted = AbortedTransactions([(-1, 0), (5, 3)]) if transactions else None
            try:
                chunk = kernel.decode(view, "t", 0, 0, aborted=aborted, **options)
                results.append((outcome(lambda chunk=chunk: list(chunk)), chunk.nbytes, chunk.next_offset))
            except Exception as error:
                results.append((type(error), str(error), 0))
        if results[0] != results[1]:
            raise AssertionError(f"decode({bytes(view)!r}, {options}): {results[0]} is not {results[1]}")

    def _columns(self) -> None:
        """Try two batches, so that an error in the second is found after columns have been filled."""
        data = self.chance.choice(self.batches) if self.chance.random() < 0.5 else b""
        data += self._mutated(self.chance.choice(self.batches))
        view = exact(data)
        start = self.chance.choice((0, 0, 4, 6))
        options = {
            "check_crcs": self.chance.random() < 0.1,
            "max_decompressed": LIMIT,
            "left_out": frozenset(name for name in sorted(OPTIONAL_COLUMNS) if self.chance.random() < 0.2),
            "most_bytes": self.chance.choice((1, 200, LIMIT)),
        }
        results = []
        for kernel in (python_kernel, _kernel):
            aborted = AbortedTransactions([(-1, 0), (5, 3)])
            try:
                chunk = kernel.decode_columns(view, "t", 0, start, aborted=aborted, **options)
                results.append((chunk._columns, chunk.nbytes, chunk.next_offset))
            except Exception as error:
                results.append((type(error), str(error), 0))
        if results[0] != results[1]:
            raise AssertionError(f"columns of {data!r}, {options}: {results[0]} is not {results[1]}")

    def _encoding(self) -> None:
        key, value, headers = self._bytes(), self._bytes(), self._headers()
        number = self.chance.choice(NUMBERS)
        self._same("encode_record", number, self.chance.choice(NUMBERS), key, value, headers)
        self._same("encode_record", -number, 0, key, value, list(headers))
        self._same("encode_records", self.chance.choice((self._records(), [(5, key, value, ())])), number)
        self._same("murmur2", exact(value or b""))

    def _arrow_rows(self) -> None:
        """Return columns that are mostly valid in Arrow, in buffers that end exactly where the columns do."""
        chance = self.chance
        length = chance.choice((0, 1, 2, 7, 8, 9, 30))
        value, key, names, values = (self._cells(length) for _ in range(4))
        if chance.random() < 0.9:
            names = names._replace(validity=None)
        base = chance.choice((0, 0, 3))
        lists = self._cells(length, most=1)._replace(data=b"")
        headers = HeaderLists(*lists[:3], self._offsets(lists, base), names, values, base, lists.wide)
        numbers = [Numbers(length, 0, None, exact(chance.randbytes(8 * length))) for _ in range(2)]
        small = b"".join(chance.choice((0, 1, 2, 300)).to_bytes(8, "little") for _ in range(length))
        numbers += [Numbers(length, 0, value.validity and exact(bytes(value.validity)), exact(small))] * 4
        columns = (
            value,
            chance.choice((None, key, key)),
            chance.choice((None, 0, 1, -1, *numbers)),
            chance.choice((None, *numbers)),
            chance.choice((None, headers)),
        )
        results = [outcome(self._append_rows, kernel, columns) for kernel in (python_kernel, _kernel)]
        if results[0] != results[1]:
            raise AssertionError(f"rows of {columns}: {results[0]} is not {results[1]}")

    def _cells(self, length: int, most: int = 20) -> Cells:
        chance = self.chance
        first = chance.choice((0, 0, 1, 9))
        wide = chance.random() < 0.3
        bits = chance.choice((None, exact(chance.randbytes((first + length + 7) // 8))))
        sizes = [chance.choice((0, 1, 5, most)) for _ in range(first + length)]
        data = bytes(chance.choice(b"abc") for _ in range(sum(sizes)))
        cells = Cells(length, first, bits, b"", exact(data + chance.choice((b"", b"", b"\xff"))), wide)
        return cells._replace(offsets=self._offsets(cells, 0, sizes))

    def _offsets(self, cells: Cells, base: int, sizes: Sequence[int] | None = None) -> memoryview:
        """Return the offsets of cells; now and then one of them is random or missing."""
        chance = self.chance
        ends = [base]
        for size in sizes or [chance.choice((0, 0, 0, 1, 2)) for _ in range(cells.first + cells.length)]:
            ends.append(ends[-1] + size)
        if chance.random() < 0.1:
            ends[chance.randrange(len(ends))] = chance.choice((-1, 0, 1 << 30, ends[-1] + 1))
        if chance.random() < 0.02:
            ends.pop()
        return exact(array("q" if cells.wide else "i", ends).tobytes())

    def _append_rows(self, kernel: Any, columns: Any) -> Any:
        rows = kernel.ArrowRows(*columns)
        appender = kernel.Appender(
            lambda *_: None, Tracker(), lambda: 7_000_000, batch_size=300, memory_limit=5_000
        )
        appender.set_partitions("t", 2)
        batches = [appender.begin_batch("t", partition, 0.0) for partition in range(2)]
        calls = []
        for start in range(rows.count):
            taken, runs = kernel.append_rows(appender, "t", rows, start)
            calls.append((rows.row(start), taken, [(batches.index(batch), *run) for batch, *run in runs]))
        return calls, [(batch.count, batch.charged, bytes(batch.payload())) for batch in batches]

    def _appending(self) -> None:
        size, limit = self.chance.choice((50, 500, 5000)), self.chance.choice((500, 5000, 1 << 30))
        steps = [
            (
                self.chance.choice((self._bytes(), self._bytes(600), 5, "text")),
                self.chance.choice((None, self._bytes(), 5)),
                self.chance.choice((None, None, 0, 1, 2, -1, 1 << 70, True)),
                self.chance.choice((0, 5, INT64, -1, 1 << 63, 1.5)),
                self.chance.choice((None, [], self._headers(), [("\ud800", b"")], [(b"n", b"")], 5)),
                self.chance.choice((None, print, 5)),
            )
            for _ in range(self.chance.randrange(1, 12))
        ]
        results = [self._append(kernel, steps, size, limit) for kernel in (python_kernel, _kernel)]
        if results[0] != results[1]:
            raise AssertionError(f"appending {steps}: {results[0]} is not {results[1]}")

    def _append(self, kernel: Any, steps: list[Any], size: int, limit: int) -> Any:
        appender = kernel.Appender(
            lambda *_: None, Tracker(), lambda: 7_000_000, batch_size=size, memory_limit=limit
        )
        appender.set_partitions("t", 2)
        batches = [appender.begin_batch("t", partition, 0.0) for partition in range(2)]
        places = []
        for value, key, partition, timestamp, headers, callback in steps:
            delivery = appender.send("t", value, key, partition, timestamp, headers, callback)
            places.append(
                delivery and (batches.index(delivery.batch_and_index[0]), delivery.batch_and_index[1])
            )
        values, keys, numbers, times, headers, _ = (list(column) for column in zip(*steps, strict=True))
        for columns in ((values,), (values, keys, headers, times, numbers), (values, None, None, times, 1)):
            for start in range(-1, len(steps) + 1):
                taken, runs = kernel.append_many(appender, "t", start, *columns)
                places.append((taken, [(batches.index(batch), *run) for batch, *run in runs]))
        facts = [(batch.count, batch.size, batch.charged, bytes(batch.payload())) for batch in batches]
        heard = [len(batch.report(0, batch.count, 5, -1, None) or ()) for batch in batches if batch.count]
        return places, facts, heard, appender.used_memory


class Tracker:
    """A tracker that no caller waits for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def wait(self, batch: Any, timeout: float | None) -> bool:
        return bool(batch.done)

    def unseen(self, batch: Any, change: int, error: Exception) -> None: ...


def main() -> None:
    seed, inputs = int(sys.argv[1]), int(sys.argv[2])
    fuzz = Fuzz(seed)
    while inputs > 0:
        inputs -= fuzz.some()


if __name__ == "__main__":
    main()
