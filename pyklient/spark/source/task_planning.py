"""Plans the tasks of a batch or micro-batch on the driver. Each task reads one range of offsets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyklient.spark.source.data_loss import DataLoss, available
from pyklient.spark.source.offset_lookup import OffsetLookup
from pyklient.spark.source.offset_ranges import OffsetRange, Offsets, split_ranges
from pyklient.spark.source.source_options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["RangePartition", "plan_tasks", "read_task"]


@dataclass
class RangePartition(InputPartition):
    """A task that reads one range of offsets, in the form in which Spark passes it to an executor."""

    wanted: OffsetRange


def plan_tasks(
    lookup: OffsetLookup, options: SourceOptions, start: Offsets, end: Offsets
) -> list[RangePartition]:
    """Return the tasks that read from *start* to *end*. *start* must have an offset for every partition of
    *end*.

    If records between *start* and *end* were deleted, raises DataLossError, or logs a warning if the option
    ``failOnDataLoss`` is false.
    """
    loss = DataLoss(options.fail_on_data_loss)
    logs = lookup.log_ends({each: max(start[each], end[each]) for each in end})
    ranges = []
    for each, last in end.items():
        kept, problem = available(OffsetRange(each, start[each], last), logs[each])
        if problem is not None:
            loss.report(problem)
        ranges.append(kept)
    parts = split_ranges(ranges, min_count=options.min_partitions, max_size=options.max_records_per_partition)
    return [RangePartition(part) for part in parts]


def read_task(partition: InputPartition | None, options: SourceOptions) -> "Iterator[RecordBatch]":
    """Return the rows of *partition*, which is one task of Spark, as Arrow record batches.

    If a query has no tasks, Spark creates a task whose *partition* is of another type. This task has no rows.
    """
    if not isinstance(partition, RangePartition):
        return iter(())
    # Imported here because it imports the whole consumer, which planning does not need.
    from pyklient.spark.source.task_reader import record_batches

    return record_batches(options, partition.wanted)
