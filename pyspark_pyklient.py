"""Makes ``format("pyklient")`` known to Spark, which imports every top-level module called ``pyspark_…`` and
registers its ``DefaultSource`` when a data source is first asked for."""

from pyklient.spark import PyklientDataSource as DefaultSource

__all__ = ["DefaultSource"]
