"""One Spark for all tests of a run: a JVM takes seconds to start."""

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.servers.pool import ServerPool
from tests.servers.programs import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(servers: ServerPool, tmp_path_factory: pytest.TempPathFactory) -> "SparkSession":
    """Spark on two cores of this machine, which tries a task four times, as a cluster does."""
    from tools.spark.session import new_session  # and PySpark, which most runs of tests do without

    program("java")
    # Spark's workers run python3 of the PATH otherwise, which knows nothing of pyklient.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    home = tmp_path_factory.mktemp("spark")

    def start() -> "SparkSession":
        session = new_session("local[2,4]", home)
        session.sparkContext.setLogLevel("ERROR")
        return session

    return servers.lend("spark", start, lambda session: session.stop())
