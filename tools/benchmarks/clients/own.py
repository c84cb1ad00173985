"""In the row "pyklient", the program calls `send` for each value, or reads messages in a `for` loop. In the
row "pyklient, Python kernel", it does the same without the compiled kernel.

The producer has its default options: it is idempotent, and has `linger_ms` 5 and batches of up to 1 MB. A run
of the producer ends with `flush()`, which raises an error if any record was not confirmed. If a table has the
row "pyklient classic producer", this producer sends 7,000 messages in a batch, with `request.required.acks`
-1, and drops none.

The consumer has its default options, so it checks the checksum (CRC) of each batch. It begins with the oldest
record, and commits nothing.
"""

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

from pyklient import ConsumerConnector, Delivery, KafkaStream, KeyedMessage, Producer
from tools.benchmarks.work import (
    Clock,
    Job,
    Measured,
    fields_for,
    json_encoder,
    measuring,
    objects_for,
    values_for,
)

_TIMEOUT = 120.0
_BATCH_BYTES = 61
"""The size of a batch without its records."""
_RECORD_BYTES = 10
"""The size of a record without its value, in the middle: numbers in it have one to three bytes."""
_LARGEST_BATCH = 2 * 1024 * 1024
_ROWS = 100_000
"""The number of rows passed to one call of send_arrow()."""


@contextmanager
def _producing(job: Job, measured: Measured) -> Iterator[Producer]:
    first = (objects_for(job) if job.values == "objects" else values_for(job))[0]
    with (
        measuring(measured) as clock,
        Producer(job.bootstrap_servers, **_options(job)) as producer,
    ):
        producer.send(job.topic, first).result(30)
        clock.begin()
        yield producer
        producer.flush(_TIMEOUT)
        clock.end()


def _options(job: Job) -> dict[str, Any]:
    """Return the options of the producer that are not its defaults."""
    options: dict[str, Any] = {"compression_type": job.compression, "linger_ms": job.linger_ms}
    if job.acks != "all":
        options |= {"acks": job.acks, "enable_idempotence": False}
    if job.batch_records:
        bytes_of_record = job.value_size + _RECORD_BYTES
        options["batch_size"] = _BATCH_BYTES + job.batch_records * bytes_of_record
        options["max_request_size"] = _LARGEST_BATCH
    if job.buffer_mib:
        options["buffer_memory"] = job.buffer_mib * 1024 * 1024
    if job.values == "objects":
        options["value_encoder"] = json_encoder(job)
    if job.task == "produce-partitioner":
        options["partitioner"] = _partition
    return options


def _partition(topic: str, key: bytes | None, count: int) -> int:
    return key[-1] % count if key else 0


def produce(job: Job) -> Measured:
    items = fields_for(job) if job.field else values_for(job)
    if job.values == "objects":
        items = objects_for(job)
    measured = Measured()
    with _producing(job, measured) as producer:
        _send_all(producer.send, job, items)
    measured.records = job.records
    return measured


def _send_all(send: Callable[..., Delivery], job: Job, items: list[Any]) -> None:
    topic = job.topic
    match job.field:
        case "key" | "tombstone":
            for value, key in job.rest(items):
                send(topic, value, key=key)
        case "timestamp":
            for value, timestamp in job.rest(items):
                send(topic, value, timestamp_ms=timestamp)
        case "headers":
            for value, headers in job.rest(items):
                send(topic, value, headers=headers)
        case "all":
            for value, key, timestamp, headers in job.rest(items):
                send(topic, value, key=key, timestamp_ms=timestamp, headers=headers)
        case _:
            for value in job.rest(items):
                send(topic, value)


def produce_with_callback(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    confirmed = 0

    def delivered(delivery: Delivery) -> None:
        nonlocal confirmed
        if delivery.exception(0) is None:
            confirmed += 1

    with _producing(job, measured) as producer:
        send, topic = producer.send, job.topic
        for value in job.rest(values):
            send(topic, value, on_delivery=delivered)
    measured.records = 1 + confirmed
    return measured


def produce_many(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    with _producing(job, measured) as producer:
        bulk = producer.send_many(job.topic, job.rest(values))
        ranges = bulk.result(_TIMEOUT)
    measured.records = 1 + sum(len(run) for runs in ranges.values() for run in runs)
    return measured


def produce_arrow(job: Job) -> Measured:
    table = _table(job)
    measured = Measured()
    with _producing(job, measured) as producer:
        whole, rest = divmod(job.records - 1, len(table))
        parts = [table] * whole + ([table.slice(0, rest)] if rest else [])
        deliveries = [producer.send_arrow(job.topic, part) for part in parts]
        ranges = [run for bulk in deliveries for runs in bulk.result(_TIMEOUT).values() for run in runs]
    measured.records = 1 + sum(len(run) for run in ranges)
    return measured


def _table(job: Job) -> Any:
    """Return a table of at most 100,000 rows, which is sent as often as needed."""
    # Imported here, so that it does not count for the memory of other runs.
    arrow = importlib.import_module("pyarrow")
    rows = min(_ROWS, job.records)
    if job.field:
        found = dict(zip(("value", job.field), zip(*fields_for(job), strict=True), strict=True))
    else:
        found = {"value": tuple(values_for(job))}
    header = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
    types = {"value": arrow.binary(), "key": arrow.binary(), "headers": arrow.list_(header)}
    return arrow.table(
        {
            name: arrow.array(islice(cycle(column), rows), type=types.get(name))
            for name, column in found.items()
        }
    )


@contextmanager
def _consuming(job: Job, measured: Measured) -> Iterator[tuple[KafkaStream, Clock]]:
    with (
        measuring(measured) as clock,
        ConsumerConnector(
            job.bootstrap_servers,
            group_id=f"pyklient-{time.time_ns()}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=30_000,
        ) as connector,
    ):
        yield connector.stream(job.topic), clock


def consume(job: Job) -> Measured:
    measured = Measured()
    with _consuming(job, measured) as (stream, clock):
        messages = iter(stream)
        total = len(next(messages).value or b"")
        clock.begin()
        if job.field:
            for message in islice(messages, job.records - 2):
                fields = (message.value, message.key, message.timestamp_ms, message.headers)
                total += len(fields[0] or b"")
        else:
            for message in islice(messages, job.records - 2):
                total += len(message.value)
        total += len(next(messages).value or b"")  # a missing record would raise ConsumerTimeout here
        clock.end()
    measured.records, measured.payload_bytes = job.records, total
    return measured


def consume_batches(job: Job) -> Measured:
    measured = Measured()
    with _consuming(job, measured) as (stream, clock):
        records = total = 0
        for batch in stream.batches(10_000, timeout=30):
            if not records:
                clock.begin()
            for message in batch:
                total += len(message.value)
            records += len(batch)
            if records >= job.records or not batch:
                break
        clock.end()
    measured.records, measured.payload_bytes = records, total
    return measured


def _compute() -> Any:
    """Call a function of pyarrow, because the first call initializes all of them."""
    arrow = importlib.import_module("pyarrow")
    compute = importlib.import_module("pyarrow.compute")
    compute.sum(compute.binary_length(arrow.array([b""])))
    return compute


def consume_arrow(job: Job) -> Measured:
    compute = _compute()
    measured = Measured()
    with _consuming(job, measured) as (stream, clock):
        records = total = 0
        for batch in stream.arrow_batches(timeout=30, headers=bool(job.field)):
            if not records:
                clock.begin()
            total += compute.sum(compute.binary_length(batch.column("value"))).as_py() or 0
            records += batch.num_rows
            if records >= job.records or not batch.num_rows:
                break
        clock.end()
    measured.records, measured.payload_bytes = records, total
    return measured


def latency(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    latencies: list[float] = []

    def timed(due: float) -> Callable[[Delivery], None]:
        def delivered(delivery: Delivery) -> None:
            if delivery.exception(0) is None:
                latencies.append(time.perf_counter() - due)

        return delivered

    with Producer(job.bootstrap_servers, linger_ms=0) as producer:
        send = producer.send
        send(job.topic, values[0]).result(30)
        with measuring(measured):
            begin = time.perf_counter()
            for index, value in enumerate(job.repeated(values)):
                due = begin + index / job.rate
                if (left := due - time.perf_counter()) > 0:
                    time.sleep(left)
                send(job.topic, value, on_delivery=timed(due))
            producer.flush(60)
    measured.latencies(latencies)
    return measured


def produce_classic(job: Job) -> Measured:
    """Send with an asynchronous ClassicProducer, in batches of about 1 MB as those of ``produce``."""
    values = values_for(job)
    properties = {
        "metadata.broker.list": job.bootstrap_servers,
        "producer.type": "async",
        "request.required.acks": "-1",
        "batch.num.messages": "7000",
        "queue.buffering.max.messages": "20000",
        "compression.codec": job.compression,
    }
    measured = Measured()
    with (
        measuring(measured) as clock,
        Producer.from_properties(properties | {"producer.type": "sync"}, "0.10") as first,
        Producer.from_properties(properties, "0.10") as producer,
    ):
        first.send(KeyedMessage(job.topic, values[0]))
        clock.begin()
        topic, send = job.topic, producer.send
        for value in job.rest(values):
            send(KeyedMessage(topic, value))
        producer.close(_TIMEOUT)
        clock.end()
        if producer.dropped_count:
            raise RuntimeError(f"{producer.dropped_count} messages were dropped")
    measured.records = job.records
    return measured


TASKS = {
    "produce": produce,
    "produce-partitioner": produce,
    "produce-msgspec": produce,
    "produce-callback": produce_with_callback,
    "produce-many": produce_many,
    "produce-classic": produce_classic,
    "produce-arrow": produce_arrow,
    "consume": consume,
    "consume-batches": consume_batches,
    "consume-arrow": consume_arrow,
    "latency": latency,
}
