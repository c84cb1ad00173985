"""PartitionSender: what to hand to Spark's foreachPartition, foreachBatch and mapInArrow."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Unpack, overload

from pyklient import argument_checks
from pyklient.config import ProducerConfig
from pyklient.config.keyword_types import ProducerOptions
from pyklient.errors import ConfigurationError
from pyklient.spark.deduplication import origin
from pyklient.spark.sink.producer_cache import borrowed
from pyklient.spark.sink.rows import send_rows

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

__all__ = ["PartitionSender"]

_NOT_IN_A_WORKER: Final = {
    "key_encoder": "`to_record` can make bytes of a row",
    "ssl_context": "it cannot be sent to Spark's workers; there are ssl_truststore_location and the other "
    "ssl_ options",
    "value_encoder": "`to_record` can make bytes of a row",
}


class PartitionSender:
    """Sends the rows of one of Spark's partitions to Kafka, and returns when every one is confirmed.

    ::

        sender = PartitionSender("localhost:9092", topic="clicks", compression_type="zstd")
        df.foreachPartition(sender)                              # rows; an RDD's too
        df.mapInArrow(sender, PartitionSender.schema).collect()  # record batches: several times as fast
        df.writeStream.foreachBatch(sender).start()              # a stream

    It holds configuration only, so Spark can send it to its workers. There, each Python process has one
    Producer for it, kept from one task to the next; *options* are those of ``ProducerConfig``.

    A row's columns go by name, as in Spark's own sink: ``value`` (STRING or BINARY), and if wanted ``key``
    (the same), ``topic``, which *topic* overrides, ``partition``, ``headers``
    (``array<struct<key: string, value: binary>>``) and ``timestamp``. Others are passed over. An RDD may also
    have pairs (key, value), mappings, or values alone. ``to_record(row)`` turns rows of another shape into
    any of these, best a ``Record``; it is not for mapInArrow.

    At least once: a task whose records are not all confirmed raises DeliveryError, and Spark runs it again,
    so what it had sent before is sent twice. With *deduplication_headers* each record says which row it is
    (``pyklient.spark.deduplication``), so that a reader can tell; *query* is the name of what is written, in
    place of a streaming query's id, or of one made up for this sender.

    Raises ConfigurationError for options that are unknown, wrong, or of no use in a worker.
    """

    schema: Final = "partition int, records bigint"
    """What mapInArrow gets back: for each partition that is not empty, how many records it has sent."""

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
        for name, instead in _NOT_IN_A_WORKER.items():
            if self._options.pop(name, None) is not None:
                raise ConfigurationError(f"{name} is of no use to a PartitionSender: {instead}")
        ProducerConfig.from_options(self._options)
        self._topic = (
            None if topic is None else argument_checks.topic_name(argument_checks.text(topic, "topic"))
        )
        if to_record is not None and not callable(to_record):
            raise TypeError(f"to_record takes a function of a row, not {to_record!r}")
        self._to_record = to_record
        self._stamps = argument_checks.flag(deduplication_headers, "deduplication_headers")
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
        """Send *rows*: those of a partition, or its record batches; of the data frame of a micro-batch, where
        there is a *batch_id*.

        Returns what mapInArrow wants of it (see ``schema``); nothing after rows. Raises DeliveryError where a
        record is not delivered, BufferFullError where ``buffer_memory`` stays full for ``max_block_ms``,
        ConfigurationError and TypeError for rows that no record can be made of.
        """
        if batch_id is not None:
            sender = copy(self)
            sender._batch_id = batch_id
            return rows.foreachPartition(sender)
        iterator = iter(rows)
        first = next(iterator, None)
        if first is None:
            # Of rows or batches: one of the two takes an iterator, the other anything.
            return iter(())
        everything = chain([first], iterator)
        if type(first).__name__ == "RecordBatch" and type(first).__module__.startswith("pyarrow"):
            return self._send_batches(everything)
        return self._send_rows(everything)

    def __repr__(self) -> str:
        topic = "" if self._topic is None else f", topic {self._topic!r}"
        return f"<PartitionSender to {self._options['bootstrap_servers']!r}{topic}>"

    def _send_rows(self, rows: Iterable[Any]) -> None:
        stamp = origin(self._query, self._token, self._batch_id) if self._stamps else None
        with borrowed(self._options, self._token) as producer:
            send_rows(producer, rows, self._topic, self._to_record, stamp)

    def _send_batches(self, batches: Iterable["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        # Here, for rows need no pyarrow.
        from pyklient.spark.sink.arrow_batches import send_batches, sent

        if self._to_record is not None:
            raise ConfigurationError(
                "to_record is for rows, and mapInArrow hands over record batches: select and rename columns "
                "before, or use foreachPartition"
            )
        here = origin(self._query, self._token)
        with borrowed(self._options, self._token) as producer:
            count = send_batches(producer, batches, self._topic, here if self._stamps else None)
        return iter([sent(here.partition, count)])
