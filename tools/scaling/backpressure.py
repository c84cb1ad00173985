"""The cost of a record if the brokers are ten times slower than the producer, so that ``send`` waits for
memory."""

import time
from typing import Final, NamedTuple

from pyklient import Producer
from tools.scaling.cluster import TOPIC, Layout
from tools.scaling.measurements import cluster_of

__all__ = ["SHAPES", "Costs", "Shape", "costs"]

_SLOWER: Final = 10.0
_WAIT: Final = 120.0


class Shape(NamedTuple):
    """The records of a measurement, and the partitions to which they go in turn."""

    title: str
    partitions: int
    size: int
    batch_size: int
    records: int


class Costs(NamedTuple):
    """The CPU time of a record in microseconds, with fast brokers and with slow ones."""

    fast: float
    slow: float


SHAPES: Final = (
    Shape("10 KB, batch_size=16384, 4 partitions", 4, 10_000, 16_384, 20_000),
    Shape("10 KB, batch_size=16384, 1,000 partitions", 1_000, 10_000, 16_384, 20_000),
    Shape("100 B, batch_size=16384, 1,000 partitions", 1_000, 100, 16_384, 1_000_000),
    Shape("100 B, default batch_size, 4 partitions", 4, 100, 1_000_000, 2_000_000),
)


def costs(shape: Shape) -> Costs:
    """Send the records of *shape* to fast brokers, and then to slow ones."""
    fast, seconds = _sent(shape, 0.0)
    slow, _ = _sent(shape, shape.records * shape.size / seconds / _SLOWER)
    return Costs(fast, slow)


def _sent(shape: Shape, rate: float) -> tuple[float, float]:
    """Send the records of *shape* to a cluster that accepts *rate* bytes per second. Return the CPU time of a
    record in microseconds, and the seconds that all took."""
    value = bytes(shape.size)
    with (
        cluster_of(Layout(partitions=shape.partitions, rate=rate)) as cluster,
        Producer(cluster.bootstrap_servers, batch_size=shape.batch_size) as producer,
    ):
        producer.send(TOPIC, value).result(30)
        cpu, began = time.process_time(), time.perf_counter()
        for number in range(shape.records):
            producer.send(TOPIC, value, partition=number % shape.partitions)
        producer.flush(_WAIT)
        return (time.process_time() - cpu) / shape.records * 1e6, time.perf_counter() - began
