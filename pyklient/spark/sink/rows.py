"""Spark's rows as records: which of their columns a record is made of, a thousand rows at a time."""

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pyklient.errors import ConfigurationError
from pyklient.producer.bulk_delivery import BulkDelivery
from pyklient.producer.producer import Producer
from pyklient.protocol.records.kernel import Delivery
from pyklient.spark.deduplication import Headers, Origin
from pyklient.spark.sink.garbage import rare_collections
from pyklient.spark.sink.producer_cache import Unconfirmed

__all__ = ["Record", "send_rows"]

_AT_ONCE: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NONE: Final = type(None)


class Record(NamedTuple):
    """What a row becomes: the columns of Spark's Kafka sink, and the time.

    *value* and *key* are bytes, or text, which is sent as UTF-8. *topic* counts where the sender has none of
    its own. *headers* are (name, value) pairs. *timestamp* is a datetime, or milliseconds since 1970.
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
    origin: Origin | None,
    columns: Collection[str] = Record._fields,
) -> int:
    """Send a record for each of *rows*, and return how many they were. They are not confirmed yet.

    Of the *columns* (and the topic) those count that a row has. Raises DeliveryError as soon as some are seen
    to have failed; ConfigurationError and TypeError for rows that no record can be made of.
    """
    wanted = frozenset(columns) | {"topic"}
    iterator = iter(rows) if to_record is None else map(to_record, rows)
    unconfirmed = Unconfirmed()
    count = 0
    with rare_collections():
        while chunk := list(islice(iterator, _AT_ONCE)):
            found = _columns(chunk, wanted)
            if origin is not None:
                own = origin.headers(count, len(chunk))
                found["headers"] = own if "headers" not in found else _joined(found["headers"], own)
            unconfirmed.add(_send(producer, topic, found))
            count += len(chunk)
    return count


def _send(producer: Producer, topic: str | None, columns: _Columns) -> Delivery | BulkDelivery:
    """Send a record per row; returns something that tells of the last of them, or of all."""
    topics = _topics(topic, columns)
    values = columns.pop("value")
    if not columns and topic is not None:
        return producer.send_many(topic, values)
    nothing = repeat(None)
    rest = [columns.get(name, nothing) for name in ("key", "partition", "timestamp", "headers")]
    while rest and rest[-1] is nothing:
        rest.pop()
    # No Python frame per row.
    return deque(map(producer.send, topics, values, *rest), maxlen=1)[0]


def _topics(topic: str | None, columns: _Columns) -> Iterable[str]:
    column = columns.pop("topic", None)
    if topic is not None:
        return repeat(topic)
    if column is None:
        raise ConfigurationError(
            "no topic to send to: name it in `topic`, or let the rows have a column `topic`"
        )
    if None in column:
        raise ConfigurationError(
            "a row has null for its topic: name a topic in `topic`, which counts for all rows, or filter them"
        )
    return column


def _columns(chunk: list[Any], wanted: Container[str]) -> _Columns:
    """The *wanted* columns, as ``send`` takes them; ``value`` is one of them."""
    names, rows = _same_fields(chunk)
    found = {
        # Rows are tuples: the name of a column is looked up once, and Row's own __getitem__ is passed by.
        name: list(map(tuple.__getitem__, rows, repeat(index)))
        for index, name in enumerate(names)
        if name in wanted
    }
    if "value" not in found:
        raise ConfigurationError(
            f"the rows have no column `value`, only {', '.join(map(str, names)) or 'none at all'}: rename "
            "one, df.select(col('page').alias('value')), or make a Record of each in `to_record`"
        )
    return {name: _CONVERT[name](name, column) for name, column in found.items() if not _empty(name, column)}


def _empty(name: str, column: list[Any]) -> bool:
    return name not in ("value", "topic") and column.count(None) == len(column)


def _same_fields(chunk: list[Any]) -> tuple[Sequence[str], list[Any]]:
    """Rows that have the same fields in the same order, and these: as they are, or as Records."""
    for attribute in ("__fields__", "_fields"):
        try:
            fields = list(map(attrgetter(attribute), chunk))
        except AttributeError:
            continue
        # `Row("a", "b")` has no names of its own; its __fields__ is no attribute then.
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
            f"no record can be made of {type(item).__name__}: a row is a Row, a Record, a mapping, a pair "
            "(key, value), or a value alone; `to_record` can make it so"
        )
    if "value" not in named:
        raise ConfigurationError(f"a row has no field `value`, only {', '.join(map(str, named)) or 'none'}")
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
        f"column `{name}` must be STRING or BINARY, and a row has {type(value).__name__} there: "
        f"cast it, CAST({name} AS STRING), or make JSON of it, to_json({name})"
    )


def _as_they_are(_name: str, column: list[Any]) -> list[Any]:
    return column


def _as_milliseconds(_name: str, column: list[Any]) -> list[Any]:
    return [_milliseconds(each) if isinstance(each, datetime) else each for each in column]


def _milliseconds(moment: datetime) -> int:
    # Spark's TIMESTAMP arrives in the worker's own time zone, without saying so.
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
    "topic": _as_they_are,
    "partition": _as_they_are,
    "headers": _as_headers,
    "timestamp": _as_milliseconds,
}
