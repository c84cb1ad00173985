"""The job whose processes are killed: two queries and repeated loads read a topic and store it three times.

    python -m tools.spark.chaos.job '{"bootstrap": …, "source": …, "copy": …, "home": …}'

It continues where the job before it ended. Once ``<home>/finish`` exists and all records that were in the
topic then are stored, it writes the numbers in each Parquet data set to ``<home>/stored.json`` and exits
with status 0.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyklient.spark import load
from tests.servers.spark_home import make_spark_home
from tools.spark.session import new_session

_BETWEEN_LOADS = 0.5


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    home = Path(given["home"])
    spark = _session(home)
    queries = [_copy(spark, given, home), _files(spark, given, home)]
    while not (home / "finish").exists():
        _fail_with_the_first(queries)
        _load(spark, given, home)
        time.sleep(_BETWEEN_LOADS)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    _load(spark, given, home)
    stored = {name: _numbers(spark.read.parquet(str(home / name))) for name in ("files", "loads")}
    (home / "stored.json").write_text(json.dumps(stored))
    spark.stop()


def _session(home: Path) -> SparkSession:
    settings = {
        "spark.driver.memory": "512m",
        # There are many kills, and each lost executor counts as a failure.
        "spark.deploy.maxExecutorRetries": "-1",
    }
    # Each job has its own, because Spark's workers leave files there.
    installation = make_spark_home(home / "spark-home")
    session = new_session("local-cluster[2,1,512]", home, settings, installation)
    session.sparkContext.setLogLevel("WARN")
    return session


def _source(spark: SparkSession, given: dict[str, Any]) -> DataFrame:
    return (
        spark.readStream.format("pyklient")
        .option("kafka.bootstrap.servers", given["bootstrap"])
        .option("subscribe", given["source"])
        .option("startingOffsets", "earliest")
        .load()
    )


def _copy(spark: SparkSession, given: dict[str, Any], home: Path) -> StreamingQuery:
    """Write the numbers to another topic at least once, with headers by which duplicates are recognized."""
    return (
        _source(spark, given)
        .select("value")
        .writeStream.format("pyklient")
        .option("kafka.bootstrap.servers", given["bootstrap"])
        .option("topic", given["copy"])
        .option("deduplicationHeaders", True)
        .option("checkpointLocation", str(home / "copy.checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )


def _files(spark: SparkSession, given: dict[str, Any], home: Path) -> StreamingQuery:
    """Write the numbers with Spark's own file sink, which stores each row of a micro-batch once."""
    return (
        _source(spark, given)
        .select("value")
        .writeStream.format("parquet")
        .option("path", str(home / "files"))
        .option("checkpointLocation", str(home / "files.checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )


def _load(spark: SparkSession, given: dict[str, Any], home: Path) -> None:
    """Load the records that are new since the last load, exactly once."""
    try:
        load(spark, given["bootstrap"], given["source"], home / "loads")
    except Exception as error:
        _fail(error)


def _fail_with_the_first(queries: list[StreamingQuery]) -> None:
    for query in queries:
        if not query.isActive:
            _fail(query.exception())


def _fail(error: Exception | None) -> NoReturn:
    """End at once, as if this process had been killed too, because other threads are still at work."""
    print(f"FAILED {error}", flush=True)
    os._exit(1)


def _numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row[0]) for row in rows.select("value").collect())


if __name__ == "__main__":
    main()
