"""kafka-python: send() with the future of each record kept and checked; poll() of many records.

Its own advice for throughput: linger_ms, a larger batch_size, and a larger max_poll_records.
"""

import importlib
import time
from typing import Any

from tests.benchmarks.work import Job, Measured, measuring, values_for

# The package has no types.
kafka: Any = importlib.import_module("kafka")

WINDOW = 50_000
"""Futures held before the oldest are checked: this client has no bound of its own."""


def _settle(futures: list[Any]) -> int:
    for future in futures:
        future.get(timeout=60)
    return len(futures)


def _producer(job: Job, linger_ms: int) -> Any:
    return kafka.KafkaProducer(
        bootstrap_servers=job.bootstrap_servers,
        acks=job.acks if job.acks == "all" else int(job.acks),
        linger_ms=linger_ms,
        batch_size=256 * 1024,
        compression_type=None if job.compression == "none" else job.compression,
    )


def produce(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    with measuring(measured):
        producer = _producer(job, 5)
        futures: list[Any] = []
        for index in range(job.records):
            futures.append(producer.send(job.topic, values[index % len(values)]))
            if len(futures) == WINDOW:
                measured.records += _settle(futures)
                futures = []
        producer.flush(120)
        measured.records += _settle(futures)
        producer.close()
    measured.payload_bytes = sum(len(values[index % len(values)]) for index in range(job.records))
    return measured


def consume(job: Job) -> Measured:
    measured = Measured()
    with measuring(measured):
        consumer = kafka.KafkaConsumer(
            job.topic,
            bootstrap_servers=job.bootstrap_servers,
            group_id=f"kafka-python-{time.time_ns()}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=10_000,
            max_partition_fetch_bytes=4 * 1024 * 1024,
        )
        deadline = time.monotonic() + 120
        while measured.records < job.records and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    measured.payload_bytes += len(record.value)
                    measured.records += 1
        consumer.close()
    return measured


def latency(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    producer = _producer(job, 0)
    producer.partitions_for(job.topic)
    latencies: list[float] = []

    with measuring(measured):
        begin = time.perf_counter()
        for index in range(job.records):
            if (left := begin + index / job.rate - time.perf_counter()) > 0:
                time.sleep(left)
            start = time.perf_counter()
            producer.send(job.topic, values[index % len(values)]).add_callback(
                lambda _metadata, start=start: latencies.append((time.perf_counter() - start) * 1e3)
            )
        producer.flush(60)
    producer.close()
    measured.records, measured.latencies_ms = len(latencies), latencies
    return measured


TASKS = {"produce": produce, "consume": consume, "latency": latency}
