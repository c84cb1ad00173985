"""``make chaos-load``: kills loads at named points and at any time, and counts the rows after each.

    python -m tools.spark.killed_loads --loads 10 --seed 7

Each killed load is followed by another one. The program fails if a record is lost or stored twice, or if a
staging directory is left behind.
"""

import argparse
import os
import random
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
from tests.servers.java import spark_jvm
from tests.servers.spark_home import spark_home
from tools.repository import ROOT

__all__ = ["POINTS", "killed_load"]

POINTS: Final = ("task", "_offsets.json", "published", "after")
"""In a task; before the manifest is written; before the load is published; after that."""

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
    """Run ``load`` in a process that is killed at *point*, one of POINTS, or after *seconds*."""
    command = [sys.executable, "-c", _JOB, bootstrap, topic, str(path), point, spark_jvm()]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(spark_home()),
    }
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        assert process.wait() in (0, -signal.SIGKILL), process.communicate()[1]
        assert process.returncode or seconds < _TIMEOUT, f"the load was not killed at {point}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.spark.killed_loads", description=__doc__)
    parser.add_argument("--loads", type=int, default=10, help="loads to kill (default 10)")
    parser.add_argument("--seed", type=int, help="of an earlier run, for the same times")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    _kill_loads(options.loads, random.Random(seed))


def _kill_loads(count: int, dice: random.Random) -> None:
    """Kill *count* loads, and run a whole one after each."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from pyklient.spark import load

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with Broker() as broker, tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "clicks"
        sent = 0
        for number in range(count):
            with Producer(broker.bootstrap_servers) as producer:
                producer.send_many("clicks", [b"%d" % each for each in range(sent, sent + 1_000)])
            sent += 1_000
            point = (*POINTS, "any time")[number % (len(POINTS) + 1)]
            began = time.monotonic()
            seconds = dice.uniform(2, 20) if point == "any time" else _TIMEOUT
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
    main()
