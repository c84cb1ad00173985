"""A job for a cluster: reads a topic in batch and as a stream, and writes another one.

    python -m tests.spark.cluster.job MASTER ARCHIVE '{"bootstrap": …, "source": …, "copy": …, "home": …}'

Prints in one line of JSON what it has read, and with which pyklient.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.session import new_session


def main() -> None:
    master, archive, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    spark = _session(master, archive, Path(given["home"]))
    source = {"kafka.bootstrap.servers": given["bootstrap"], "subscribe": given["source"]}
    rows = spark.read.format("pyklient").options(**source).load()
    numbers = sorted(int(row.value) for row in rows.select("value").collect())
    query = (
        spark.readStream.format("pyklient")
        .options(**source, startingOffsets="earliest")
        .load()
        .writeStream.format("pyklient")
        .option("kafka.bootstrap.servers", given["bootstrap"])
        .option("topic", given["copy"])
        .option("checkpointLocation", str(Path(given["home"], "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    nodes = spark.sparkContext.parallelize(range(4), 4).mapPartitions(_where).collect()
    spark.stop()
    print(json.dumps({"numbers": numbers, "nodes": sorted({tuple(each) for each in nodes})}))


def _session(master: str, archive: str, home: Path) -> SparkSession:
    settings = {
        "spark.archives": f"{archive}#environment",
        "spark.cores.max": "2",
        "spark.driver.memory": "512m",
        # Begins when both nodes are there.
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    return new_session(master, home, settings)


def _where(numbers: Iterable[int]) -> Iterator[list[Any]]:
    """Which pyklient the node has, where from, and with which kernel."""
    import os

    import pyklient
    from pyklient.protocol.records import kernel

    list(numbers)
    yield [os.getcwd(), str(pyklient.__file__), kernel.name]


if __name__ == "__main__":
    main()
