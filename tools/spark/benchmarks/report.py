"""Writes rows per second and ratios as Markdown, for the terminal and for docs/spark-benchmarks.md."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from tools.spark.benchmarks.scenarios import SCENARIOS, Scenario

__all__ = ["page", "table"]

Seconds = Mapping[str, Sequence[float]]

_HEAD = """\
# Benchmarks on Spark

This page compares the rows per second of Spark jobs with pyklient and with other clients. `make bench-spark`
measures the figures and writes the page. It starts a Kafka broker and one Spark session on the same machine,
and runs each job in several rounds. A *round* is one run of the job with pyklient and one run with another
client, directly one after the other. One more round runs first, and is not counted. A run that does not
handle all rows ends the benchmark with an error.

The figures on this page come from this machine:"""

_COLUMNS = """\
The speed depends on the machine, so compare the two clients by their ratio.

| column | meaning |
| --- | --- |
| job | The name of the job and the kind of its rows. Both are described below. |
| rows | The number of rows that each run handles. |
| pyklient, rows/s | The rows per second with pyklient, over the time of the whole job: the median of the \
rounds, as a whole number. |
| compared with | The other client, and how the job calls it. |
| its rows/s | The rows per second with the other client, computed in the same way. |
| target | The ratio that pyklient is meant to reach. A job without a target is only measured. |
| measured | The ratio: pyklient's rows per second divided by those of the other client in the same round, \
before rounding. 2 means that pyklient was twice as fast. The cell shows the median of the rounds, and in \
brackets the smallest and the largest ratio. |
| reached | Whether the median of the ratios is at least the target. |"""

_HOW = """\
## The jobs

| job | what it does |
| --- | --- |
| Read and aggregate | Reads a topic with `spark.read.format(…)`. Counts the rows, and computes the sum of \
the values' lengths, the largest offset and the largest timestamp. |
| Write | Reads rows from two Parquet files, and writes them to a topic with `write.format(…)`. |
| foreachPartition | Reads rows from two Parquet files, and passes them as Python objects to a function that \
sends them. With pyklient, the function is a `PartitionSender`. |
| Record batches | Reads rows from two Parquet files, and passes them with `mapInArrow` as Arrow record \
batches to a function that sends them. With pyklient, the function is a `PartitionSender`. |
| Read one row, Write one row | Reads or writes a topic with a single row, to show the fixed cost of a job. \
Writing one row takes longer with pyklient than with `format("kafka")`, because Spark starts three Python \
processes for any data source in Python: one to inspect it, one to plan the write and one to commit it. |

| kind of rows | value of each row |
| --- | --- |
| 100 B | 100 random bytes |
| flights as JSON | a JSON object of about 300 bytes that describes a flight |

A row has no key. The topics have four partitions.

## Settings of the clients

| client | settings |
| --- | --- |
| pyklient | Its default options. |
| `format("kafka")` (Spark's own connector, which runs in the JVM) | Its default options. |
| confluent-kafka | One producer for each partition of the DataFrame, with the settings that librdkafka's \
introduction recommends for throughput: batches of 1 MB and a large queue. The producer is idempotent, as \
pyklient's is. One callback counts all deliveries. |

The Spark session has the master `local[2]` (two tasks at a time, in one process) and 2 GB of
`spark.driver.memory`."""


def table(seconds: Mapping[int, Seconds], scale: float) -> str:
    """Return a Markdown table of the scenarios that were run."""
    heads = "| job | rows | pyklient, rows/s | compared with | its rows/s | target | measured | reached |"
    lines = [heads, "| --- | --: | --: | --- | --: | --: | --: | --: |"]
    lines += [_line(SCENARIOS[number], found, scale) for number, found in seconds.items()]
    return "\n".join(lines)


def page(seconds: Mapping[int, Seconds], facts: Iterable[str]) -> str:
    """Return the whole page."""
    listed = "\n".join(f"- {fact}" for fact in facts)
    return "\n\n".join([_HEAD, listed, _COLUMNS, table(seconds, 1.0), _HOW]) + "\n"


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
