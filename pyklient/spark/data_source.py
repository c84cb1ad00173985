"""``format("pyklient")``: where Spark asks for readers and writers."""

from typing import Final

import pyspark
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
"""The rows of Spark's own Kafka source."""

HEADERS: Final = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)
"""The column that ``includeHeaders`` adds."""


class PyklientDataSource(DataSource):
    """Kafka for Spark without the JVM's connector: schema, options and offsets of ``format("kafka")``.

    Spark finds it by itself. ``spark.dataSource.register(PyklientDataSource)`` does the same by hand.
    """

    # Spark starts a process for each step of a plan, and the first asks for no more than the schema: readers
    # and writers are imported where they are made.

    @classmethod
    def name(cls) -> str:
        """What ``format`` is called with."""
        return "pyklient"

    def schema(self) -> StructType:
        """The schema of what is read; with ``includeHeaders`` a column of headers too."""
        return _schema(SourceOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads a batch. *schema* is that of :meth:`schema`: no other can be asked for."""
        from pyklient.spark.source.batch_reader import BatchReader

        options = SourceOptions.parse(self.options, Use.BATCH)
        _refuse_other(schema, options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads a stream."""
        options = SourceOptions.parse(self.options, Use.STREAM)
        _refuse_other(schema, options)
        try:
            from pyklient.spark.source.limited_reader import LimitedReader
        except ImportError:
            from pyklient.spark.source.stream_reader import StreamReader

            _refuse_limits(options)
            return StreamReader(options)
        return LimitedReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes a batch of rows of *schema*."""
        from pyklient.spark.sink.writers import BatchSink

        return BatchSink(SinkOptions.parse(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Writes a stream of rows of *schema*; in output mode complete too, where *overwrite* is set: as with
        Spark's own sink all rows are written again, for a topic cannot be emptied."""
        from pyklient.spark.sink.writers import stream_sink

        return stream_sink(SinkOptions.parse(self.options), schema)


def _schema(options: SourceOptions) -> StructType:
    return StructType([*SCHEMA.fields, HEADERS]) if options.headers else SCHEMA


def _refuse_other(schema: StructType, options: SourceOptions) -> None:
    """Raises ConfigurationError for a schema that the query has set itself."""
    if schema != _schema(options):
        raise ConfigurationError(
            "the rows of format('pyklient') have a fixed schema, drop .schema(…): select and cast columns "
            f"of {_schema(options).simpleString()}"
        )


def _refuse_limits(options: SourceOptions) -> None:
    """Raises ConfigurationError for a limit that this version of PySpark has no way to keep."""
    limits = {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
    }
    for name, limit in limits.items():
        if limit is not None:
            raise ConfigurationError(
                f"option {name} needs PySpark 4.2 or later, and this is {pyspark.__version__}: "
                "before that a data source is not told where a micro-batch begins"
            )
