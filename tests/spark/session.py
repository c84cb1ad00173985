"""One Spark for all tests of a run: a JVM takes seconds to start."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.servers.java import QUICK_JVM, program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Spark on two cores of this machine, which tries a task four times as a cluster does."""
    from pyspark.sql import SparkSession  # which most runs of tests do without

    program("java")
    # Spark's workers run python3 of the PATH otherwise, which knows nothing of pyklient.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    home = tmp_path_factory.mktemp("spark")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{' '.join(QUICK_JVM)} -Dderby.system.home={home}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.local.dir": str(home / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
    }
    session = (
        SparkSession.builder.master("local[2,4]").appName("pyklient tests").config(map=settings).getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
