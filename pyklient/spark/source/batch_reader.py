"""The reader of batch queries. It reads a range of offsets of each partition.

The ranges are determined once, when Spark plans the query.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyklient.errors import ConfigurationError
from pyklient.spark.source.offset_lookup import OffsetLookup
from pyklient.spark.source.offset_ranges import Offsets
from pyklient.spark.source.source_options import SourceOptions
from pyklient.spark.source.task_planning import RangePartition, plan_tasks, read_task

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["BatchReader"]


class BatchReader(DataSourceReader):
    """The reader of a batch query: it plans the tasks on the driver, and reads their records on the
    executors.

    Spark pickles this object to send it to the executors.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[RangePartition]:
        """Return the tasks of the query. Spark calls this method once for each DataFrame, when its rows are
        first used."""
        options = self._options
        with OffsetLookup(options.config) as lookup:
            partitions = lookup.partitions(options.subscription)
            start = lookup.offsets(partitions, options.start)
            end = lookup.offsets(partitions, options.end)
            _require_order(options, start, end)
            return plan_tasks(lookup, options, start, end)

    def read(self, partition: InputPartition | None) -> "Iterator[RecordBatch]":
        """Return the rows of *partition*, which is one task of Spark, as Arrow record batches."""
        return read_task(partition, self._options)


def _require_order(options: SourceOptions, start: Offsets, end: Offsets) -> None:
    """Raise ConfigurationError if the user has set an end offset that is before the start offset of the same
    partition.

    If the end is "latest", no error is raised here. A start after the latest offset means that records were
    lost, and ``plan_tasks`` reports the loss.
    """
    for each, last in end.items():
        if last < start[each] and not options.end.is_latest(each):
            raise ConfigurationError(
                f"{options.end.option} of {each} is offset {last}, which is before offset {start[each]} of "
                f"{options.start.option}"
            )
