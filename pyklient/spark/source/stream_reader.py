"""The reader of streaming queries: returns offsets, tasks and rows when Spark asks for them.

There is one reader for each run of a query, in a Python process beside the driver, and each task reads with a
copy of the reader. ``micro_batch_end`` determines the offsets. They are returned in the JSON form of Spark's
own Kafka source.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyklient.errors import ConfigurationError
from pyklient.spark.offsets_json import OffsetsJson, from_json, to_json
from pyklient.spark.source.data_loss import DataLoss, RecreatedTopics
from pyklient.spark.source.micro_batch_end import MicroBatchEnd
from pyklient.spark.source.offset_lookup import OffsetLookup
from pyklient.spark.source.source_options import SourceOptions
from pyklient.spark.source.task_planning import RangePartition, plan_tasks, read_task

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["StreamReader", "stream_reader"]


class StreamReader(DataSourceStreamReader):
    """Plans micro-batches beside the driver, and reads their records on the executors.

    Spark pickles this object and sends it to the executors before the object has connected to any broker.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._recreated = RecreatedTopics()

    @cached_property
    def _lookup(self) -> OffsetLookup:
        return OffsetLookup(self._options.config)

    @cached_property
    def _end(self) -> MicroBatchEnd:
        return MicroBatchEnd(self._options, self._lookup, self._recreated)

    def initialOffset(self) -> dict[str, Any]:
        """Return the offsets at which a new query begins. Raises BrokerError if a topic does not exist."""
        return to_json(self._end.initial())

    def latestOffset(
        self, start: OffsetsJson | None = None, limit: "ReadLimit | None" = None
    ) -> dict[str, Any]:
        """Return the end of the micro-batch that begins at *start*. If the micro-batch must be empty, return
        *start*.

        PySpark before 4.2 does not pass *start* and *limit*. With these versions, each micro-batch ends at
        the end of the topics.
        """
        begin = None if start is None else from_json(start)
        limited = limit is not None and not _is_read_all(limit)
        return to_json(self._end.after(begin, limited=limited))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the offsets at the end of the topics, from the last lookup. Spark shows these offsets in the
        progress of the query."""
        latest = self._end.latest
        return None if latest is None else to_json(latest)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[RangePartition]:
        """Return the tasks of the micro-batch from *start* to *end*. Each call with the same offsets returns
        the same tasks.

        A partition that is not in *start* is new and is read from its earliest offset. If records were
        deleted, raises DataLossError, or logs a warning if the option ``failOnDataLoss`` is false.
        """
        begin, until = from_json(start), from_json(end)
        existing = self._lookup.existing({*begin, *until})
        self._recreated.note(self._lookup.topic_ids({each.topic for each in begin}), begin)
        loss = DataLoss(self._options.fail_on_data_loss)
        for each in sorted({*begin, *until} - existing):
            if (at := begin.get(each, 0)) < until.get(each, at + 1):
                loss.report(f"{each} was deleted before its records from offset {at} on were read")
        until = {each: offset for each, offset in until.items() if each in existing}
        stale = {each for each in until if each in begin and self._recreated.is_stale(each, begin[each])}
        for each in sorted(stale):
            loss.report(
                f"the topic of {each} was deleted and created again after offset {begin[each]} was reached"
            )
            del begin[each]
        new = self._lookup.earliest(until.keys() - begin.keys())
        for each, first in sorted(new.items()):
            if first > 0:
                loss.report(
                    f"{each} is new to this query and begins at offset {first}: its earlier records were "
                    "deleted before they were read"
                )
        return plan_tasks(self._lookup, self._options, {**begin, **new}, until)

    def read(self, partition: InputPartition | None) -> "Iterator[RecordBatch]":
        """Return the rows of *partition*, which is one task of Spark, as Arrow record batches."""
        return read_task(partition, self._options)

    def commit(self, end: OffsetsJson) -> None:
        """Do nothing, because Spark keeps the offsets in the checkpoint."""

    def stop(self) -> None:
        """Close the connections to the brokers. Spark may also end the process without a call of this
        method."""
        if "_lookup" in self.__dict__:
            self._lookup.close()


def _is_read_all(limit: "ReadLimit") -> bool:
    """Return True if Spark asks for all records in one micro-batch, as with Trigger.Once."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return isinstance(limit, ReadAllAvailable)


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before PySpark 4.2

    def stream_reader(options: SourceOptions) -> StreamReader:
        """Return the reader of a stream for PySpark before 4.2.

        Raises ConfigurationError if an option limits micro-batches, because this version of PySpark cannot
        apply such a limit.
        """
        limits = {
            "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
            "minOffsetsPerTrigger": options.min_offsets_per_trigger,
        }
        for name, limit in limits.items():
            if limit is not None:
                raise ConfigurationError(
                    f"option {name} needs PySpark 4.2 or later, but this is {pyspark.__version__}: "
                    "earlier versions do not tell a data source where a micro-batch begins"
                )
        return StreamReader(options)
else:

    class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """A reader of streaming queries that supports limits on micro-batches and Trigger.AvailableNow."""

        def getDefaultReadLimit(self) -> ReadLimit:
            """Return the limit that ``minOffsetsPerTrigger`` and ``maxOffsetsPerTrigger`` set for a
            micro-batch. Spark uses it unless the trigger has its own limit."""
            least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
            if most is not None:
                return ReadMaxRows(most)
            return ReadAllAvailable() if least is None else ReadMinRows(least)

        def prepareForTriggerAvailableNow(self) -> None:
            """Set the end of the query to the present end of the topics. Spark reads up to this end in as
            many micro-batches as necessary."""
            self._end.end_at_current_offsets()

    def stream_reader(options: SourceOptions) -> StreamReader:
        """Return the reader of a stream for PySpark 4.2 and later."""
        return LimitedStreamReader(options)
