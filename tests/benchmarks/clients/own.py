"""Defaults (linger 5 ms, batches up to 1 MB, idempotent); CRCs of what is read are checked.

A produce run ends with `flush()`, which raises if any record was not confirmed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from pyklient import ConsumerConnector, Delivery, KafkaStream, Producer
from tests.benchmarks.work import Clock, Job, Measured, fields_for, measuring, values_for

_TIMEOUT = 120.0


@contextmanager
def _producing(job: Job, measured: Measured) -> Iterator[Producer]:
    with measuring(measured), Producer(job.bootstrap_servers, compression_type=job.compression) as producer:
        yield producer
        producer.flush(_TIMEOUT)


def produce(job: Job) -> Measured:
    items = fields_for(job) if job.field else values_for(job)
    measured = Measured()
    with _producing(job, measured) as producer:
        delivery = _send_all(producer.send, job, items)
        producer.flush(_TIMEOUT)
        if delivery is not None:
            delivery.result(0)
    measured.records = job.records
    return measured


def _send_all(send: Callable[..., Delivery], job: Job, items: list[Any]) -> Delivery | None:
    topic, delivery = job.topic, None
    match job.field:
        case "key":
            for value, key in job.repeated(items):
                delivery = send(topic, value, key=key)
        case "timestamp":
            for value, timestamp in job.repeated(items):
                delivery = send(topic, value, timestamp_ms=timestamp)
        case "headers":
            for value, headers in job.repeated(items):
                delivery = send(topic, value, headers=headers)
        case "all":
            for value, key, timestamp, headers in job.repeated(items):
                delivery = send(topic, value, key=key, timestamp_ms=timestamp, headers=headers)
        case _:
            for value in job.repeated(items):
                delivery = send(topic, value)
    return delivery


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
        for value in job.repeated(values):
            send(topic, value, on_delivery=delivered)
    measured.records = confirmed
    return measured


def produce_many(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    with _producing(job, measured) as producer:
        bulk = producer.send_many(job.topic, job.repeated(values))
        ranges = bulk.result(_TIMEOUT)
    measured.records = sum(len(run) for runs in ranges.values() for run in runs)
    return measured


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
        total = len(next(messages).value)
        clock.begin()
        if job.field:
            for message in islice(messages, job.records - 2):
                fields = (message.value, message.key, message.timestamp_ms, message.headers)
                total += len(fields[0])
        else:
            for message in islice(messages, job.records - 2):
                total += len(message.value)
        total += len(next(messages).value)  # had one been missing, this would raise ConsumerTimeout
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


TASKS = {
    "produce": produce,
    "produce-callback": produce_with_callback,
    "produce-many": produce_many,
    "consume": consume,
    "consume-batches": consume_batches,
    "latency": latency,
}
