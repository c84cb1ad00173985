"""`make bench-spark`: starts real Kafka and Spark, and compares pyklient with another client in every job.

The ratios are written to docs/spark-benchmarks.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from pyklient import Admin, Producer
from pyklient.cli.demo.flights import Flights
from tests.servers.java import SERVER_JVM
from tests.servers.kafka import KraftCluster
from tests.servers.maven import connector_libs
from tests.servers.old_pyspark import environment
from tests.servers.reaper import Reaper
from tools.benchmarks import machine
from tools.benchmarks.work import DISTINCT, Job, values_for
from tools.repository import ROOT
from tools.spark.benchmarks.report import page, table
from tools.spark.benchmarks.scenarios import FLIGHTS, ONE, RANDOM, SCENARIOS, Topic

_PAGE = ROOT / "docs" / "spark-benchmarks.md"
_PARTITIONS = 4
_ROUNDS = 5


def main() -> None:
    options = _parser().parse_args()
    chosen = [
        number
        for number, scenario in enumerate(SCENARIOS)
        if any(text.lower() in scenario.title.lower() for text in options.only or [""])
    ]
    if not chosen:
        raise SystemExit("no such job; there are: " + "; ".join(each.title for each in SCENARIOS))
    console = Console()
    found = _run(chosen, options.rounds, options.scale)
    seconds = {int(number): runs for number, runs in found["seconds"].items()}
    console.print(Markdown(table(seconds, options.scale)))
    is_whole = not options.only and options.scale == 1
    target = options.page or (_PAGE if is_whole else None)
    if target:
        facts = [*machine.facts(), f"PySpark {found['spark']}", f"{options.rounds} counted rounds"]
        target.write_text(page(seconds, facts), encoding="utf-8")
        console.print(f"written: {target}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.spark.benchmarks", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=_ROUNDS, help=f"runs of each that count (default {_ROUNDS})")
    add("--only", action="append", default=[], metavar="TEXT", help="jobs with TEXT in their title")
    add("--scale", type=float, default=1.0, help="times as many rows (0.01: a quick trial)")
    add("--page", type=Path, help="where to write the page (default: docs/, after a whole run only)")
    return parser


def _run(chosen: list[int], rounds: int, scale: float) -> dict[str, Any]:
    """Run the jobs in a Spark session in another process, and return its results."""
    reaper = Reaper()
    with tempfile.TemporaryDirectory(prefix="pyklient-bench-") as directory:
        broker = KraftCluster(
            Path(directory),
            reaper,
            settings={"log.segment.delete.delay.ms": 1_000},
            heap="1g",
            jvm=SERVER_JVM,
        )
        try:
            broker.start()
            for data in {SCENARIOS[number].data for number in chosen}:
                _fill(broker.bootstrap_servers, data, scale)
            order = {
                "bootstrap": broker.bootstrap_servers,
                "jars": ",".join(str(jar) for jar in sorted(connector_libs().glob("*.jar"))),
                "rounds": rounds,
                "scale": scale,
                "scenarios": chosen,
            }
            output = Path(directory) / "results.json"
            command = [sys.executable, "-m", "tools.spark.benchmarks.session", json.dumps(order), str(output)]
            subprocess.run(command, cwd=ROOT, env=environment(), check=True)
            found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        finally:
            broker.stop()
            reaper.close()
    return found


def _fill(bootstrap: str, data: Topic, scale: float) -> None:
    """Create the topic that is read, with all rows of *data*."""
    rows = max(1, int(data.rows * scale))
    with Admin(bootstrap) as admin:
        admin.create_topic(data.name, partitions=_PARTITIONS)
    with Producer(bootstrap) as producer:
        for number in range(_PARTITIONS):
            share = rows // _PARTITIONS + (number < rows % _PARTITIONS)
            producer.send_many(data.name, islice(_values(data), share), partition=number)


def _values(data: Topic) -> Iterator[bytes]:
    if data is FLIGHTS:
        return cycle([value for _, value in Flights(DISTINCT)])
    assert data in (RANDOM, ONE)
    return cycle(values_for(Job("", "", "", "", DISTINCT, 100)))


if __name__ == "__main__":
    main()
