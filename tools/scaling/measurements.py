"""The measurements of ``make bench-scaling``. Each returns the CPU time of a record in microseconds."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any, Final, NamedTuple

from pyklient import ConsumerConnector, Producer
from tests.servers.ports import HOST
from tools.scaling.cluster import TOPIC, Layout

__all__ = ["MEASUREMENTS", "Measurement", "RunningCluster", "cluster_of"]

_ROOT: Final = Path(__file__).parents[2]
_RECORDS: Final = 50_000
"""The least number of records of a measurement."""
_ANSWERS: Final = 500
_WAIT: Final = 120.0
_IN_A_BATCH: Final = 10
_VALUE: Final = bytes(100)
_ENCODED: Final = 109
"""The size in bytes of a record with _VALUE in a batch, without the header of its batch."""
_UNBOUNDED: Final = 1 << 40


class RunningCluster(NamedTuple):
    """A running cluster."""

    bootstrap_servers: str
    process: subprocess.Popen[str]


@contextmanager
def cluster_of(layout: Layout) -> Iterator[RunningCluster]:
    """Run a cluster with *layout* in another process."""
    command = [sys.executable, "-m", "tools.scaling.cluster", layout.to_json()]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())[0]
            yield RunningCluster(f"{HOST}:{port}", process)
        finally:
            process.kill()


def _producer(cluster: RunningCluster, **options: Any) -> Producer:
    producer = Producer(cluster.bootstrap_servers, **{"buffer_memory": _UNBOUNDED, **options})
    producer.send(TOPIC, _VALUE).result(30)
    return producer


def queued(records: int) -> float:
    """Send *records* records in batches of their own while the broker stands still."""
    with (
        cluster_of(Layout(partitions=4)) as cluster,
        _producer(cluster, batch_size=0, linger_ms=0) as producer,
    ):
        sent, cpu = 0, time.process_time()
        while sent < _RECORDS // 10:
            cluster.process.send_signal(SIGSTOP)
            for number in range(records):
                producer.send(TOPIC, _VALUE, partition=number % 4)
            cluster.process.send_signal(SIGCONT)
            producer.flush(_WAIT)
            sent += records
        return (time.process_time() - cpu) / sent * 1e6


def waiting_for_memory(batches: int) -> float:
    """Send records in batches of their own, in a buffer that has space for *batches* of them."""
    charged = 4_000 + 256
    with (
        cluster_of(Layout(partitions=4)) as cluster,
        _producer(cluster, batch_size=0, linger_ms=0, buffer_memory=charged * (batches + 4)) as producer,
    ):
        records = max(_RECORDS // 10, 2 * batches)
        cpu = time.process_time()
        for number in range(records):
            producer.send(TOPIC, _VALUE, partition=number % 4)
        producer.flush(_WAIT)
        return (time.process_time() - cpu) / records * 1e6


def produced_to_partitions(partitions: int, brokers: int = 1, *, first_use: bool = True) -> float:
    """Send records to *partitions* partitions in turn, in batches of ten. If not *first_use*, each partition
    has got a batch before the measurement begins."""
    with (
        cluster_of(Layout(brokers, partitions)) as cluster,
        _producer(cluster, batch_size=61 + _IN_A_BATCH * _ENCODED, linger_ms=100) as producer,
    ):
        if not first_use:
            _send_in_turn(producer, partitions * _IN_A_BATCH, partitions)
        before = producer.metrics().delivered
        records = max(_RECORDS, 2 * partitions * _IN_A_BATCH)
        cpu = time.process_time()
        _send_in_turn(producer, records, partitions)
        cost = (time.process_time() - cpu) / records * 1e6
        batches = producer.metrics().delivered.batches - before.batches
        if batches > 1.05 * records / _IN_A_BATCH:
            raise RuntimeError(f"{records:,} records were sent in {batches:,} batches: these are too small")
        return cost


def _send_in_turn(producer: Producer, records: int, partitions: int) -> None:
    for number in range(records):
        producer.send(TOPIC, _VALUE, partition=number // _IN_A_BATCH % partitions)
    producer.flush(_WAIT)


def produced_again_to_partitions(partitions: int) -> float:
    """Send records as ``produced_to_partitions`` does, after each partition has got its first batch."""
    return produced_to_partitions(partitions, first_use=False)


def produced_to_brokers(brokers: int) -> float:
    """Send records to 1,000 partitions on *brokers* brokers, in batches of ten."""
    return produced_to_partitions(1_000, brokers)


def produced_to_two_partitions_of_each_broker(brokers: int) -> float:
    """Send records to two partitions on each of *brokers* brokers, in batches of ten."""
    return produced_to_partitions(2 * brokers, brokers)


def _consumed(layout: Layout, **options: Any) -> float:
    """Read all records of a cluster with *layout*."""
    total = layout.filled * layout.batches * layout.records
    with (
        cluster_of(layout) as cluster,
        ConsumerConnector(
            cluster.bootstrap_servers,
            **{"auto_offset_reset": "earliest", "consumer_timeout_ms": 60_000, **options},
        ) as connector,
    ):
        messages = iter(connector.stream(TOPIC))
        next(messages)
        cpu = time.process_time()
        for _, _message in zip(range(total - 1), messages, strict=False):
            pass
        return (time.process_time() - cpu) / total * 1e6


def consumed_batches(batches: int) -> float:
    """Read answers of *batches* batches of one record."""
    answers = max(4, _RECORDS // batches)
    layout = Layout(filled=1, batches=answers * batches, at_once=batches)
    return _consumed(layout, max_partition_fetch_bytes=64 << 20, fetch_max_bytes=64 << 20)


def consumed_partitions(partitions: int) -> float:
    """Read answers with ten records of each of *partitions* partitions."""
    batches = max(4, _RECORDS // _IN_A_BATCH // partitions)
    return _consumed(
        Layout(partitions=partitions, filled=partitions, batches=batches, records=_IN_A_BATCH, at_once=1)
    )


def consumed_beside_idle_partitions(partitions: int) -> float:
    """Read answers with ten records of one partition, of *partitions* that are fetched."""
    return _consumed(
        Layout(partitions=partitions, filled=1, batches=_ANSWERS, records=_IN_A_BATCH, at_once=1)
    )


def consumed_from_brokers(brokers: int) -> float:
    """Read answers with a hundred records of one partition, from each of *brokers* brokers."""
    batches = max(20, 5 * _RECORDS // 1_000 // brokers)
    return _consumed(
        Layout(brokers, partitions=brokers, filled=brokers, batches=batches, records=10, at_once=10)
    )


class Measurement(NamedTuple):
    """A row of the table: what is varied, and the largest number for which it is measured."""

    title: str
    run: Callable[[int], float]
    most: int


MEASUREMENTS: Final = (
    Measurement("produce: records queued, one in a batch", queued, 100_000),
    Measurement("produce: batches that fill the memory, one record in each", waiting_for_memory, 10_000),
    Measurement("produce: partitions, ten records in a batch", produced_to_partitions, 10_000),
    Measurement(
        "produce: partitions, ten records in a batch, after a first batch of each",
        produced_again_to_partitions,
        10_000,
    ),
    Measurement("produce: brokers, ten records in a batch, 1,000 partitions", produced_to_brokers, 50),
    Measurement(
        "produce: brokers, ten records in a batch, two partitions on each",
        produced_to_two_partitions_of_each_broker,
        50,
    ),
    Measurement("consume: batches in a response, one record in each", consumed_batches, 100_000),
    Measurement("consume: partitions in a response, ten records of each", consumed_partitions, 10_000),
    Measurement(
        "consume: one partition with records, and this many without", consumed_beside_idle_partitions, 10_000
    ),
    Measurement("consume: brokers, a hundred records in a response", consumed_from_brokers, 50),
)
