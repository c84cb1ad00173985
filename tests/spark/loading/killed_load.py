"""A load in a process of its own, which is killed on the way.

``python -m tests.spark.loading.killed_load [ROUNDS]`` kills loads again and again, at named points and at any
time, and counts what is stored after each.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from pyklient import Producer
from pyklient.broker import Broker
from tests.run.seed import VARIABLE, dice, seed
from tests.servers.java import QUICK_JVM

__all__ = ["POINTS", "killed_load"]

ROOT = Path(__file__).parents[3]
POINTS: Final = ("task", "_offsets.json", "published", "after")
"""In a task; before the offsets are written; before the load is published; after that."""

_TIMEOUT = 300
_JOB = """
import os, signal, sys
from pyspark.sql import SparkSession
from pyklient.spark import load

bootstrap, topic, path, point = sys.argv[1:5]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def killed_in_a_task(rows):
    driver = os.getpid()

    def passing_on(batches):
        yield from batches
        os.kill(driver, signal.SIGKILL)

    return rows.mapInArrow(passing_on, rows.schema)

def watch_files(event, arguments):
    place = str(arguments[0]) if event == "open" else ""
    renamed = str(arguments[1]) if event == "os.rename" else ""
    if point == "_offsets.json" and "_loading" in place and place.endswith(point):
        die()
    if point == "published" and "load=" in renamed:
        die()

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = session.config("spark.driver.extraJavaOptions", sys.argv[5]).getOrCreate()
session.sparkContext.setLogLevel("OFF")
sys.addaudithook(watch_files)
load(session, bootstrap, topic, path, transform=killed_in_a_task if point == "task" else None)
if point == "after":
    die()
"""


def killed_load(bootstrap: str, topic: str, path: Path, point: str, seconds: float = _TIMEOUT) -> None:
    """Run ``load``, which is killed at *point* (one of POINTS), or after so many *seconds*."""
    command = [sys.executable, "-c", _JOB, bootstrap, topic, str(path), point, " ".join(QUICK_JVM)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        assert process.wait() in (0, -signal.SIGKILL), process.communicate()[1]
        assert process.returncode or seconds < _TIMEOUT, f"nobody was killed at {point}"


def _rounds(count: int) -> None:
    """Kill *count* loads, and load what is left after each."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from pyklient.spark import load

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    chance = dice("killed loads")
    print(f"{VARIABLE}={seed()}")
    with Broker() as broker, tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "clicks"
        sent = 0
        for number in range(count):
            with Producer(broker.bootstrap_servers) as producer:
                producer.send_many("clicks", [b"%d" % each for each in range(sent, sent + 1_000)])
            sent += 1_000
            point = (*POINTS, "any time")[number % (len(POINTS) + 1)]
            began = time.monotonic()
            seconds = chance.uniform(2, 20) if point == "any time" else _TIMEOUT
            killed_load(broker.bootstrap_servers, "clicks", path, point, seconds)
            took = time.monotonic() - began
            load(spark, broker.bootstrap_servers, "clicks", path)
            rows = spark.read.parquet(str(path)).select("value").collect()
            found = Counter(int(row.value) for row in rows)
            assert found == Counter(range(sent)), f"{sent - len(found)} lost, {len(rows) - len(found)} double"
            assert os.listdir(path / "_loading") == []
            print(f"{number + 1}: killed at {point} after {took:.1f} s; {sent:,} rows, each once", flush=True)
    spark.stop()


if __name__ == "__main__":
    _rounds(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
