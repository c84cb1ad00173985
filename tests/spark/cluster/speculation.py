"""A job whose slow tasks Spark runs a second time: a write, and a load.

    python -m tests.spark.cluster.speculation MASTER ARCHIVE '{"bootstrap": …, "source": …, …}'

Prints in one line of JSON which numbers the load has stored.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame

from pyklient.spark import load
from tests.spark.cluster.session import archived_session

_SLOW = 30.0


def main() -> None:
    master, archive, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    settings = {
        "spark.speculation": "true",
        "spark.speculation.efficiency.enabled": "false",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        # Some of the rows are sent before the task is slow.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    }
    spark = archived_session(master, archive, Path(given["home"]), settings)
    source = {"kafka.bootstrap.servers": given["bootstrap"], "subscribe": given["source"]}
    rows = spark.read.format("pyklient").options(**source).load()
    _slowly(rows).select("value").write.format("pyklient").option("topic", given["copy"]).option(
        "kafka.bootstrap.servers", given["bootstrap"]
    ).option("deduplicationHeaders", "true").mode("append").save()
    target = f"{given['home']}/loaded"
    load(spark, given["bootstrap"], given["source"], target, transform=_slowly)
    loaded = sorted(int(row.value) for row in spark.read.parquet(target).select("value").collect())
    spark.stop()
    print(json.dumps({"loaded": loaded}))


def _slowly(rows: DataFrame) -> DataFrame:
    """Return *rows*, with a task that ends long after its last row unless it is run a second time."""

    def passing_on(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and not context.attemptNumber():
            time.sleep(_SLOW)

    return rows.mapInArrow(passing_on, rows.schema)


if __name__ == "__main__":
    main()
