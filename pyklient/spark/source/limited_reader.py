"""Limits of a micro-batch and Trigger.AvailableNow, for which data sources are asked since PySpark 4.2."""

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyklient.spark.source.stream_reader import StreamReader

__all__ = ["LimitedReader"]


class LimitedReader(StreamReader, SupportsTriggerAvailableNow):
    """The reader where PySpark knows of limits."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Not everything where an option limits a micro-batch: so that Trigger.Once can be told from that."""
        least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:
        """All there is now is read, in as many micro-batches as it takes, and nothing that comes later."""
        self._available_now = True
