"""From positions to tasks: what of the offsets between two positions is there to be read, and its rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyklient.spark.source.data_loss import DataLoss
from pyklient.spark.source.offset_lookup import Brokers
from pyklient.spark.source.offset_ranges import OffsetRange, Offsets, split, within
from pyklient.spark.source.source_options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["RangePartition", "plan", "rows_of"]


@dataclass
class RangePartition(InputPartition):
    """What one task reads."""

    wanted: OffsetRange


def plan(brokers: Brokers, options: SourceOptions, start: Offsets, end: Offsets) -> list[RangePartition]:
    """The tasks that read from *start* to *end*, which name the same partitions.

    Raises DataLossError where records between them are gone, or warns: see ``failOnDataLoss``.
    """
    loss = DataLoss(options.fail_on_data_loss)
    logs = brokers.log_ends({each: max(start[each], end[each]) for each in end})
    ranges = []
    for each, last in end.items():
        kept, problem = within(OffsetRange(each, start[each], last), logs[each])
        if problem is not None:
            loss.report(problem)
        ranges.append(kept)
    pieces = split(ranges, at_least=options.min_partitions, most=options.max_records_per_partition)
    return [RangePartition(piece) for piece in pieces]


def rows_of(partition: InputPartition | None, options: SourceOptions) -> "Iterator[RecordBatch]":
    """What a task reads. Spark makes a partition of its own where there was nothing to plan: no rows."""
    if not isinstance(partition, RangePartition):
        return iter(())
    # Not for those who plan: it is the whole consumer.
    from pyklient.spark.source.task_reader import record_batches

    return record_batches(options, partition.wanted)
