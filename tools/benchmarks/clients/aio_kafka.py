"""The producer awaits `send()`, and awaits the delivery futures of 50,000 records at a time. It is
idempotent, as pyklient's is. The consumer calls `getmany()`.

The settings are those that aiokafka's documentation recommends: `linger_ms` above 0 (here 5) and a larger
`max_batch_size` (1 MB) for fewer requests, `getmany()` instead of iteration, and larger fetches (4 MiB for
each partition). aiokafka fetches records before the program asks for them. So its time begins earlier than
that of the other consumers: at the moment when it has its partitions.
"""

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any

from tools.benchmarks.work import Clock, Job, Measured, measuring, values_for

# The package has no types.
aiokafka: Any = importlib.import_module("aiokafka")

_WINDOW = 50_000


def _producer(job: Job, linger_ms: int) -> Any:
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=job.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        linger_ms=linger_ms,
        max_batch_size=1_000_000,
        compression_type=None if job.compression == "none" else job.compression,
    )


async def _produce(job: Job, values: list[bytes], measured: Measured, clock: Clock) -> None:
    async with _producer(job, 5) as producer:
        await producer.send_and_wait(job.topic, values[0])
        measured.records = 1
        clock.begin()
        send, topic = producer.send, job.topic
        futures: list[asyncio.Future[Any]] = []
        for value in job.rest(values):
            futures.append(await send(topic, value))
            if len(futures) == _WINDOW:
                measured.records += len(await asyncio.gather(*futures))
                futures = []
        await producer.flush()
        measured.records += len(await asyncio.gather(*futures))
        clock.end()


def produce(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    with measuring(measured) as clock:
        asyncio.run(_produce(job, values, measured, clock))
    return measured


async def _consume(job: Job, measured: Measured, clock: Clock) -> None:
    records = total = 0
    async with aiokafka.AIOKafkaConsumer(
        job.topic,
        bootstrap_servers=job.bootstrap_servers,
        group_id=f"aiokafka-{time.time_ns()}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=4 * 1024 * 1024,
    ) as consumer:
        # Its partitions are assigned, and it reads ahead: the first records that it hands out can be all.
        clock.begin()
        deadline = time.monotonic() + 120
        while records < job.records and time.monotonic() < deadline:
            found = await consumer.getmany(timeout_ms=1_000)
            for messages in found.values():
                for message in messages:
                    total += len(message.value)
                records += len(messages)
        clock.end()
    measured.records, measured.payload_bytes = records, total


def consume(job: Job) -> Measured:
    measured = Measured()
    with measuring(measured) as clock:
        asyncio.run(_consume(job, measured, clock))
    return measured


async def _latency(job: Job, values: list[bytes], measured: Measured) -> list[float]:
    latencies: list[float] = []

    def timed(due: float) -> Callable[[asyncio.Future[Any]], None]:
        def delivered(future: asyncio.Future[Any]) -> None:
            if future.exception() is None:
                latencies.append(time.perf_counter() - due)

        return delivered

    async with _producer(job, 0) as producer:
        await producer.send_and_wait(job.topic, values[0])
        with measuring(measured):
            pending = []
            begin = time.perf_counter()
            for index, value in enumerate(job.repeated(values)):
                due = begin + index / job.rate
                if (left := due - time.perf_counter()) > 0:
                    await asyncio.sleep(left)
                future = await producer.send(job.topic, value)
                future.add_done_callback(timed(due))
                pending.append(future)
            await asyncio.gather(*pending)
            await asyncio.sleep(0)
    return latencies


def latency(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    measured.latencies(asyncio.run(_latency(job, values, measured)))
    return measured


TASKS = {"produce": produce, "consume": consume, "latency": latency}
