"""A Spark session that does a little of what tests do, so that its JVM loads the classes that they need.

python -m tests.servers.spark_classes OPTION_OF_THE_JVM
"""

import sys
import tempfile
from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from tests.servers.java import QUICK_JVM

_SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class Numbers(DataSource):
    """A source in Python, as pyklient's is."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number int"

    def reader(self, schema: object) -> DataSourceReader:
        return NumbersReader()


class NumbersReader(DataSourceReader):
    """Reads three rows."""

    def read(self, partition: object) -> Iterator[tuple[int]]:
        return iter([(1,), (2,), (3,)])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pyklient-classes-") as home:
        jvm = (*QUICK_JVM, f"-Dderby.system.home={home}", sys.argv[1])
        settings = _SETTINGS | {
            "spark.driver.extraJavaOptions": " ".join(jvm),
            "spark.local.dir": f"{home}/local",
            "spark.sql.warehouse.dir": f"{home}/warehouse",
        }
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        spark.dataSource.register(Numbers)
        frame = spark.read.format("numbers").load().selectExpr("number", "number % 2 as odd")
        frame.write.parquet(f"{home}/numbers")
        stored = spark.read.parquet(f"{home}/numbers")
        stored.mapInArrow(lambda batches: batches, stored.schema).groupBy("odd").sum("number").collect()
        query = (
            spark.readStream.schema(stored.schema)
            .parquet(f"{home}/numbers")
            .groupBy("odd")
            .count()
            .writeStream.outputMode("complete")
            .option("checkpointLocation", f"{home}/checkpoint")
            .trigger(availableNow=True)
            .foreachBatch(lambda batch, _: print(batch.collect()))
            .start()
        )
        query.awaitTermination(60)
        spark.stop()


if __name__ == "__main__":
    main()
