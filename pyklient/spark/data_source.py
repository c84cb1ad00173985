"""``format("pyklient")``: where Spark asks for readers and writers."""

from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyklient.spark.batch_reader import BatchReader
from pyklient.spark.options import Use
from pyklient.spark.source_options import SourceOptions

__all__ = ["SCHEMA", "PyklientDataSource"]

SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
"""The rows of Spark's own Kafka source."""

HEADERS: Final = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)


class PyklientDataSource(DataSource):
    """Kafka for Spark without the JVM's connector: schema, options and offsets of ``format("kafka")``.

    Spark finds it by itself. ``spark.dataSource.register(PyklientDataSource)`` does the same by hand.
    """

    @classmethod
    def name(cls) -> str:
        """What ``format`` is called with."""
        return "pyklient"

    def schema(self) -> StructType:
        """The schema of what is read; with ``includeHeaders`` a column of headers too."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads a batch."""
        return BatchReader(SourceOptions.parse(self.options, Use.BATCH), headers=False)
