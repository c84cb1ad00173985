"""The memory of a task does not grow with the number of rows it reads; ``make memory-spark`` reads 5 GB."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers.fixtures import NewTopic
from tools.spark.memory.one_task import fill, read_in_one_task

_SIZE = 450_000_000
_BOUND = 320 * 1024 * 1024


@pytest.mark.brokers(min="4.3", real=True)
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is asked of Linux's /proc")
def test_a_task_reads_far_more_than_its_worker_holds(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    for _ in fill(bootstrap, topic, _SIZE):
        pass
    read = read_in_one_task(spark, bootstrap, topic)
    assert read.size >= _SIZE
    assert read.peak < _BOUND, f"{read.peak / 2**20:.0f} MiB"
