"""Kafka in PySpark: ``spark.read.format("pyklient")``, batch and streaming; ``PartitionSender`` for
``foreachPartition`` and its like; ``load`` for topics in Parquet. Needs the extra ``spark``."""

from typing import TYPE_CHECKING, Final

from pyklient.lazy_imports import on_first_use
from pyklient.missing_packages import without_pyspark

try:
    import pyspark.sql.datasource  # noqa: F401  - 4.0 is the first with it
except ImportError as error:
    raise without_pyspark() from error

if TYPE_CHECKING:
    from pyklient.spark.data_source import PyklientDataSource
    from pyklient.spark.loading.load import LoadResult, load
    from pyklient.spark.loading.load_progress import LoadProgress
    from pyklient.spark.sink.partition_sender import PartitionSender
    from pyklient.spark.sink.rows import Record

__all__ = ["LoadProgress", "LoadResult", "PartitionSender", "PyklientDataSource", "Record", "load"]

# As in ``pyklient`` itself: Spark starts processes that need one of them, and are gone in a moment.
_HOME_OF: Final = {
    "LoadProgress": "pyklient.spark.loading.load_progress",
    "LoadResult": "pyklient.spark.loading.load",
    "PartitionSender": "pyklient.spark.sink.partition_sender",
    "PyklientDataSource": "pyklient.spark.data_source",
    "Record": "pyklient.spark.sink.rows",
    "load": "pyklient.spark.loading.load",
}

if not TYPE_CHECKING:
    __getattr__ = on_first_use(globals(), _HOME_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
