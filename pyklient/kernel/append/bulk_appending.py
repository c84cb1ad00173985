"""Appends many records, given as lists, in Python. ``bulk_appending.pxi`` must behave exactly as this module.

The result is the same as that of a call of ``Appender.send`` for each record: the same bytes, partition and
memory accounting.
"""

from collections.abc import Iterator
from itertools import islice, repeat
from typing import Any

from pyklient.kernel.append.appender import Appender, Batch, has_plain_headers, is_plain
from pyklient.kernel.append.arrow_columns import AT_ONCE
from pyklient.kernel.append.record_encoding import murmur2
from pyklient.protocol.records.layout import INT64_MAX

__all__ = ["append_many"]


def append_many(
    appender: Appender,
    topic: str,
    start: int,
    values: list[Any],
    keys: list[Any] | None = None,
    headers: list[Any] | None = None,
    timestamps_ms: list[Any] | None = None,
    partitions: list[Any] | int | None = None,
) -> tuple[int, list[tuple[Batch, int, int]]]:
    """Append the records from index *start* on, in order, to the batches under construction of their topic.

    The lists have one item for each record. A list may be None, and then all its items are None; *partitions*
    may be one number for all records. Keys and values are bytes: no encoder and no partitioner is called.

    Stop at the first record that ``Appender.send`` cannot append by itself, or after about ``AT_ONCE`` bytes.
    Return the number of appended records, and a list of tuples (batch, first, stop), ordered by partition:
    the records *first* to *stop* - 1 of that batch were appended. If no record was appended, the caller must
    send the next one in another way.
    """
    now_ms = appender._clock_ns() // 1_000_000
    known = appender._sendable.get(topic)
    if known is None or known.count <= 0 or start < 0:
        return 0, []
    runs: dict[int, tuple[Batch, int, int]] = {}
    appended = written = 0
    with appender._lock:
        for value, key, pairs, timestamp_ms, number in _rows(
            start, values, keys, headers, timestamps_ms, partitions
        ):
            if written >= AT_ONCE or not is_plain(key, value):
                break
            if pairs is not None and not has_plain_headers(pairs):
                break
            if number is None:
                number = known.sticky if key is None else murmur2(key) % known.count
            elif number.__class__ is not int or not 0 <= number < known.count:
                break
            if timestamp_ms is None:
                timestamp_ms = now_ms
            elif timestamp_ms.__class__ is not int or not 0 <= timestamp_ms <= INT64_MAX:
                break
            batch = known.batches[number]
            if batch is None:
                break
            started, first, stop = runs.get(number) or (batch, batch.count, batch.count)
            limit, size, pairs = appender.memory_limit, batch.size, pairs or ()
            # Nothing is appended if a signal handler has sent a record in between.
            only = started, stop
            try:
                if not appender._put(known, number, value, key, timestamp_ms, pairs, None, limit, only=only):
                    break
            except UnicodeEncodeError:
                break  # a header name that is not valid text: ``send`` raises the error
            runs[number] = (batch, first, stop + 1)
            written += batch.size - size
            appended += 1
    return appended, [runs[number] for number in sorted(runs)]


def _rows(start: int, *columns: Any) -> Iterator[tuple[Any, ...]]:
    """Return the items of *columns* from index *start* on, in tuples. A column that is not a list is one item
    for all tuples."""
    items = [
        islice(column, start, None) if column.__class__ is list else repeat(column) for column in columns
    ]
    return zip(*items, strict=False)
