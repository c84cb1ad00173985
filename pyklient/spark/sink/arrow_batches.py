"""Sends the rows of Arrow record batches, each as one record, without Python objects for the values."""

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
"""The columns of a record besides its topic. Other columns are ignored, as in Spark's own sink."""

_HEADERS: Final = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def send_batches(
    producer: Producer,
    batches: Iterable[Any],
    topic: str | None,
    origin: TaskOrigin | None,
    columns: Iterable[str] = COLUMNS,
) -> int:
    """Send a record for each row. Return the number of records, which are not confirmed yet.

    *batches* are RecordBatches of pyarrow. Only their columns named in *columns* are used. If *origin* is
    given, headers that identify its row are added to each record. Raises DeliveryError as soon as a delivery
    is known to have failed, and ConfigurationError or TypeError for a batch that cannot be sent.
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
    """Return a batch with one row, which says how many *records* one of Spark's partitions has sent."""
    columns = {"partition": (partition, pyarrow.int32()), "records": (records, pyarrow.int64())}
    return pyarrow.record_batch(
        {name: pyarrow.array([value], kind) for name, (value, kind) in columns.items()}
    )


def _by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    if topic is not None:
        yield topic, batch
        return
    if "topic" not in batch.schema.names:
        raise ConfigurationError("no topic to send to: set `topic`, or add a column `topic` to the rows")
    column = batch.column("topic")
    if column.null_count:
        raise ConfigurationError(
            "column `topic` is null in some rows: filter these rows, or set `topic`, which holds for all rows"
        )
    names = column.unique().to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(compute.equal(column, name))


def _with_headers(batch: Any, origin: TaskOrigin | None, first: int) -> Any:
    """Return *batch* with the headers that identify its rows added after the rows' own headers.

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
