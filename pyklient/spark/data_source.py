"""The data source ``format("pyklient")``. Spark gets the readers and writers of its queries here."""

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
"""The columns of the rows that the source returns. Spark's own Kafka source has the same columns."""

HEADERS: Final = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)
"""The column that the source adds if the option ``includeHeaders`` is true."""


class PyklientDataSource(DataSource):
    """A Kafka source and sink for Spark, with the schema, options and offsets of ``format("kafka")``.

    It needs no connector in the JVM. Spark finds this class through the module ``pyspark_pyklient``. To
    register it explicitly, call ``spark.dataSource.register(PyklientDataSource)``.
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
        """Return the writer of a batch query. *schema* is the schema of the rows to write."""
        from pyklient.spark.sink.writers import BatchWriter

        return BatchWriter(SinkOptions.parse(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a streaming query. *schema* is the schema of the rows to write.

        Spark sets *overwrite* in the output mode "complete". As in Spark's own sink, *overwrite* is ignored,
        because a topic cannot be emptied. So each micro-batch appends all rows of the result to the topic.
        """
        from pyklient.spark.sink.writers import stream_writer

        return stream_writer(SinkOptions.parse(self.options), schema)


def _schema(options: SourceOptions) -> StructType:
    return StructType([*SCHEMA.fields, HEADERS]) if options.headers else SCHEMA


def _require_schema(schema: StructType, options: SourceOptions) -> None:
    """Raise ConfigurationError if the user has set a *schema* that is not the schema of the source."""
    if schema != _schema(options):
        raise ConfigurationError(
            "the rows of format('pyklient') have a fixed schema: remove .schema(…), and cast the columns in "
            f"a select instead. The columns are {_schema(options).simpleString()}"
        )
