"""A small Spark session for tests and tools, on loopback, with all files in one directory."""

import os
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession

from tests.servers.java import spark_jvm
from tests.servers.spark_home import spark_home

__all__ = ["new_session"]


def new_session(
    master: str,
    home: Path,
    settings: Mapping[str, bool | float | int | str | None] | None = None,
    installation: Path | None = None,
) -> SparkSession:
    """Return a session on *master* with its files in *home*. *settings* override the usual ones.

    *installation* is the SPARK_HOME; None stands for the one that ``spark_home`` returns.
    """
    jvm = spark_jvm()
    usual: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{jvm} -Dderby.system.home={home}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.executor.extraJavaOptions": jvm,
        "spark.executor.memory": "512m",
        "spark.local.dir": str(home / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(master).appName("pyklient tests")
    with patch.dict(os.environ, SPARK_HOME=str(installation or spark_home())):
        return builder.config(map=usual | dict(settings or {})).getOrCreate()
