"""Batch reads: a range of each partition, settled when the query is planned."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyklient.errors import ConfigurationError
from pyklient.spark.source.offset_lookup import Brokers
from pyklient.spark.source.offset_ranges import Offsets
from pyklient.spark.source.source_options import SourceOptions
from pyklient.spark.source.task_planning import RangePartition, plan, rows_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["BatchReader"]


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on the executors; pickled in between."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[RangePartition]:
        """The tasks of the query. Spark asks once for each load(), when that is first used."""
        options = self._options
        with Brokers(options.config) as brokers:
            partitions = brokers.partitions(options.subscription)
            start = brokers.offsets(partitions, options.start)
            end = brokers.offsets(partitions, options.end)
            _refuse_backwards(options, start, end)
            return plan(brokers, options, start, end)

    def read(self, partition: InputPartition | None) -> "Iterator[RecordBatch]":
        """The rows of one task."""
        return rows_of(partition, self._options)


def _refuse_backwards(options: SourceOptions, start: Offsets, end: Offsets) -> None:
    """Raises ConfigurationError for bounds that turn out to be the wrong way round. To begin behind the end
    of the log is another matter: there records are gone."""
    for each, last in end.items():
        if last < start[each] and not options.end.is_latest(each):
            raise ConfigurationError(
                f"{options.end.option} of {each} is offset {last}, before {options.start.option}, "
                f"offset {start[each]}"
            )
