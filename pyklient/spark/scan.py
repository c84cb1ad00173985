"""A task's work: the records of one range as Arrow batches. Runs in Spark's Python workers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyklient.config import ConsumerConfig
from pyklient.consumer.decoding import Decoding
from pyklient.consumer.read import BoundedRead
from pyklient.net.client import NetworkClient
from pyklient.spark.ranges import OffsetRange

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["record_batches"]

_ROWS: int = 10_000


def record_batches(config: ConsumerConfig, wanted: OffsetRange, *, headers: bool) -> "Iterator[RecordBatch]":
    """The records of *wanted*, as many at a time as are at hand. Raises OffsetOutOfRangeError where the
    log does not have its first offset any more."""
    reading = BoundedRead(
        NetworkClient(config),
        config,
        [wanted.partition.topic],
        Decoding(check_crcs=config.check_crcs),
        {wanted.partition: (wanted.start, wanted.end)},
        exact=lambda _: True,
    )
    with reading:
        yield from reading.arrow_batches(_ROWS, headers)
