"""The writers of ``df.write.format("pyklient")`` and of ``df.writeStream``.

A task returns when all its records are confirmed. Therefore nothing remains to be done when Spark commits the
write. An abort cannot remove the records that were sent. As with Spark's own sink, records are delivered at
least once.
"""

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyklient.counted import counted
from pyklient.errors import ConfigurationError
from pyklient.spark.deduplication import task_origin
from pyklient.spark.option_names import SPARK_NAMES, rename_options
from pyklient.spark.sink.sink_options import SINK_COLUMNS, SinkOptions

__all__ = ["BatchWriter", "RowStreamWriter", "SentRecords", "stream_writer"]

log = logging.getLogger("pyklient.spark")


@dataclass
class SentRecords(WriterCommitMessage):
    """The number of records that one task has sent. All of them are confirmed."""

    partition: int
    records: int


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query. The tasks connect to brokers; the driver connects to none."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigurationError(
                "mode overwrite is not possible, because records can only be appended to a topic: write with "
                ".mode('append')"
            )
        options.check_schema(schema)
        self._options = options
        # All tasks have the same token: Spark makes one writer and sends it to every task.
        self._token = uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> SentRecords:
        """Send the rows of a task, which Spark passes as record batches. Raises DeliveryError if a record is
        not delivered."""
        return _send_batches(self._options, self._token, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log how many records the tasks of the batch have written."""
        log.info("%s", _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log how many records were sent by the tasks of the failed batch. These records stay in their
        topics."""
        log.warning(
            "the write failed after it had sent %s. These records stay in their topics",
            _summary(messages),
        )


class _StreamWriter:
    """Base class of the writers of a stream: the methods that Spark calls on the driver."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        options.check_schema(schema)
        self._options = options

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log how many records the tasks of a micro-batch have written."""
        log.info("micro-batch %d was written: %s", batchId, _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log how many records of a failed micro-batch were sent. They stay in their topics, and Spark will
        write the micro-batch again after a restart."""
        log.warning(
            "micro-batch %d failed after it had sent %s. These records stay in their topics, and a restart "
            "of the query sends them again",
            batchId,
            _summary(messages),
        )


class RowStreamWriter(_StreamWriter, DataSourceStreamWriter):
    """Writes a stream as rows, for PySpark before 4.1."""

    def write(self, iterator: Iterator[Row]) -> SentRecords:
        """Send the rows of a task. Raises DeliveryError if a record is not delivered."""
        # Imported here, as below, because the driver plans in short-lived processes that do not need it.
        from pyklient.spark.sink.producer_cache import borrowed_producer
        from pyklient.spark.sink.rows import send_rows

        options, here = self._options, task_origin(self._options.query, "")
        header_origin = here if options.deduplication_headers else None
        with rename_options(SPARK_NAMES), borrowed_producer(options.producer) as producer:
            count = send_rows(producer, iterator, options.topic, None, header_origin, SINK_COLUMNS)
        return SentRecords(here.partition, count)


def _send_batches(options: SinkOptions, token: str, batches: Iterator[Any]) -> SentRecords:
    # Imported here, in a worker, which has pyarrow: the driver can plan without it.
    from pyklient.spark.sink.arrow_batches import send_batches
    from pyklient.spark.sink.producer_cache import borrowed_producer

    here = task_origin(options.query, token)
    header_origin = here if options.deduplication_headers else None
    with rename_options(SPARK_NAMES), borrowed_producer(options.producer) as producer:
        count = send_batches(producer, batches, options.topic, header_origin, SINK_COLUMNS)
    return SentRecords(here.partition, count)


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    sent = [each for each in messages if isinstance(each, SentRecords)]
    failed = len(messages) - len(sent)
    text = f"{counted(sum(each.records for each in sent), 'record')} in {counted(len(sent), 'task')}"
    return f"{text}, and part of the records of {counted(failed, 'more task')}" if failed else text


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before PySpark 4.1, which has no writer for record batches

    def stream_writer(options: SinkOptions, schema: StructType) -> DataSourceStreamWriter:
        """Return a writer that writes a stream as rows, for PySpark before 4.1."""
        return RowStreamWriter(options, schema)
else:

    class ArrowStreamWriter(_StreamWriter, DataSourceStreamArrowWriter):
        """Writes a stream as record batches, for PySpark 4.1 and later."""

        def write(self, iterator: Iterator[Any]) -> SentRecords:
            """Send the rows of a task, which Spark passes as record batches. Raises DeliveryError if a record
            is not delivered."""
            return _send_batches(self._options, "", iterator)

    def stream_writer(options: SinkOptions, schema: StructType) -> DataSourceStreamWriter:
        """Return a writer that writes a stream as record batches, for PySpark 4.1 and later."""
        return ArrowStreamWriter(options, schema)
