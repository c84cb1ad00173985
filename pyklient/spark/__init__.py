"""Kafka in PySpark: ``spark.read.format("pyklient")``, batch and streaming; ``PartitionSender`` for
``foreachPartition`` and its like; ``load`` for topics in Parquet. Needs the extra ``spark``."""

from pyklient.extras import without_pyspark

try:
    import pyspark.sql.datasource  # noqa: F401  - 4.0 is the first with it
except ImportError as error:
    raise without_pyspark() from error

from pyklient.spark.data_source import PyklientDataSource
from pyklient.spark.load import LoadResult, load
from pyklient.spark.load_progress import LoadProgress
from pyklient.spark.rows import Record
from pyklient.spark.sender import PartitionSender

__all__ = ["LoadProgress", "LoadResult", "PartitionSender", "PyklientDataSource", "Record", "load"]
