"""Kafka in PySpark: ``spark.read.format("pyklient")``, batch and streaming, and ``PartitionSender`` for
``foreachPartition`` and its like. Needs the extra ``spark``."""

from pyklient.extras import without_pyspark

try:
    import pyspark.sql.datasource  # noqa: F401  - 4.0 is the first with it
except ImportError as error:
    raise without_pyspark() from error

from pyklient.spark.data_source import PyklientDataSource
from pyklient.spark.rows import Record
from pyklient.spark.sender import PartitionSender

__all__ = ["PartitionSender", "PyklientDataSource", "Record"]
