"""``python -m tools.spark.benchmarks.session ORDER OUTPUT``: runs all scenarios in one Spark session.

ORDER is JSON: bootstrap, jars, rounds, scale, the scenarios' numbers. The durations by scenario and
job are written to OUTPUT, in seconds.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from pyklient import Admin, SimpleConsumer
from tools.spark.benchmarks.jobs import JOBS, Work
from tools.spark.benchmarks.scenarios import SCENARIOS, Scenario, Topic

_PARTITIONS = 4


def main(order: str, output: str) -> None:
    """Run the scenarios, and write how long each took."""
    wanted = json.loads(order)
    with tempfile.TemporaryDirectory() as home:
        bench = _Bench(_session(home, wanted["jars"]), wanted["bootstrap"], wanted["scale"], Path(home))
        seconds = {}
        for number in wanted["scenarios"]:
            scenario = SCENARIOS[number]
            seconds[number] = bench.rounds(scenario, wanted["rounds"])
            print(scenario.title, seconds[number], flush=True)
        bench.close()
    Path(output).write_text(json.dumps({"spark": pyspark.__version__, "seconds": seconds}), encoding="utf-8")


def _session(home: str, jars: str) -> SparkSession:
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": jars,
        "spark.local.dir": home,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{home}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class _Bench:
    """Measures jobs, and checks that each has handled every row."""

    def __init__(self, spark: SparkSession, bootstrap: str, scale: float, home: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._scale = scale
        self._home = home
        self._admin = Admin(bootstrap)
        self._simple = SimpleConsumer(bootstrap)
        self._written = 0
        self._frames: dict[tuple[Topic, int], DataFrame] = {}

    def rounds(self, scenario: Scenario, rounds: int) -> dict[str, list[float]]:
        """Return the seconds of *rounds* runs of both jobs in turn, without the first run of each."""
        found: dict[str, list[float]] = {scenario.ours: [], scenario.theirs: []}
        for number in range(rounds + 1):
            for job in found if number % 2 else reversed(found):
                seconds = self._run(scenario, job)
                if number:
                    found[job].append(seconds)
        return found

    def close(self) -> None:
        self._simple.close()
        self._admin.close()
        self._spark.stop()

    def _run(self, scenario: Scenario, job: str) -> float:
        rows = max(1, int(scenario.rows * self._scale))
        if job.startswith("read"):
            work = Work(self._spark, self._bootstrap, scenario.data.name)
        else:
            self._written += 1
            topic = f"written-{self._written}"
            self._admin.create_topic(topic, partitions=_PARTITIONS)
            work = Work(self._spark, self._bootstrap, topic, self._frame(scenario.data, rows))
        began = time.perf_counter()
        handled = JOBS[job](work)
        seconds = time.perf_counter() - began
        if not job.startswith("read"):
            ends = (self._simple.get_offsets_before(work.topic, each)[0] for each in range(_PARTITIONS))
            stored = sum(ends)
            self._admin.delete_topic(work.topic)
            if stored != rows:
                raise RuntimeError(f"{job}: {stored:,} of {rows:,} rows are stored")
        if handled not in (-1, rows):
            raise RuntimeError(f"{job}: {handled:,} of {rows:,} rows")
        return seconds

    def _frame(self, data: Topic, rows: int) -> Any:
        """Return the values to write, from Parquet files, which Spark reads equally fast for every job."""
        if (data, rows) not in self._frames:
            path = str(self._home / f"{data.name}-{rows}.parquet")
            whole = (
                self._spark.read.format("kafka")
                .option("kafka.bootstrap.servers", self._bootstrap)
                .option("subscribe", data.name)
                .load()
            )
            whole.select("value").limit(rows).repartition(2).write.parquet(path)
            self._frames[data, rows] = self._spark.read.parquet(path)
        return self._frames[data, rows]


if __name__ == "__main__":
    main(*sys.argv[1:])
