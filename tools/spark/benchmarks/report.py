"""Writes rows per second and ratios as Markdown, for the terminal and for docs/spark-benchmarks.md."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from tools.spark.benchmarks.scenarios import SCENARIOS, Scenario

__all__ = ["page", "table"]

Seconds = Mapping[str, Sequence[float]]

_HEAD = """\
# Benchmarks on Spark

`make bench-spark` writes this page. It starts a Kafka broker and one Spark session on two cores. It runs each
job several times: with pyklient and with another client in turn, after one run of each that is not measured.
The speed depends on the machine, so compare the two clients by their ratio.

The column "measured" is the ratio of the rows per second: pyklient's divided by the other client's, in two
consecutive runs. 2 means that pyklient was twice as fast. It shows the median of the rounds, followed by the
smallest and the largest ratio in brackets. Every run is checked by the number of rows or by the offsets of
the topic. "Record batches" are Arrow record batches, which Spark's `mapInArrow` passes to a Python function
in place of rows."""

_HOW = """\
## Settings of the jobs and clients

- The jobs of one row show how long a job takes apart from its rows. They have no target: for every Python
  data source, Spark starts one process to inspect it, one to plan the query and one to commit a write.
- All clients have their default options, including Spark's own connector, which runs in the JVM.
  `spark.driver.memory` is 2 GB; there are two cores, and the topics have four partitions.
- A job that reads counts the rows and computes the sum of the values' lengths, the largest offset and the
  largest timestamp.
- A job that writes reads its rows from Parquet files of one column, in two tasks.
- `foreachPartition` and `mapInArrow` with confluent-kafka use one producer for each partition. It is
  idempotent, has batches of 1 MB and a large queue, as librdkafka's introduction recommends, and one callback
  that counts every delivery."""


def table(seconds: Mapping[int, Seconds], scale: float) -> str:
    """Return a Markdown table of the scenarios that were run."""
    heads = "| job | rows | pyklient, rows/s | compared with | its rows/s | target | measured | reached |"
    lines = [heads, "| --- | --: | --: | --- | --: | --: | --: | --: |"]
    lines += [_line(SCENARIOS[number], found, scale) for number, found in seconds.items()]
    return "\n".join(lines)


def page(seconds: Mapping[int, Seconds], facts: Iterable[str]) -> str:
    """Return the whole page."""
    return "\n\n".join([_HEAD, "\n".join(f"- {fact}" for fact in facts), table(seconds, 1.0), _HOW]) + "\n"


def _line(scenario: Scenario, found: Seconds, scale: float) -> str:
    rows = max(1, int(scenario.rows * scale))
    ours, theirs = found[scenario.ours], found[scenario.theirs]
    ratios = sorted(their / our for our, their in zip(ours, theirs, strict=True))
    median = statistics.median(ratios)
    cells = [
        scenario.title,
        f"{rows:,}",
        f"{rows / statistics.median(ours):,.0f}",
        f"`{scenario.theirs}`",
        f"{rows / statistics.median(theirs):,.0f}",
        f"{scenario.target:g} times" if scenario.target else "",
        f"{median:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        ("yes" if median >= scenario.target else "no") if scenario.target else "",
    ]
    return f"| {' | '.join(cells)} |"
