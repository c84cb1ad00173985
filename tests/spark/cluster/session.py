"""A session on a cluster whose nodes get pyklient with the job."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tools.spark.session import new_session

__all__ = ["archived_session"]


def archived_session(
    master: str, archive: str, home: Path, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session on *master* whose nodes unpack *archive*; *settings* are additional settings."""
    usual = {
        "spark.archives": f"{archive}#environment",
        "spark.cores.max": "2",
        "spark.driver.memory": "512m",
        # Begins when both nodes are there.
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    return new_session(master, home, usual | dict(settings or {}))
