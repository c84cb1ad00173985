"""confluent-kafka: callbacks served while producing; consume() in batches of 10,000.

Its own advice for throughput (librdkafka's INTRODUCTION, "High throughput"): linger.ms of 5 or more, larger
batches, a queue that does not fill; on BufferError serve callbacks and try again.
"""

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.benchmarks.work import Job, Measured, measuring, values_for


def _producer(job: Job, linger_ms: float) -> Producer:
    return Producer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "acks": job.acks,
            "enable.idempotence": job.acks == "all",
            "linger.ms": linger_ms,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "compression.type": job.compression,
        }
    )


def produce(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    confirmed = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal confirmed
        if error is not None:
            raise RuntimeError(str(error))
        confirmed += 1

    with measuring(measured):
        producer = _producer(job, 5)
        send, poll, topic, count = producer.produce, producer.poll, job.topic, len(values)
        for index in range(job.records):
            while True:
                try:
                    send(topic, values[index % count], on_delivery=delivered)
                    break
                except BufferError:
                    poll(0.01)
            if index % 1_000 == 0:
                poll(0)
        producer.flush(120)
    measured.records = confirmed
    measured.payload_bytes = sum(len(values[index % count]) for index in range(job.records))
    return measured


def _consume(job: Job, take: Callable[[Consumer], list[Message]]) -> Measured:
    measured = Measured()
    with measuring(measured):
        consumer = Consumer(
            {
                "bootstrap.servers": job.bootstrap_servers,
                "group.id": f"confluent-{time.time_ns()}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
                "max.partition.fetch.bytes": 4 * 1024 * 1024,
                "queued.max.messages.kbytes": 1_048_576,
                "queued.min.messages": 1_000_000,
            }
        )
        consumer.subscribe([job.topic])
        deadline = time.monotonic() + 120
        while measured.records < job.records and time.monotonic() < deadline:
            for message in take(consumer):
                if message.error() is None:
                    measured.payload_bytes += len(message.value() or b"")
                    measured.records += 1
        consumer.close()
    return measured


def consume(job: Job) -> Measured:
    return _consume(job, lambda consumer: consumer.consume(10_000, 1.0))


def latency(job: Job) -> Measured:
    values = values_for(job)
    measured = Measured()
    producer = _producer(job, 0)
    producer.list_topics(job.topic, 10)
    latencies: list[float] = []

    def timed(start: float) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise RuntimeError(str(error))
            latencies.append((time.perf_counter() - start) * 1e3)

        return delivered

    with measuring(measured):
        begin = time.perf_counter()
        for index in range(job.records):
            due = begin + index / job.rate
            while (left := due - time.perf_counter()) > 0:
                producer.poll(left)
            producer.produce(job.topic, values[index % len(values)], on_delivery=timed(time.perf_counter()))
        producer.flush(60)
    measured.records, measured.latencies_ms = len(latencies), latencies
    return measured


TASKS = {"produce": produce, "consume": consume, "latency": latency}
