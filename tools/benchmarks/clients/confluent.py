"""The producer has one delivery callback for all records, which needs less CPU time than a callback for each
call. The program calls `poll(0)`, which runs the callback, every 1,000 records and after a BufferError.

The producer has the settings that librdkafka's introduction recommends under "High throughput": `linger.ms`
of 5 or more (here 5), large batches (`batch.size` 1 MB, `batch.num.messages` 100,000) and a queue that does
not run full (1,000,000 messages, 1 GiB). The producer is idempotent, as pyklient's is.

The consumer calls `consume(1)` for the first record, and then `consume(10_000)`. It has its default options
(it checks no CRCs), except for `fetch.queue.backoff.ms` = 5. With the default of 1,000, it pauses for a
second whenever its queue is full. In trials, larger queues and fetches needed more CPU time and were not
faster.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tools.benchmarks.work import (
    AT_ONCE,
    Job,
    Measured,
    fields_for,
    json_encoder,
    measuring,
    objects_for,
    values_for,
)

__all__ = ["TASKS", "TIMEOUT", "Confirmed", "new_producer", "send_values"]

_BULK = 10_000
_LARGEST_BATCH = 2 * 1024 * 1024
TIMEOUT = 120.0

OnDelivery = Callable[[KafkaError | None, Message], None]


class Confirmed:
    """The delivery callback of a run, and the number of its calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            raise RuntimeError(str(error))
        self.count += 1


def new_producer(job: Job, linger_ms: float, **options: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "compression.type": job.compression,
            **_shape(job),
            **options,
        }
    )


def _shape(job: Job) -> dict[str, Any]:
    """Return the settings that *job* asks for."""
    settings: dict[str, Any] = {}
    if job.batch_records:
        settings["batch.num.messages"] = job.batch_records
        settings |= {"batch.size": _LARGEST_BATCH, "message.max.bytes": _LARGEST_BATCH}
    if job.buffer_mib:
        settings["queue.buffering.max.kbytes"] = job.buffer_mib * 1024
    if job.acks != "all":
        settings |= {"acks": job.acks, "enable.idempotence": False}
    return settings


def produce(job: Job) -> Measured:
    values = values_for(job)
    items = fields_for(job) if job.field else objects_for(job) if job.values == "objects" else values
    measured, confirmed = Measured(), Confirmed()
    with measuring(measured) as clock:
        producer = new_producer(job, job.linger_ms, on_delivery=confirmed)
        producer.produce(job.topic, values[0])
        producer.flush(30)
        clock.begin()
        send_chunk, rest = _sender(job, producer), job.rest(items)
        while chunk := list(islice(rest, AT_ONCE)):
            send_chunk(producer, job.topic, chunk)
            producer.poll(0)
        producer.flush(TIMEOUT)
    measured.records = confirmed.count
    return measured


def send_values(producer: Producer, topic: str, chunk: list[bytes]) -> None:
    send = producer.produce
    for value in chunk:
        try:
            send(topic, value)
        except BufferError:
            _send_later(producer, topic, value)


def _send_keys(producer: Producer, topic: str, chunk: list[Any]) -> None:
    send = producer.produce
    for value, key in chunk:
        try:
            send(topic, value, key=key)
        except BufferError:
            _send_later(producer, topic, value, key=key)


def _send_timestamps(producer: Producer, topic: str, chunk: list[Any]) -> None:
    send = producer.produce
    for value, timestamp in chunk:
        try:
            send(topic, value, timestamp=timestamp)
        except BufferError:
            _send_later(producer, topic, value, timestamp=timestamp)


def _send_headers(producer: Producer, topic: str, chunk: list[Any]) -> None:
    send = producer.produce
    for value, headers in chunk:
        try:
            send(topic, value, headers=headers)
        except BufferError:
            _send_later(producer, topic, value, headers=headers)


def _send_all_fields(producer: Producer, topic: str, chunk: list[Any]) -> None:
    for value, key, timestamp, headers in chunk:
        try:
            producer.produce(topic, value, key=key, timestamp=timestamp, headers=headers)
        except BufferError:
            _send_later(producer, topic, value, key=key, timestamp=timestamp, headers=headers)


def _sender(job: Job, producer: Producer) -> "_Sender":
    if job.values == "objects":
        return partial(_send_objects, json_encoder(job))
    if job.task == "produce-partitioner":
        return partial(
            _send_partitioned, len(producer.list_topics(job.topic, 30).topics[job.topic].partitions)
        )
    return _SENDERS[job.field]


def _send_objects(encode: Callable[[Any], bytes], producer: Producer, topic: str, chunk: list[Any]) -> None:
    send = producer.produce
    for each in chunk:
        value = encode(each)
        try:
            send(topic, value)
        except BufferError:
            _send_later(producer, topic, value)


def _send_partitioned(partitions: int, producer: Producer, topic: str, chunk: list[Any]) -> None:
    for value, key in chunk:
        partition = _partition(key, partitions)
        try:
            producer.produce(topic, value, key=key, partition=partition)
        except BufferError:
            _send_later(producer, topic, value, key=key, partition=partition)


def _partition(key: bytes, count: int) -> int:
    return key[-1] % count


_Sender = Callable[[Producer, str, list[Any]], None]
_SENDERS: dict[str, _Sender] = {
    "": send_values,
    "key": _send_keys,
    "tombstone": _send_keys,
    "timestamp": _send_timestamps,
    "headers": _send_headers,
    "all": _send_all_fields,
}
"""Send records with a separate loop for each kind, so that none pays for fields that it does not have."""


def _send_later(producer: Producer, topic: str, value: bytes, **fields: Any) -> None:
    """Serve callbacks until the full queue has space again."""
    while True:
        producer.poll(0.01)
        try:
            producer.produce(topic, value, **fields)
            return
        except BufferError:
            continue


def produce_batch(job: Job) -> Measured:
    values = values_for(job)
    measured, confirmed = Measured(), Confirmed()
    with measuring(measured) as clock:
        producer = new_producer(job, 5)
        producer.produce(job.topic, values[0], on_delivery=confirmed)
        producer.flush(30)
        clock.begin()
        rest = job.rest(values)
        while messages := [{"value": value} for value in islice(rest, _BULK)]:
            while producer.produce_batch(job.topic, messages, on_delivery=confirmed) < len(messages):
                messages = [{"value": message["value"]} for message in messages if "_error" in message]
                producer.poll(0.01)
            producer.poll(0)
        producer.flush(TIMEOUT)
    measured.records = confirmed.count
    return measured


def consume(job: Job) -> Measured:
    measured = Measured()
    records = total = 0
    with measuring(measured) as clock:
        consumer = Consumer(
            {
                "bootstrap.servers": job.bootstrap_servers,
                "group.id": f"confluent-{time.time_ns()}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 5,
            }
        )
        consumer.subscribe([job.topic])
        deadline = time.monotonic() + TIMEOUT
        while records < job.records and time.monotonic() < deadline:
            messages = consumer.consume(_BULK if records else 1, 1.0)
            if messages and not records:
                clock.begin()
            count, size = (_read_fields if job.field else _read_values)(messages)
            records += count
            total += size
        clock.end()
        consumer.close()
    measured.records, measured.payload_bytes = records, total
    return measured


def _read_values(messages: list[Message]) -> tuple[int, int]:
    """Return the number of records among *messages*, and the size of their values."""
    count = total = 0
    for message in messages:
        if message.error() is None:
            total += len(message.value() or b"")
            count += 1
    return count, total


def _read_fields(messages: list[Message]) -> tuple[int, int]:
    count = total = 0
    for message in messages:
        if message.error() is None:
            fields = (message.value(), message.key(), message.timestamp(), message.headers())
            total += len(fields[0] or b"")
            count += 1
    return count, total


def latency(job: Job) -> Measured:
    """Serve the callbacks in a thread, as confluent-kafka's own asyncio example does."""
    values = values_for(job)
    measured = Measured()
    producer = new_producer(job, 0)
    producer.produce(job.topic, values[0])
    producer.flush(30)
    latencies: list[float] = []
    ended = threading.Event()

    def timed(due: float) -> OnDelivery:
        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                latencies.append(time.perf_counter() - due)

        return delivered

    def serve() -> None:
        while not ended.is_set():
            producer.poll(0.1)

    poller = threading.Thread(target=serve)
    poller.start()
    with measuring(measured):
        begin = time.perf_counter()
        for index, value in enumerate(job.repeated(values)):
            due = begin + index / job.rate
            if (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            producer.produce(job.topic, value, on_delivery=timed(due))
        producer.flush(60)
    ended.set()
    poller.join()
    measured.latencies(latencies)
    return measured


TASKS = {
    "produce": produce,
    "produce-partitioner": produce,
    "produce-msgspec": produce,
    "produce-batch": produce_batch,
    "consume": consume,
    "latency": latency,
}
