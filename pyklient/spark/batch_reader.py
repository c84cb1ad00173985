"""Batch reads: a range of each partition, settled when the query is planned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyklient.spark.positions import Brokers
from pyklient.spark.ranges import OffsetRange, split
from pyklient.spark.scan import record_batches
from pyklient.spark.source_options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["BatchReader", "RangePartition"]


@dataclass
class RangePartition(InputPartition):
    """What one task reads."""

    wanted: OffsetRange


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on the executors; pickled in between."""

    def __init__(self, options: SourceOptions, *, headers: bool) -> None:
        self._options = options
        self._headers = headers

    def partitions(self) -> Sequence[RangePartition]:
        """The tasks of the query. Asks the brokers, each time that Spark plans."""
        options = self._options
        with Brokers(options.config) as brokers:
            partitions = brokers.partitions(options.topics)
            starts = brokers.offsets(partitions, options.start)
            ends = brokers.offsets(partitions, options.end)
        ranges = [OffsetRange(each, starts[each], ends[each]) for each in partitions]
        return [RangePartition(each) for each in split(ranges)]

    def read(self, partition: InputPartition | None) -> "Iterator[RecordBatch]":
        """The rows of *partition*. Spark makes one without content where there is nothing to read."""
        if not isinstance(partition, RangePartition):
            return iter(())
        return record_batches(self._options.config, partition.wanted, headers=self._headers)
