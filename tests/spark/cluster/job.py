"""A job for a cluster: reads a topic in batch and as a stream, and writes another one.

    python -m tests.spark.cluster.job MASTER ARCHIVE '{"bootstrap": …, "source": …, "copy": …, "home": …}'

Prints in one line of JSON what it has read, and with which pyklient.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.spark.cluster.session import archived_session


def main() -> None:
    master, archive, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    spark = archived_session(master, archive, Path(given["home"]))
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


def _where(numbers: Iterable[int]) -> Iterator[list[Any]]:
    """Yield the version, the location and the kernel of the pyklient that the node uses."""
    import os

    import pyklient
    from pyklient import kernel

    list(numbers)
    yield [os.getcwd(), str(pyklient.__file__), kernel.name]


if __name__ == "__main__":
    main()
