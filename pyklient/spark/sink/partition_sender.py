"""``PartitionSender``, which users pass to Spark's foreachPartition, foreachBatch or mapInArrow to send rows
to Kafka."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Unpack, overload

from pyklient import argument_checks
from pyklient.config import ProducerConfig
from pyklient.config.keyword_types import ProducerOptions
from pyklient.errors import ConfigurationError
from pyklient.spark.deduplication import task_origin
from pyklient.spark.sink.producer_cache import borrowed_producer
from pyklient.spark.sink.rows import send_rows

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["PartitionSender"]

_NOT_FOR_WORKERS: Final = {
    "key_encoder": "encode the key in `to_record`",
    "ssl_context": "it cannot be sent to Spark's workers; set ssl_truststore_location and the other "
    "ssl_ options instead",
    "value_encoder": "encode the value in `to_record`",
}


class PartitionSender:
    """Sends the rows of one of Spark's partitions to Kafka, and returns when all records are confirmed.

    ::

        sender = PartitionSender("localhost:9092", topic="clicks", compression_type="zstd")
        df.foreachPartition(sender)                              # rows, of an RDD too
        df.mapInArrow(sender, PartitionSender.schema).collect()  # record batches: several times as fast
        df.writeStream.foreachBatch(sender).start()              # a stream

    The sender has no connections, so Spark can send it to its workers. There, each Python process creates a
    Producer for it, and keeps the Producer from one task to the next. *options* are those of
    ``ProducerConfig``.

    The columns of a row are found by name, as in Spark's own sink: ``value`` (STRING or BINARY), and
    optionally ``key`` (of the same types), ``topic`` (unless *topic* is given), ``partition``, ``headers``
    (``array<struct<key: string, value: binary>>``) and ``timestamp``. Other columns are ignored. An RDD may
    also have pairs (key, value), mappings, or plain values. ``to_record(row)`` converts other rows to one of
    these, preferably to a ``Record``; it cannot be used with mapInArrow.

    Records are delivered at least once: if a record of a task is not confirmed, the task raises
    DeliveryError, and Spark runs the task again, which sends all its records again. With
    *deduplication_headers*, each record has headers that identify its row (``pyklient.spark.deduplication``),
    so that a consumer can recognize duplicates. One of these headers names the query or job: it is *query*,
    or by default the id of the streaming query, or a random name in a job that is not a stream.

    Raises ConfigurationError for options that are unknown, wrong, or cannot be used in a worker.
    """

    schema: Final = "partition int, records bigint"
    """The schema of the result of mapInArrow: for each of Spark's partitions that has rows, the number of
    records that were sent from it."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        topic: str | None = None,
        *,
        to_record: Callable[[Any], Any] | None = None,
        deduplication_headers: bool = False,
        query: str | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._options: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **options}
        for name, instead in _NOT_FOR_WORKERS.items():
            if self._options.pop(name, None) is not None:
                raise ConfigurationError(f"a PartitionSender cannot use {name}: {instead}")
        ProducerConfig.from_options(self._options)
        self._topic = (
            None if topic is None else argument_checks.topic_name(argument_checks.text(topic, "topic"))
        )
        if to_record is not None and not callable(to_record):
            raise TypeError(f"to_record must be a function that takes a row, not {to_record!r}")
        self._to_record = to_record
        self._adds_headers = argument_checks.flag(deduplication_headers, "deduplication_headers")
        self._query = None if query is None else argument_checks.text(query, "query")
        self._token = uuid.uuid4().hex
        self._batch_id: int | None = None

    @overload
    def __call__(self, rows: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]: ...

    @overload
    def __call__(self, rows: Iterable[Any]) -> None: ...

    @overload
    def __call__(self, rows: "DataFrame", batch_id: int) -> None: ...

    def __call__(self, rows: Any, batch_id: int | None = None) -> Any:
        """Send *rows*, which are the rows or record batches of one of Spark's partitions. If *batch_id* is
        given, *rows* is the DataFrame of a micro-batch.

        Returns batches of :attr:`schema` for record batches, and None for rows. Raises DeliveryError if a
        record is not delivered, BufferFullError if ``buffer_memory`` stays full for ``max_block_ms``, and
        ConfigurationError or TypeError for rows that cannot be sent.
        """
        if batch_id is not None:
            sender = copy(self)
            sender._batch_id = batch_id
            return rows.foreachPartition(sender)
        iterator = iter(rows)
        first = next(iterator, None)
        if first is None:
            # Spark accepts an iterator both as the result for rows and as the one for record batches.
            return iter(())
        everything = chain([first], iterator)
        if type(first).__name__ == "RecordBatch" and type(first).__module__.startswith("pyarrow"):
            return self._send_batches(everything)
        return self._send_rows(everything)

    def __repr__(self) -> str:
        topic = "" if self._topic is None else f", topic {self._topic!r}"
        return f"<PartitionSender to {self._options['bootstrap_servers']!r}{topic}>"

    def _send_rows(self, rows: Iterable[Any]) -> None:
        origin = task_origin(self._query, self._token, self._batch_id) if self._adds_headers else None
        with borrowed_producer(self._options, self._token) as producer:
            send_rows(producer, rows, self._topic, self._to_record, origin)

    def _send_batches(self, batches: Iterable["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        # Imported here, because rows need no pyarrow.
        from pyklient.spark.sink.arrow_batches import count_batch, send_batches

        if self._to_record is not None:
            raise ConfigurationError(
                "to_record takes rows, but mapInArrow passes record batches: select and rename columns "
                "before mapInArrow, or use foreachPartition"
            )
        here = task_origin(self._query, self._token)
        with borrowed_producer(self._options, self._token) as producer:
            count = send_batches(producer, batches, self._topic, here if self._adds_headers else None)
        return iter([count_batch(here.partition, count)])
