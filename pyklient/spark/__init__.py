"""Kafka in PySpark: a data source, a sender for rows, and loads into Parquet. Needs the extra ``spark``.

``format("pyklient")`` reads and writes topics, in batches and streams. ``PartitionSender`` sends rows in
``foreachPartition``, ``foreachBatch`` and ``mapInArrow``. ``load`` stores topics as Parquet.
"""

from typing import TYPE_CHECKING, Final

from pyklient.lazy_imports import on_first_use
from pyklient.missing_packages import without_pyspark

try:
    import pyspark.sql.datasource  # noqa: F401  - PySpark has it since 4.0
except ImportError as error:
    raise without_pyspark() from error

if TYPE_CHECKING:
    from pyklient.spark.data_source import PyklientDataSource
    from pyklient.spark.loading.load import LoadResult, load
    from pyklient.spark.loading.load_progress import LoadProgress
    from pyklient.spark.sink.partition_sender import PartitionSender
    from pyklient.spark.sink.rows import Record

__all__ = ["LoadProgress", "LoadResult", "PartitionSender", "PyklientDataSource", "Record", "load"]

# Imported on first use, as in ``pyklient`` itself: Spark starts short-lived processes that need one of them.
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
