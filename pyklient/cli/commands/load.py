"""``pyklient load``: store the new records of topics in a Parquet data set, with Spark."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.parameter_checks import checked, moment, text, topic_name
from pyklient.cli.tables import print_json, print_table
from pyklient.config import NOT_READ, ConsumerConfig
from pyklient.counted import counted
from pyklient.missing_packages import without_pyspark
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyklient.spark import LoadProgress, LoadResult
    from pyklient.spark.loading.allowed_changes import Change

__all__ = ["AS_TYPED", "load"]

AS_TYPED: Final = {
    **{f"pass allow=['{change}']": f"give --allow {change}" for change in ("cluster", "columns", "topics")},
    "Set fail_on_data_loss to false": "Give --go-on",
    "max_records": "--max-records",
    "partition_by": "--partition-by",
    "rewind_to": "--rewind-to",
}
"""Maps phrases in the errors of ``pyklient.spark.load``, such as ``max_records``, to the phrases that the
command shows instead, such as ``--max-records``."""


def _setting(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{given!r} is not NAME=VALUE, such as spark.executor.instances=8")
    return name.strip(), value


def _point(given: str) -> datetime | tuple[TopicPartition, int]:
    with contextlib.suppress(ValueError):
        return moment(given)
    topic, *numbers = given.split(":")
    if len(numbers) == 2 and all(each.isascii() and each.isdigit() and len(each) < 19 for each in numbers):
        return TopicPartition(topic_name(topic), int(numbers[0])), int(numbers[1])
    raise ValueError(
        f"{given!r} is neither a time such as 2025-03-01T00:00:00+00:00 nor TOPIC:PARTITION:OFFSET"
    )


def _rewind(
    points: Sequence[datetime | tuple[TopicPartition, int]],
) -> datetime | dict[TopicPartition, int] | None:
    """Return the point to which the loads are rewound: one time, or the offsets of several partitions. Return
    None if *points* is empty."""
    times = [each for each in points if isinstance(each, datetime)]
    if times and len(points) > 1:
        raise click.UsageError("--rewind-to takes one time, or the offsets of several partitions, not both")
    return times[0] if times else dict(each for each in points if not isinstance(each, datetime)) or None


@click.command(
    short_help="Store new records of topics as Parquet, with Spark.",
    epilog="""\b
Examples:
  pyklient load clicks /data/clicks                 run it again to add the new records
  pyklient load clicks views /data/web --max-records 10000000
  pyklient load clicks /data/clicks --select "cast(value as string) page" --partition-by page
  pyklient load clicks hdfs://namenode/clicks --master yarn --conf spark.executor.instances=8
\b
With spark-submit, call pyklient.spark.load in your own script, with its session.
""",
)
@click.argument("topics", nargs=-1, metavar="TOPIC…", callback=checked(topic_name))
@click.argument("path", callback=checked(text))
@click.option(
    "--start",
    metavar="TIME",
    callback=checked(moment),
    help="Start of topics that have not been loaded yet. Without a zone, TIME is in UTC.",
)
@click.option(
    "--rewind-to",
    "rewind_to",
    metavar="TIME|TOPIC:0:OFFSET",
    multiple=True,
    callback=checked(_point),
    help="Load again what has come since TIME (in UTC without a zone), or from OFFSET on (repeatable), and "
    "replace those loads.",
)
@click.option(
    "--max-records", type=click.IntRange(1), help="Load about this many records; the next load continues."
)
@click.option(
    "--select", "columns", metavar="EXPR", multiple=True, help="A column, in Spark SQL. Repeatable."
)
@click.option(
    "--partition-by",
    metavar="COLUMN",
    multiple=True,
    help="A column to make directories by. Repeatable.  [topic and partition]",
)
@click.option("--headers", is_flag=True, help="Include a column with the headers of the records.")
@click.option("--go-on", is_flag=True, help="Continue if records were deleted before they were loaded.")
@click.option(
    "--allow",
    type=click.Choice(["cluster", "columns", "topics"]),
    multiple=True,
    help="Permit a change since the previous loads. Repeatable.",
)
@click.option("--master", metavar="URL", help="Master of Spark.  [spark-defaults.conf; else local[*]]")
@click.option(
    "--conf",
    "conf",
    metavar="NAME=VALUE",
    multiple=True,
    callback=checked(_setting),
    help="A setting of Spark. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@cluster_options(ConsumerConfig)
def load(
    topics: tuple[str, ...],
    path: str,
    start: datetime | None,
    rewind_to: tuple[datetime | tuple[TopicPartition, int], ...],
    max_records: int | None,
    columns: tuple[str, ...],
    partition_by: tuple[str, ...],
    headers: bool,
    go_on: bool,
    allow: "tuple[Change, ...]",
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    as_json: bool,
    cluster: ClusterOptions,
) -> None:
    """Store the new records of each TOPIC as Parquet at PATH, each record exactly once.

    Rows and offsets are published together, in one step. If a load is interrupted, readers see nothing of it,
    and the next load continues where the last published load ended. If two loads run at the same time, one of
    them fails. PATH must be on a disk that all machines of Spark can access, or on HDFS.
    """
    if not topics:
        raise click.UsageError(
            f"the only argument is {path!r}: pass one or more topics, and then PATH as the last argument"
        )
    rewind = _rewind(rewind_to)
    options = cluster.of_a_job().options(ConsumerConfig)
    kept = {name: value for name, value in options.items() if name not in NOT_READ}
    with _session(master, dict(conf)) as spark:
        from pyspark.errors import PySparkException

        from pyklient.spark import load as run
        from pyklient.spark.option_names import rename_options

        def selected(rows: "DataFrame") -> "DataFrame":
            return rows.selectExpr(*columns)

        with _progress() as watch, rename_options(AS_TYPED):
            try:
                done = run(
                    spark,
                    topics=topics,
                    path=path,
                    transform=selected if columns else None,
                    partition_by=list(partition_by) or None,
                    start=start,
                    rewind_to=rewind,
                    max_records=max_records,
                    include_headers=headers,
                    fail_on_data_loss=not go_on,
                    allow=allow,
                    watch=watch,
                    **kept,
                )
            except PySparkException as error:
                raise click.ClickException(
                    f"the load failed in Spark, and nothing was stored: {_first_lines(str(error))}"
                ) from error
    _show(done, as_json=as_json)


@contextlib.contextmanager
def _session(master: str | None, conf: Mapping[str, str]) -> "Iterator[SparkSession]":
    """Start Spark, yield its session, and stop Spark at the end of the ``with`` block."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession

        import pyklient.spark  # noqa: F401  - fails if Spark is too old
    except ImportError:
        raise click.ClickException(str(without_pyspark())) from None
    if master is None or master.startswith("local"):
        # Workers on this machine use this Python, and not the first one in the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if (console := Console(stderr=True)).is_terminal:
        console.print("Starting Spark takes some seconds", style="dim")
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.appName("pyklient load").config(map={**quiet, **conf})
    try:
        session = (builder if master is None else builder.master(master)).getOrCreate()
    except PySparkRuntimeError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise click.ClickException(
            "the JVM of Spark has not started: set JAVA_HOME or PATH to Java 17 or later; if they are set, "
            "the JVM's own error is above"
        ) from error
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def _progress() -> "Iterator[Callable[[LoadProgress], None] | None]":
    """Yield a function that shows the progress of a load as a bar. Yield None if there is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("planning", total=None)

        def watch(state: "LoadProgress") -> None:
            described = f"records: {state.records:,}; partitions: {state.partitions}; tasks"
            progress.update(task, description=described, total=state.tasks or None, completed=state.done)

        yield watch


def _show(done: "LoadResult", *, as_json: bool) -> None:
    if as_json:
        offsets: dict[str, dict[str, Any]] = {}
        for (topic, partition), each in sorted(done.offsets.items()):
            offsets.setdefault(topic, {})[str(partition)] = {"start": each.start, "end": each.end}
        print_json(
            {
                "load": done.number,
                "path": done.path,
                "rows": done.rows,
                "offsets": offsets,
                "replaced": list(done.replaced),
            }
        )
        return
    if done.number is None:
        print("no new records")
        return
    listed = sorted(done.offsets.items())
    print_table(
        ["topic", "partition", "from", "to"], [(*each, where.start, where.end) for each, where in listed]
    )
    print(f"{counted(done.rows, 'row')} in {done.path}")
    if done.replaced:
        print(f"replaced loads: {', '.join(map(str, done.replaced))}")


def _first_lines(message: str) -> str:
    """Return the last error in Spark's error *message*, without the stack traces."""
    cause = re.findall(r"^(?:pyklient\.errors\.)?(\w*(?:Error|Exception)): (.+)$", message, re.MULTILINE)
    return f"{cause[-1][0]}: {cause[-1][1]}" if cause else message.strip().splitlines()[0]
