"""A large partition, read by one task, and what the process that read it took of memory."""

import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from pyklient import Producer
from tools.spark.processes import descendants

__all__ = ["Reading", "fill", "read_in_one_task"]

pyarrow: Any = importlib.import_module("pyarrow")

_VALUE = 1024
_ROWS = 8192


class Reading(NamedTuple):
    """What one task has read, in rows and bytes of values, and the most memory that a worker ever held."""

    rows: int
    size: int
    peak: int


def fill(bootstrap: str, topic: str, size: int) -> Iterator[int]:
    """Store values of *size* bytes in all, which cannot be compressed. Yields what has been sent so far."""
    values = pyarrow.array([os.urandom(_VALUE) for _ in range(_ROWS)], pyarrow.binary())
    table = pyarrow.record_batch({"value": values})
    with Producer(bootstrap, linger_ms=5) as producer:
        for sent in range(0, size, _ROWS * _VALUE):
            producer.send_arrow(topic, table)
            yield sent
        producer.flush()


def read_in_one_task(spark: SparkSession, bootstrap: str, topic: str) -> Reading:
    """Read all of *topic*, which has one partition. Linux: there /proc tells how much a process ever held."""
    for pid in _workers():
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the peak of what it did before
    rows = spark.read.format("pyklient").option("kafka.bootstrap.servers", bootstrap)
    read = rows.option("subscribe", topic).load()
    assert read.rdd.getNumPartitions() == 1
    [(count, size)] = read.selectExpr("count(*)", "sum(length(value))").collect()
    return Reading(count, size, max(_peak(pid) for pid in _workers()))


def _workers() -> list[int]:
    """Processes that run tasks of the driver that this process has started."""
    name = "pyspark.daemon pyspark.worker"
    return [each.pid for each in descendants(os.getpid()) if name in each.command]


def _peak(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found, f"process {pid} has ended"
    return int(found[1]) * 1024
