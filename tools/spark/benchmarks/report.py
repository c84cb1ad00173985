"""Rows a second and ratios, on the terminal and as docs/spark-benchmarks.md."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from tools.spark.benchmarks.scenarios import SCENARIOS, Scenario

__all__ = ["page", "table"]

Seconds = Mapping[str, Sequence[float]]

_HEAD = """\
# Benchmarks on Spark

Written by `make bench-spark`, which starts a real broker and one Spark on two cores, and runs each job with
pyklient and with its rival in turn, several times, after a run of each that does not count. Compare ratios,
not figures: a ratio is taken between two runs that followed each other, and shown as the median with the
smallest and the largest in brackets. Every run is checked: by rows counted, or the offsets of the topic."""

_HOW = """\
## How each is set up

- The jobs of one row show what each takes besides its rows, and have no target: with any data source in
  Python, Spark starts a process to look at it, one to plan and one to commit.
- Defaults on both sides, the JVM's connector included; `spark.driver.memory` is 2 GB, two cores, four
  partitions.
- Reading counts the rows and takes the sum of the values' lengths, the largest offset and the largest
  timestamp.
- What is written comes from Parquet files of one column, in two tasks.
- `foreachPartition` and `mapInArrow` with confluent-kafka: a producer for each partition with batches of 1 MB
  and a large queue, as librdkafka's introduction advises, idempotent, one callback that counts every
  delivery."""


def table(seconds: Mapping[int, Seconds], scale: float) -> str:
    """Every scenario that was run, as a Markdown table."""
    heads = "| job | rows | pyklient, rows/s | against | rows/s | target | measured | reached |"
    lines = [heads, "| --- | --: | --: | --- | --: | --: | --: | --: |"]
    lines += [_line(SCENARIOS[number], found, scale) for number, found in seconds.items()]
    return "\n".join(lines)


def page(seconds: Mapping[int, Seconds], facts: Iterable[str]) -> str:
    """The whole page."""
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
