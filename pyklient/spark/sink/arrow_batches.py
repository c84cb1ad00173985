"""Spark's record batches as records: their columns go to the kernel as they are."""

import importlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.producer.producer import Producer
from pyklient.spark.deduplication import Origin
from pyklient.spark.sink.producer_cache import Unconfirmed

__all__ = ["COLUMNS", "send_batches", "sent"]

pyarrow: Any = importlib.import_module("pyarrow")
compute: Any = importlib.import_module("pyarrow.compute")

COLUMNS: Final = ("value", "key", "partition", "headers", "timestamp")
"""What a record is made of, beside its topic. Other columns are passed over, as Spark's sink does."""

_HEADERS: Final = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def send_batches(
    producer: Producer,
    batches: Iterable[Any],
    topic: str | None,
    origin: Origin | None,
    columns: Iterable[str] = COLUMNS,
) -> int:
    """Send a record for each row, and return how many they were. They are not confirmed yet.

    *batches* are RecordBatches of pyarrow; of the *columns* those count that there are. Raises DeliveryError
    as soon as some are seen to have failed; ConfigurationError and TypeError for a batch that records cannot
    be made of.
    """
    wanted = frozenset(columns)
    unconfirmed = Unconfirmed()
    count = 0
    for batch in batches:
        own = _stamped(batch, origin, count)
        for name, rows in _by_topic(own, topic):
            chosen = rows.select([each for each in rows.schema.names if each in wanted])
            unconfirmed.add(producer.send_arrow(name, chosen))
        count += batch.num_rows
    return count


def sent(partition: int, records: int) -> Any:
    """A batch of one row, which says how many *records* one of Spark's partitions has sent."""
    columns = {"partition": (partition, pyarrow.int32()), "records": (records, pyarrow.int64())}
    return pyarrow.record_batch(
        {name: pyarrow.array([value], kind) for name, (value, kind) in columns.items()}
    )


def _by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    if topic is not None:
        yield topic, batch
        return
    if "topic" not in batch.schema.names:
        raise ConfigurationError(
            "no topic to send to: name it in `topic`, or let the rows have a column `topic`"
        )
    column = batch.column("topic")
    if column.null_count:
        raise ConfigurationError(
            "a row has null for its topic: name a topic in `topic`, which counts for all rows, or filter them"
        )
    names = column.unique().to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(compute.equal(column, name))


def _stamped(batch: Any, origin: Origin | None, first: int) -> Any:
    """*batch* with the headers of *origin*, after those that its rows have."""
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
