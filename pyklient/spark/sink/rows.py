"""Sends each of Spark's rows as one record. A thousand rows are converted at a time."""

import gc
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice, repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pyklient.errors import ConfigurationError
from pyklient.kernel import Delivery
from pyklient.producer.bulk_delivery import BulkDelivery
from pyklient.producer.producer import Producer
from pyklient.spark.deduplication import Headers, TaskOrigin
from pyklient.spark.sink.producer_cache import UnconfirmedDeliveries

__all__ = ["Record", "rare_collections", "send_rows"]

_CHUNK_ROWS: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NONE: Final = type(None)
_COLLECTION_THRESHOLD: Final = 50_000
"""The number of allocated objects that starts a garbage collection, instead of Python's default of 700.
This many rows need only a few megabytes."""

_senders: list[None] = []
"""A list that has one item for each ``with`` block of ``rare_collections`` that is running. Only its length
matters."""
_usual_thresholds: tuple[int, int, int] | None = None
"""The thresholds of the garbage collector before ``rare_collections`` changed them; None if they are
unchanged. They are restored when the last ``with`` block ends."""


class Record(NamedTuple):
    """A record to send, with the columns of Spark's own Kafka sink and a timestamp.

    *value* and *key* are bytes, or text that is sent as UTF-8. *topic* is used only if the sink has no
    topic. *headers* are (name, value) pairs. *timestamp* is a datetime, or milliseconds since 1970.
    """

    value: bytes | str | None
    key: bytes | str | None = None
    topic: str | None = None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    timestamp: datetime | int | None = None


_FIELDS: Final = frozenset(Record._fields)
_Columns = dict[str, list[Any]]


def send_rows(
    producer: Producer,
    rows: Iterable[Any],
    topic: str | None,
    to_record: Callable[[Any], Any] | None,
    origin: TaskOrigin | None,
    columns: Collection[str] = Record._fields,
) -> int:
    """Send a record for each of *rows*. Return the number of records; the caller must wait for their
    deliveries.

    The column ``topic`` and the columns named in *columns* are used. If *origin* is given, each record gets
    headers that identify its row. Raises DeliveryError as soon as a failed delivery is noticed, and
    ConfigurationError or TypeError for a row that cannot be sent.
    """
    wanted = frozenset(columns) | {"topic"}
    iterator = iter(rows) if to_record is None else map(to_record, rows)
    unconfirmed = UnconfirmedDeliveries()
    count = 0
    with rare_collections():
        while chunk := list(islice(iterator, _CHUNK_ROWS)):
            found = _columns(chunk, wanted)
            if origin is not None:
                own = origin.headers(count, len(chunk))
                found["headers"] = own if "headers" not in found else _joined(found["headers"], own)
            unconfirmed.add(_send(producer, topic, found))
            count += len(chunk)
    return count


def _send(producer: Producer, topic: str | None, columns: _Columns) -> Delivery | BulkDelivery:
    """Send a record for each row of *columns*. Return the delivery of the last record, or one delivery for
    all records."""
    topics = _topics(topic, columns)
    values = columns.pop("value")
    if not columns and topic is not None:
        return producer.send_many(topic, values)
    nothing = repeat(None)
    others = [columns.get(name, nothing) for name in ("key", "partition", "timestamp", "headers")]
    while others and others[-1] is nothing:
        others.pop()
    # deque(map(…)) makes no Python frame for each row.
    return deque(map(producer.send, topics, values, *others), maxlen=1)[0]


def _topics(topic: str | None, columns: _Columns) -> Iterable[str]:
    column = columns.pop("topic", None)
    if topic is not None:
        return repeat(topic)
    if column is None:
        raise ConfigurationError("the rows have no topic: set `topic`, or add a column `topic` to the rows")
    if None in column:
        raise ConfigurationError(
            "column `topic` is null in some rows: remove these rows, or set the option `topic` to send all "
            "rows to one topic"
        )
    return column


def _columns(chunk: list[Any], wanted: Container[str]) -> _Columns:
    """Return the columns of the rows in *chunk*, converted to arguments of ``Producer.send``. Only columns
    named in *wanted* are returned; the column ``value`` is required."""
    names, rows = _same_fields(chunk)
    found = {
        # Rows are tuples: each name is looked up once, and the slower Row.__getitem__ is not called.
        name: list(map(tuple.__getitem__, rows, repeat(index)))
        for index, name in enumerate(names)
        if name in wanted
    }
    if "value" not in found:
        raise ConfigurationError(
            f"the rows have no column `value` (their columns: {', '.join(map(str, names)) or 'none'}); "
            "rename a column, as in df.select(col('page').alias('value')), "
            "or return a Record from `to_record`"
        )
    return {name: _CONVERT[name](name, column) for name, column in found.items() if not _empty(name, column)}


def _empty(name: str, column: list[Any]) -> bool:
    return name not in ("value", "topic") and column.count(None) == len(column)


def _same_fields(chunk: list[Any]) -> tuple[Sequence[str], list[Any]]:
    """Return a list of field names, and rows that all have these fields in this order.

    These rows are *chunk* itself, or Records that have been made from its rows.
    """
    for attribute in ("__fields__", "_fields"):
        try:
            fields = list(map(attrgetter(attribute), chunk))
        except AttributeError:
            continue
        # `Row("a", "b")` has no names, and then no attribute __fields__ either.
        if fields.count(fields[0]) == len(chunk):
            return fields[0], chunk
    return Record._fields, list(map(_as_record, chunk))


def _as_record(item: Any) -> Record:
    if isinstance(item, bytes | bytearray | str):
        return Record(bytes(item) if isinstance(item, bytearray) else item)
    fields = getattr(item, "__fields__", None) or getattr(item, "_fields", None)
    named: Mapping[str, Any]
    if fields is not None:
        named = dict(zip(fields, item, strict=True))
    elif isinstance(item, Mapping):
        named = item
    elif isinstance(item, tuple) and len(item) == 2:
        return Record(key=item[0], value=item[1])
    else:
        raise TypeError(
            f"a row is of type {type(item).__name__}: it must be a Row, a Record, a mapping, a pair (key, "
            "value) or a value; pass a function `to_record` that converts it"
        )
    if "value" not in named:
        fields_found = ", ".join(map(str, named)) or "no fields at all"
        raise ConfigurationError(f"a row has no field `value`, only {fields_found}")
    return Record(**{name: value for name, value in named.items() if name in _FIELDS})


def _as_bytes(name: str, column: list[Any]) -> list[Any]:
    kinds = set(map(type, column))
    if kinds <= {bytes, _NONE}:
        return column
    if kinds == {str}:
        return list(map(str.encode, column))
    if kinds == {bytearray}:
        return list(map(bytes, column))
    return [_one_as_bytes(name, each) for each in column]


def _one_as_bytes(name: str, value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"column `{name}` must be STRING or BINARY, but a row has {type(value).__name__}: convert it with "
        f"CAST({name} AS STRING) or to_json({name})"
    )


def _unchanged(_name: str, column: list[Any]) -> list[Any]:
    return column


def _as_milliseconds(_name: str, column: list[Any]) -> list[Any]:
    return [_milliseconds(each) if isinstance(each, datetime) else each for each in column]


def _milliseconds(moment: datetime) -> int:
    # Spark passes a TIMESTAMP as a naive datetime in the worker's own time zone.
    return (moment.astimezone(UTC) - _EPOCH) // _MILLISECOND


def _as_headers(_name: str, column: list[Any]) -> list[Headers | None]:
    return [None if each is None else list(_pairs(each)) for each in column]


def _pairs(headers: Iterable[Any]) -> Iterator[tuple[str, bytes | None]]:
    for header in headers:
        name, value = (header["key"], header["value"]) if isinstance(header, Mapping) else header
        yield name, _one_as_bytes("headers.value", value)


def _joined(headers: list[Headers | None], own: list[Headers]) -> list[Headers]:
    return [[*(theirs or ()), *ours] for theirs, ours in zip(headers, own, strict=True)]


_CONVERT: Final[dict[str, Callable[[str, list[Any]], list[Any]]]] = {
    "value": _as_bytes,
    "key": _as_bytes,
    "topic": _unchanged,
    "partition": _unchanged,
    "headers": _as_headers,
    "timestamp": _as_milliseconds,
}


@contextmanager
def rare_collections() -> Iterator[None]:
    """Make Python's garbage collector run less often during the ``with`` block, in all threads.

    The collector tracks every row, although each row is freed soon and is never part of a reference cycle.
    With the default threshold, the collector would use a fifth of a worker's time. If the collector is
    switched off or has a higher threshold, nothing is changed.

    Threads need no lock: if one block ends while another begins, the collector may run more often in the
    other block, but the thresholds are still restored in the end.
    """
    global _usual_thresholds
    _senders.append(None)
    thresholds = gc.get_threshold()
    if 0 < thresholds[0] < _COLLECTION_THRESHOLD:
        _usual_thresholds = thresholds
        gc.set_threshold(_COLLECTION_THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        _senders.pop()
        if not _senders:
            usual, _usual_thresholds = _usual_thresholds, None
            if usual is not None:
                gc.set_threshold(*usual)
