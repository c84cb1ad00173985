"""The data source ``format("pyklient")``, which gives Spark its readers and writers."""

from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
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

from pyklient.errors import ConfigurationError
from pyklient.spark.options import Use
from pyklient.spark.sink.sink_options import SinkOptions
from pyklient.spark.source.source_options import SourceOptions

__all__ = ["HEADERS", "SCHEMA", "PyklientDataSource"]

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
"""The columns of the rows that are read. They are those of Spark's own Kafka source."""

HEADERS: Final = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)
"""The column that the option ``includeHeaders`` adds."""


class PyklientDataSource(DataSource):
    """A Kafka source and sink for Spark, with the schema, options and offsets of ``format("kafka")``.

    It needs no connector in the JVM. Spark finds this class by itself;
    ``spark.dataSource.register(PyklientDataSource)`` registers it explicitly.
    """

    # Spark starts a process for each step of a plan, and the first step needs the schema only. Therefore
    # readers and writers are imported where they are made.

    @classmethod
    def name(cls) -> str:
        """Return the name of this data source, which users pass to ``format``."""
        return "pyklient"

    def schema(self) -> StructType:
        """Return the schema of the rows that are read. The option ``includeHeaders`` adds a column."""
        return _schema(SourceOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. *schema* must be the one that :meth:`schema` returns."""
        from pyklient.spark.source.batch_reader import BatchReader

        options = SourceOptions.parse(self.options, Use.BATCH)
        _require_schema(schema, options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream. *schema* must be the one that :meth:`schema` returns."""
        from pyklient.spark.source.stream_reader import stream_reader

        options = SourceOptions.parse(self.options, Use.STREAM)
        _require_schema(schema, options)
        return stream_reader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch, whose rows have the schema *schema*."""
        from pyklient.spark.sink.writers import BatchWriter

        return BatchWriter(SinkOptions.parse(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream, whose rows have the schema *schema*.

        In the output mode "complete", *overwrite* is true. As with Spark's own sink, all rows are then
        appended again, because a topic cannot be emptied.
        """
        from pyklient.spark.sink.writers import stream_writer

        return stream_writer(SinkOptions.parse(self.options), schema)


def _schema(options: SourceOptions) -> StructType:
    return StructType([*SCHEMA.fields, HEADERS]) if options.headers else SCHEMA


def _require_schema(schema: StructType, options: SourceOptions) -> None:
    """Raise ConfigurationError if the user has given the query another schema."""
    if schema != _schema(options):
        raise ConfigurationError(
            "the rows of format('pyklient') have a fixed schema: remove .schema(…), and select and cast "
            f"columns of {_schema(options).simpleString()}"
        )
