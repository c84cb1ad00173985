"""Workers and brokers that are killed in the middle of a write: no row is lost, and copies can be
recognized."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from pyklient import Message, SimpleConsumer, read
from pyklient.spark import PartitionSender, PyklientDataSource
from pyklient.spark.sink.sink_options import SinkOptions
from pyklient.spark.sink.writers import ArrowStreamWriter, BatchWriter, SentRecords
from tests.servers.fixtures import NewTopic
from tests.servers.pool import Server
from tests.servers.process import wait_until

pytestmark = pytest.mark.slow

ROWS = 30_000


def wait_stored(bootstrap: str, topic: str, count: int) -> None:
    with SimpleConsumer(bootstrap) as consumer:
        wait_until(lambda: consumer.get_offsets_before(topic, 0, -1, 1)[0] >= count, 60, "records")


def killed_once(batches: Iterator[Any], options: SinkOptions) -> Iterator[Any]:
    """Yield *batches*. This worker dies when some of them are stored, unless its task has been tried
    before."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        assert options.topic is not None
        yield next(batches)
        yield next(batches)
        wait_stored(options.producer["bootstrap_servers"], options.topic, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    yield from batches


class DoomedBatchSink(BatchWriter):
    """A batch sink whose worker dies once."""

    def write(self, iterator: Iterator[Any]) -> SentRecords:
        return super().write(killed_once(iterator, self._options))


class DoomedStreamSink(ArrowStreamWriter):
    """A stream sink whose worker dies once."""

    def write(self, iterator: Iterator[Any]) -> SentRecords:
        return super().write(killed_once(iterator, self._options))


class DoomedSource(PyklientDataSource):
    """A data source with sinks whose workers die once."""

    @classmethod
    def name(cls) -> str:
        return "doomed"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return DoomedBatchSink(SinkOptions.parse(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return DoomedStreamSink(SinkOptions.parse(self.options), schema)


def numbers(spark: SparkSession, count: int = ROWS) -> DataFrame:
    return spark.range(0, count, 1, 1).selectExpr("cast(id as string) value")


def assert_every_row_is_there(messages: list[Message], count: int = ROWS) -> None:
    """Check that each row was stored at least once, and by the headers exactly once."""
    places = {
        tuple(value for name, value in message.headers if name.startswith("pyklient-")): message.value
        for message in messages
    }
    assert sorted(int(value or b"-1") for value in places.values()) == list(range(count))
    assert {message.value for message in messages} == set(places.values())


@pytest.mark.brokers(real=False)
def test_a_worker_killed_while_it_sends_rows(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    sender = PartitionSender(bootstrap, topic=topic, deduplication_headers=True, linger_ms=0)

    def dying_after_rows(rows: Iterable[Any]) -> Iterator[Any]:
        for number, row in enumerate(rows):
            yield row
            context = TaskContext.get()
            if number == 5_000 and context is not None and context.attemptNumber() == 0:
                wait_stored(bootstrap, topic, 5_000)
                os.kill(os.getpid(), signal.SIGKILL)

    numbers(spark).rdd.mapPartitions(dying_after_rows).foreachPartition(sender)
    messages = list(read(bootstrap, topic))
    assert len(messages) == ROWS + 5_000
    assert_every_row_is_there(messages)


@pytest.mark.brokers(real=False)
def test_a_worker_killed_while_it_writes_a_batch(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    spark.dataSource.register(DoomedSource)
    writer = numbers(spark).write.format("doomed").mode("append")
    options = {"topic": topic, "deduplicationHeaders": "true", "kafka.linger.ms": "0"}
    writer.option("kafka.bootstrap.servers", bootstrap).options(**options).save()
    messages = list(read(bootstrap, topic))
    assert len(messages) > ROWS
    assert_every_row_is_there(messages)


@pytest.mark.brokers(real=False)
def test_a_worker_killed_while_it_writes_a_stream(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    spark.dataSource.register(DoomedSource)
    numbers(spark).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema("value string").parquet(str(tmp_path / "in"))
    writer = source.writeStream.format("doomed").option("checkpointLocation", str(tmp_path / "checkpoint"))
    options = {"topic": topic, "deduplicationHeaders": "true", "kafka.linger.ms": "0"}
    query = (
        writer.option("kafka.bootstrap.servers", bootstrap)
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    messages = list(read(bootstrap, topic))
    assert len(messages) > ROWS
    assert_every_row_is_there(messages)


def held(gate: Path, after: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that passes batches. It holds those after the first *after* back until the file
    *gate* exists."""

    def batches_until_gate(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number >= after:
                wait_until(gate.exists, 60, "the gate")
            yield batch

    return batches_until_gate


@pytest.mark.restarts
@pytest.mark.brokers(min="4.3")
def test_a_broker_that_restarts_in_the_middle_of_a_write(
    spark: SparkSession, any_broker: Server, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, gate = new_topic(), tmp_path / "gate"
    frame = numbers(spark, 60_000).mapInArrow(held(gate, 4), "value string")
    writer = frame.write.format("pyklient").mode("append").option("kafka.bootstrap.servers", bootstrap)
    options = {"topic": topic, "deduplicationHeaders": "true", "kafka.linger.ms": "0"}

    def restart() -> None:
        wait_stored(bootstrap, topic, 10_000)
        any_broker.kill()
        gate.touch()  # the rest is sent to a broker that is gone
        any_broker.restart()

    with ThreadPoolExecutor() as executor:
        restarting = executor.submit(restart)
        writer.options(**options).save()
        restarting.result(60)
    messages = list(read(bootstrap, topic))
    assert_every_row_is_there(messages, 60_000)
