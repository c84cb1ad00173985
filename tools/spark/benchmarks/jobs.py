"""The jobs to measure. Each reads or writes all rows once, and returns their number."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyklient.spark import PartitionSender

__all__ = ["JOBS", "Work"]

_AT_ONCE = 1_000
_PATIENCE = 120.0


@dataclass(frozen=True)
class Work:
    """The input of a job: Spark, the broker, the topic to read or write, and the rows to write."""

    spark: SparkSession
    bootstrap: str
    topic: str
    rows: DataFrame | None = None


def _read(source: str) -> Callable[[Work], int]:
    def read(work: Work) -> int:
        frame = (
            work.spark.read.format(source)
            .option("kafka.bootstrap.servers", work.bootstrap)
            .option("subscribe", work.topic)
            .load()
        )
        (row,) = frame.agg(
            sql.count("*").alias("rows"),
            sql.sum(sql.length("value")),
            sql.max("offset"),
            sql.max("timestamp"),
        ).collect()
        return int(row["rows"])

    return read


def _write(sink: str) -> Callable[[Work], int]:
    def write(work: Work) -> int:
        assert work.rows is not None
        work.rows.write.format(sink).option("kafka.bootstrap.servers", work.bootstrap).option(
            "topic", work.topic
        ).mode("append").save()
        return -1

    return write


def _rows_by_pyklient(work: Work) -> int:
    assert work.rows is not None
    work.rows.foreachPartition(PartitionSender(work.bootstrap, topic=work.topic))
    return -1


def _batches_by_pyklient(work: Work) -> int:
    assert work.rows is not None
    sender = PartitionSender(work.bootstrap, topic=work.topic)
    sent = work.rows.mapInArrow(sender, PartitionSender.schema).collect()
    return sum(int(row["records"]) for row in sent)


class Confluent:
    """A sender with confluent-kafka, as its users write it: a producer for each partition, set up for
    throughput. One callback confirms every delivery, and the sender waits after a BufferError."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    def rows(self, rows: Iterable[Any]) -> None:
        """Send the rows of a partition, for foreachPartition."""
        self._send(row[0] for row in rows)

    def batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Send the record batches of a partition, for mapInArrow."""
        import pyarrow

        count = self._send(value for batch in batches for value in batch.column(0).to_pylist())
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([count], pyarrow.int64())], schema=pyarrow.schema([("records", pyarrow.int64())])
        )

    def _send(self, values: Iterable[Any]) -> int:
        confirmed = 0

        def delivered(error: KafkaError | None, _message: Message) -> None:
            nonlocal confirmed
            if error is not None:
                raise RuntimeError(str(error))
            confirmed += 1

        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": 1_000_000,
                "batch.num.messages": 100_000,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
                "on_delivery": delivered,
            }
        )
        sent, produce, topic = 0, producer.produce, self._topic
        for value in values:
            while True:
                try:
                    produce(topic, bytes(value))
                    break
                except BufferError:
                    producer.poll(0.1)
            sent += 1
            if not sent % _AT_ONCE:
                producer.poll(0)
        producer.flush(_PATIENCE)
        if confirmed != sent:
            raise RuntimeError(f"{confirmed} of {sent} records are confirmed")
        return sent


def _rows_by_confluent(work: Work) -> int:
    assert work.rows is not None
    work.rows.foreachPartition(Confluent(work.bootstrap, work.topic).rows)
    return -1


def _batches_by_confluent(work: Work) -> int:
    assert work.rows is not None
    sent = work.rows.mapInArrow(Confluent(work.bootstrap, work.topic).batches, "records bigint").collect()
    return sum(int(row["records"]) for row in sent)


JOBS: dict[str, Callable[[Work], int]] = {
    'read format("pyklient")': _read("pyklient"),
    'read format("kafka")': _read("kafka"),
    'write format("pyklient")': _write("pyklient"),
    'write format("kafka")': _write("kafka"),
    "foreachPartition(PartitionSender)": _rows_by_pyklient,
    "foreachPartition, confluent-kafka": _rows_by_confluent,
    "mapInArrow(PartitionSender)": _batches_by_pyklient,
    "mapInArrow, confluent-kafka": _batches_by_confluent,
}
"""The jobs by name. Jobs that do not know the number of rows return -1."""
