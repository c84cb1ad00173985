"""pyklient at its defaults, with acks as the job says."""

import time
from collections.abc import Callable
from typing import Any

from pyklient import ConsumerConnector, Delivery, Producer
from tests.benchmarks.work import Job, Measured, measuring, values_for


def _options(job: Job) -> dict[str, Any]:
    return {"acks": job.acks, "compression_type": job.compression}


def produce(job: Job) -> Measured:
    """One send() a record; flush() raises for any record that was not confirmed."""
    values = values_for(job)
    measured = Measured()
    with (
        measuring(measured),
        Producer(job.bootstrap_servers, **_options(job)) as producer,
    ):
        send, topic, count = producer.send, job.topic, len(values)
        last = None
        for index in range(job.records):
            last = send(topic, values[index % count])
        producer.flush(120)
        if last is not None:
            last.result(0)
    measured.records = job.records
    measured.payload_bytes = sum(len(values[index % count]) for index in range(job.records))
    return measured


def produce_with_callback(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    confirmed = 0

    def delivered(delivery: Delivery) -> None:
        nonlocal confirmed
        delivery.result(0)
        confirmed += 1

    with (
        measuring(measured),
        Producer(job.bootstrap_servers, **_options(job)) as producer,
    ):
        send, topic, count = producer.send, job.topic, len(values)
        for index in range(job.records):
            send(topic, values[index % count], on_delivery=delivered)
        producer.flush(120)
    measured.records = confirmed
    measured.payload_bytes = sum(len(values[index % count]) for index in range(job.records))
    return measured


def consume(job: Job) -> Measured:
    measured = Measured()
    with (
        measuring(measured),
        ConsumerConnector(
            job.bootstrap_servers,
            group_id=f"pyklient-{time.time_ns()}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as connector,
    ):
        total = 0
        for count, message in enumerate(connector.stream(job.topic), 1):
            total += len(message.value)
            if count == job.records:
                break
        measured.records, measured.payload_bytes = count, total
    return measured


def latency(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    latencies: list[float] = []

    def timed(start: float) -> Callable[[Delivery], None]:
        def delivered(delivery: Delivery) -> None:
            delivery.result(0)
            latencies.append((time.perf_counter() - start) * 1e3)

        return delivered

    with Producer(job.bootstrap_servers, acks=_options(job)["acks"], linger_ms=0) as producer:
        send = producer.send
        send(job.topic, values[0]).result(30)
        with measuring(measured):
            begin = time.perf_counter()
            for index in range(job.records):
                if (left := begin + index / job.rate - time.perf_counter()) > 0:
                    time.sleep(left)
                send(job.topic, values[index % len(values)], on_delivery=timed(time.perf_counter()))
            producer.flush(60)
    measured.records, measured.latencies_ms = len(latencies), latencies
    return measured


TASKS = {
    "produce": produce,
    "produce-callback": produce_with_callback,
    "consume": consume,
    "latency": latency,
}
