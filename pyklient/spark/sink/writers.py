"""``df.write.format("pyklient")`` and ``writeStream``: tasks send, and nothing is left to be committed.

A task returns when each of its records is confirmed, so what Spark calls a commit comes after the fact, and
an abort takes nothing back: at least once, as Spark's own sink.
"""

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyklient.errors import ConfigurationError
from pyklient.spark.deduplication import origin
from pyklient.spark.option_names import OF_SPARK, called
from pyklient.spark.sink.sink_options import SINK_COLUMNS, SinkOptions

__all__ = ["BatchSink", "RowStreamSink", "Sent", "stream_sink"]

log = logging.getLogger("pyklient.spark")


@dataclass
class Sent(WriterCommitMessage):
    """What one task has sent, all of it confirmed."""

    partition: int
    records: int


class BatchSink(DataSourceArrowWriter):
    """Writes a batch. It knows nothing of brokers before it is in a task."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigurationError(
                "mode overwrite is not possible: records are added to a topic. Write with .mode('append')"
            )
        options.check(schema)
        self._options = options
        # One for the whole write: Spark makes one writer, and sends it to every task.
        self._token = uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> Sent:
        """Send the record batches of a task. Raises DeliveryError where a record is not delivered."""
        return _send_batches(self._options, self._token, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say how much was written."""
        log.info("%s", _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say that what was sent stays."""
        log.warning("the write has failed; in Kafka stays what it had sent: %s", _summary(messages))


class _StreamSink:
    """What a stream's sink does on the driver."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        options.check(schema)
        self._options = options

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Say how much was written."""
        log.info("batch %d: %s", batchId, _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Say that what was sent stays, and will be sent again."""
        log.warning(
            "batch %d has failed; Kafka keeps what was sent, and a restart of the query sends it again: %s",
            batchId,
            _summary(messages),
        )


class RowStreamSink(_StreamSink, DataSourceStreamWriter):
    """Writes a stream row by row."""

    def write(self, iterator: Iterator[Row]) -> Sent:
        """Send the rows of a task. Raises DeliveryError where a record is not delivered."""
        # Here, as below: the driver, which makes a process for each step of a plan, needs none of it.
        from pyklient.spark.sink.producer_cache import borrowed
        from pyklient.spark.sink.rows import send_rows

        options, here = self._options, origin(self._options.query, "")
        stamp = here if options.deduplication_headers else None
        with called(OF_SPARK), borrowed(options.producer) as producer:
            count = send_rows(producer, iterator, options.topic, None, stamp, SINK_COLUMNS)
        return Sent(here.partition, count)


def _send_batches(options: SinkOptions, token: str, batches: Iterator[Any]) -> Sent:
    # In a worker, which has pyarrow; the driver may plan without it.
    from pyklient.spark.sink.arrow_batches import send_batches
    from pyklient.spark.sink.producer_cache import borrowed

    here = origin(options.query, token)
    stamp = here if options.deduplication_headers else None
    with called(OF_SPARK), borrowed(options.producer) as producer:
        count = send_batches(producer, batches, options.topic, stamp, SINK_COLUMNS)
    return Sent(here.partition, count)


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    sent = [each for each in messages if isinstance(each, Sent)]
    failed = len(messages) - len(sent)
    text = f"{sum(each.records for each in sent):,} records in {len(sent)} tasks"
    return f"{text}, and some of {failed} more" if failed else text


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before 4.1: Spark hands over rows, and nothing else

    def stream_sink(options: SinkOptions, schema: StructType) -> DataSourceStreamWriter:
        """What writes a stream."""
        return RowStreamSink(options, schema)
else:

    class ArrowStreamSink(_StreamSink, DataSourceStreamArrowWriter):
        """Writes a stream, record batch by record batch."""

        def write(self, iterator: Iterator[Any]) -> Sent:
            """Send the record batches of a task. Raises DeliveryError where a record is not delivered."""
            return _send_batches(self._options, "", iterator)

    def stream_sink(options: SinkOptions, schema: StructType) -> DataSourceStreamWriter:
        """What writes a stream."""
        return ArrowStreamSink(options, schema)
