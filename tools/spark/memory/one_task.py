"""Reads a large partition in one task, and measures the memory of the process that reads it."""

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
    """The rows and bytes of values that one task has read, and the peak memory of a worker in bytes."""

    rows: int
    size: int
    peak: int


def fill(bootstrap: str, topic: str, size: int) -> Iterator[int]:
    """Store incompressible values of *size* bytes in all. Yield the number of bytes sent so far."""
    values = pyarrow.array([os.urandom(_VALUE) for _ in range(_ROWS)], pyarrow.binary())
    table = pyarrow.record_batch({"value": values})
    with Producer(bootstrap, linger_ms=5) as producer:
        for sent in range(0, size, _ROWS * _VALUE):
            producer.send_arrow(topic, table)
            yield sent
        producer.flush()


def read_in_one_task(spark: SparkSession, bootstrap: str, topic: str) -> Reading:
    """Read all of *topic*, which has one partition. Works on Linux only, where /proc has the peak memory."""
    for pid in _workers():
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # reset the peak memory
    rows = spark.read.format("pyklient").option("kafka.bootstrap.servers", bootstrap)
    read = rows.option("subscribe", topic).load()
    assert read.rdd.getNumPartitions() == 1
    [(count, size)] = read.selectExpr("count(*)", "sum(length(value))").collect()
    return Reading(count, size, max(_peak(pid) for pid in _workers()))


def _workers() -> list[int]:
    """Return the processes that run tasks for the driver of this process."""
    name = "pyspark.daemon pyspark.worker"
    return [each.pid for each in descendants(os.getpid()) if name in each.command]


def _peak(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found, f"process {pid} has ended"
    return int(found[1]) * 1024
