"""Sends each row of Arrow record batches as one record, without creating Python objects for the values."""

import importlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.producer.producer import Producer
from pyklient.spark.deduplication import TaskOrigin
from pyklient.spark.sink.producer_cache import UnconfirmedDeliveries

__all__ = ["COLUMNS", "count_batch", "send_batches"]

pyarrow: Any = importlib.import_module("pyarrow")
compute: Any = importlib.import_module("pyarrow.compute")

COLUMNS: Final = ("value", "key", "partition", "headers", "timestamp")
"""The columns that are used for a record, besides the topic. Other columns are ignored, as in Spark's own
sink."""

_HEADERS: Final = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def send_batches(
    producer: Producer,
    batches: Iterable[Any],
    topic: str | None,
    origin: TaskOrigin | None,
    columns: Iterable[str] = COLUMNS,
) -> int:
    """Send a record for each row of *batches*, which are pyarrow RecordBatches. Return the number of records;
    the caller must wait for their deliveries.

    Only the columns named in *columns* are used. If *origin* is given, each record gets headers that identify
    its row. Raises DeliveryError as soon as a failed delivery is noticed, and ConfigurationError or TypeError
    for a batch that cannot be sent.
    """
    wanted = frozenset(columns)
    unconfirmed = UnconfirmedDeliveries()
    count = 0
    for batch in batches:
        for name, rows in _by_topic(_with_headers(batch, origin, count), topic):
            chosen = rows.select([each for each in rows.schema.names if each in wanted])
            unconfirmed.add(producer.send_arrow(name, chosen))
        count += batch.num_rows
    return count


def count_batch(partition: int, records: int) -> Any:
    """Return an Arrow record batch with one row: the number of a Spark partition, and the number of records
    that were sent from this partition."""
    columns = {"partition": (partition, pyarrow.int32()), "records": (records, pyarrow.int64())}
    return pyarrow.record_batch(
        {name: pyarrow.array([value], kind) for name, (value, kind) in columns.items()}
    )


def _by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    if topic is not None:
        yield topic, batch
        return
    if "topic" not in batch.schema.names:
        raise ConfigurationError("the rows have no topic: set `topic`, or add a column `topic` to the rows")
    column = batch.column("topic")
    if column.null_count:
        raise ConfigurationError(
            "column `topic` is null in some rows: remove these rows, or set the option `topic` to send all "
            "rows to one topic"
        )
    names = column.unique().to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(compute.equal(column, name))


def _with_headers(batch: Any, origin: TaskOrigin | None, first: int) -> Any:
    """Return *batch* with the headers that identify its rows. They are added after the headers that a row
    already has. If *origin* is None, no headers are added.

    *first* is the number of the first row within the task.
    """
    if origin is None:
        return batch
    headers: list[Any] = origin.headers(first, batch.num_rows)
    index = batch.schema.get_field_index("headers")
    if index < 0:
        return batch.append_column("headers", pyarrow.array(headers, _HEADERS))
    theirs = batch.column(index).to_pylist()
    both = [
        [*((each["key"], each["value"]) for each in others or ()), *own]
        for others, own in zip(theirs, headers, strict=True)
    ]
    return batch.set_column(index, "headers", pyarrow.array(both, _HEADERS))
