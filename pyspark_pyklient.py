"""Registers ``format("pyklient")`` with Spark.

When a data source is first used, Spark imports every top-level module with a name that begins with
``pyspark_``, and registers its ``DefaultSource``.
"""

from pyklient.spark import PyklientDataSource as DefaultSource

__all__ = ["DefaultSource"]
