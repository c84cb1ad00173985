"""Records the archives of classes from which brokers and Spark's drivers start (see ``class_archive``).

Only those of which the tests start many: the recording costs as much CPU time as three starts save.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tests.servers.class_archive import archive_path, recording_option, spark_archive
from tests.servers.kafka import NEWEST, KraftCluster
from tests.servers.maven import FetchError, kafka_libs, locked
from tests.servers.programs import program
from tests.servers.reaper import Reaper
from tests.servers.spark_home import spark_home

__all__ = ["record_kafka", "record_spark"]

_TIMEOUT = 300
_ROOT = Path(__file__).parents[2]


def record_kafka() -> Path:
    """Return the archive for brokers of the newest Kafka. Record it first if need be (ten seconds).

    Raises FetchError if the broker writes none.
    """
    archive = archive_path(kafka_libs(NEWEST).parent, program("java"))
    return _recorded(archive, f"Kafka {NEWEST}", _run_broker)


def record_spark() -> Path:
    """Return the archive for drivers of the installed PySpark. Record it first if need be (20 seconds).

    Raises FetchError if the session fails or its JVM writes none.
    """
    return _recorded(spark_archive(version("pyspark")), "PySpark", _run_session)


def _recorded(archive: Path, name: str, run: Callable[[Path], None]) -> Path:
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with locked(archive.parent / "classes.lock"):
        if not archive.exists():
            unfinished = archive.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            run(unfinished)
            if not unfinished.exists():
                raise FetchError(f"the JVM of {name} has not written the archive of its classes")
            unfinished.replace(archive)
    return archive


def _run_broker(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pyklient-classes-") as directory:
        reaper = Reaper()
        try:
            cluster = KraftCluster(Path(directory), reaper)
            broker = cluster.processes[1]
            broker.command.insert(1, recording_option(archive))
            cluster.start()
            broker.stop()
        finally:
            reaper.close()


def _run_session(archive: Path) -> None:
    command = [sys.executable, "-m", "tests.servers.spark_classes", recording_option(archive)]
    variables = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    # This returns when the JVM, which has the same standard error, has ended too.
    ran = subprocess.run(
        command, cwd=_ROOT, env=variables, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    if ran.returncode != 0:
        raise FetchError(f"the Spark session whose classes are recorded failed:\n{ran.stderr[-2000:]}")
