"""The producer calls `send()`, keeps the futures of 50,000 records and checks each one. It is idempotent, as
pyklient's is. The consumer calls `poll()`.

The settings are those that kafka-python's documentation recommends: `linger_ms` (here 5) and a larger
`batch_size` (256 KiB) for fewer requests, a larger `max_poll_records` (10,000) and fetches of 4 MiB for each
partition. The `crc32c` package is installed, because kafka-python is faster with it.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

from tools.benchmarks.work import Job, Measured, measuring, values_for

# The package has no types.
kafka: Any = importlib.import_module("kafka")

_WINDOW = 50_000
"""The number of futures kept before they are checked. The client itself has no limit."""


def _producer(job: Job, linger_ms: int) -> Any:
    return kafka.KafkaProducer(
        bootstrap_servers=job.bootstrap_servers,
        acks="all",
        linger_ms=linger_ms,
        batch_size=256 * 1024,
        compression_type=None if job.compression == "none" else job.compression,
    )


def _settle(futures: list[Any]) -> int:
    for future in futures:
        future.get(timeout=60)
    return len(futures)


def produce(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    with measuring(measured) as clock:
        producer = _producer(job, 5)
        measured.records = _settle([producer.send(job.topic, values[0])])
        clock.begin()
        send, topic = producer.send, job.topic
        futures: list[Any] = []
        for value in job.rest(values):
            futures.append(send(topic, value))
            if len(futures) == _WINDOW:
                measured.records += _settle(futures)
                futures = []
        producer.flush(120)
        measured.records += _settle(futures)
        clock.end()
        producer.close()
    return measured


def consume(job: Job) -> Measured:
    measured = Measured()
    records = total = 0
    with measuring(measured) as clock:
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
        while records < job.records and time.monotonic() < deadline:
            found = consumer.poll(timeout_ms=1_000)
            if found and not records:
                clock.begin()
            for messages in found.values():
                for message in messages:
                    total += len(message.value)
                records += len(messages)
        clock.end()
        consumer.close()
    measured.records, measured.payload_bytes = records, total
    return measured


def latency(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    producer = _producer(job, 0)
    producer.send(job.topic, values[0]).get(timeout=30)
    latencies: list[float] = []

    def timed(due: float) -> Callable[[object], None]:
        return lambda _metadata: latencies.append(time.perf_counter() - due)

    with measuring(measured):
        begin = time.perf_counter()
        for index, value in enumerate(job.repeated(values)):
            due = begin + index / job.rate
            if (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            producer.send(job.topic, value).add_callback(timed(due))
        producer.flush(60)
    producer.close()
    measured.latencies(latencies)
    return measured


TASKS = {"produce": produce, "consume": consume, "latency": latency}
