"""aiokafka: send() awaited for a place, its delivery future kept and checked; getmany() of many records.

Its own advice for throughput: linger_ms and a larger max_batch_size, getmany() rather than iteration.
"""

import asyncio
import importlib
import time
from typing import Any

from tests.benchmarks.work import Job, Measured, measuring, values_for

# The package has no types.
aiokafka: Any = importlib.import_module("aiokafka")

WINDOW = 50_000


def _producer(job: Job, linger_ms: int) -> Any:
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=job.bootstrap_servers,
        acks=job.acks if job.acks == "all" else int(job.acks),
        enable_idempotence=job.acks == "all",
        linger_ms=linger_ms,
        max_batch_size=1_000_000,
        compression_type=None if job.compression == "none" else job.compression,
    )


async def _produce(job: Job, values: list[bytes], measured: Measured) -> None:
    producer = _producer(job, 5)
    await producer.start()
    futures: list[asyncio.Future[Any]] = []
    for index in range(job.records):
        futures.append(await producer.send(job.topic, values[index % len(values)]))
        if len(futures) == WINDOW:
            measured.records += len(await asyncio.gather(*futures))
            futures = []
    await producer.flush()
    measured.records += len(await asyncio.gather(*futures))
    await producer.stop()


def produce(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    with measuring(measured):
        asyncio.run(_produce(job, values, measured))
    measured.payload_bytes = sum(len(values[index % len(values)]) for index in range(job.records))
    return measured


async def _consume(job: Job, measured: Measured) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        job.topic,
        bootstrap_servers=job.bootstrap_servers,
        group_id=f"aiokafka-{time.time_ns()}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )
    await consumer.start()
    deadline = time.monotonic() + 120
    while measured.records < job.records and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=1_000)).values():
            for record in records:
                measured.payload_bytes += len(record.value or b"")
                measured.records += 1
    await consumer.stop()


def consume(job: Job) -> Measured:
    measured = Measured()
    with measuring(measured):
        asyncio.run(_consume(job, measured))
    return measured


async def _latency(job: Job, values: list[bytes], latencies: list[float]) -> None:
    producer = _producer(job, 0)
    await producer.start()
    await producer.partitions_for(job.topic)
    begin = time.perf_counter()
    pending = []
    for index in range(job.records):
        if (left := begin + index / job.rate - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        start = time.perf_counter()
        future = await producer.send(job.topic, values[index % len(values)])
        future.add_done_callback(
            lambda _future, start=start: latencies.append((time.perf_counter() - start) * 1e3)
        )
        pending.append(future)
    await asyncio.gather(*pending)
    await producer.stop()


def latency(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    with measuring(measured):
        asyncio.run(_latency(job, values, measured.latencies_ms))
    measured.records = len(measured.latencies_ms)
    return measured


TASKS = {"produce": produce, "consume": consume, "latency": latency}
