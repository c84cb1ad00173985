"""``pyklient load``: what is new in topics goes into a Parquet data set, as a Spark job."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pyklient.cli.cluster_options import Settings, connection_options
from pyklient.cli.parameter_checks import checked, text, topic_name
from pyklient.cli.tables import print_json, print_table
from pyklient.config import NOT_READ, ConsumerConfig
from pyklient.missing_packages import without_pyspark

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
}
"""What errors of ``pyklient.spark.load`` say → what the command has for it."""


def _setting(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{given!r} is no NAME=VALUE")
    return name.strip(), value


def _time(given: str) -> datetime:
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise ValueError(f"{given!r} is no time such as 2025-03-01T00:00:00+00:00") from None
    return found.astimezone() if found.tzinfo is None else found


@click.command(
    short_help="Store what is new in topics as Parquet, with Spark.",
    epilog="""\b
Examples:
  pyklient load clicks /data/clicks                 again and again: only what is new
  pyklient load clicks views /data/web --max-records 10000000
  pyklient load clicks /data/clicks --select "cast(value as string) page" --partition-by page
  pyklient load clicks hdfs://namenode/clicks --master yarn --conf spark.executor.instances=8
\b
Under spark-submit, call pyklient.spark.load in a script of yours, with the session that is there.
""",
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", callback=checked(topic_name))
@click.argument("path", callback=checked(text))
@click.option("--start", metavar="TIME", callback=checked(_time), help="Topics not loaded yet begin here.")
@click.option(
    "--max-records", type=click.IntRange(1), help="About so many in this load; the rest in the next."
)
@click.option(
    "--select", "columns", metavar="EXPR", multiple=True, help="A column, in Spark SQL; repeatable."
)
@click.option(
    "--partition-by",
    metavar="COLUMN",
    multiple=True,
    help="Directories by this column; repeatable.  [topic and partition]",
)
@click.option("--headers", is_flag=True, help="A column of the records' headers too.")
@click.option("--go-on", is_flag=True, help="Go on where records were gone before they were loaded.")
@click.option(
    "--allow",
    type=click.Choice(["cluster", "columns", "topics"]),
    multiple=True,
    help="May be other than in the loads before; repeatable.",
)
@click.option("--master", metavar="URL", help="Spark's master.  [spark-defaults.conf; else local[*]]")
@click.option(
    "--conf",
    "conf",
    metavar="NAME=VALUE",
    multiple=True,
    callback=checked(_setting),
    help="A setting of Spark; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")
@connection_options(ConsumerConfig)
def load(
    topics: tuple[str, ...],
    path: str,
    start: datetime | None,
    max_records: int | None,
    columns: tuple[str, ...],
    partition_by: tuple[str, ...],
    headers: bool,
    go_on: bool,
    allow: "tuple[Change, ...]",
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    as_json: bool,
    settings: Settings,
) -> None:
    """Store what is new in each TOPIC as Parquet at PATH, each record exactly once.

    Rows and offsets are published together, in one step: a load that is interrupted leaves nothing that a
    reader sees, and the next one goes on where the last was published. Of two at once, one fails. PATH is on
    a disk that all of Spark's machines see, or on HDFS.
    """
    options = settings.of_a_job().options(ConsumerConfig)
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
                    max_records=max_records,
                    include_headers=headers,
                    fail_on_data_loss=not go_on,
                    allow=allow,
                    watch=watch,
                    **kept,
                )
            except PySparkException as error:
                raise click.ClickException(
                    f"Spark: {_first_lines(str(error))}; nothing was published"
                ) from error
    _show(done, as_json=as_json)


@contextlib.contextmanager
def _session(master: str | None, conf: Mapping[str, str]) -> "Iterator[SparkSession]":
    """Spark, for the time of the block."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession

        import pyklient.spark  # noqa: F401  - only whether Spark is recent enough
    except ImportError:
        raise click.ClickException(str(without_pyspark())) from None
    if master is None or master.startswith("local"):
        # Workers on this machine are to have this Python, and not the first of the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if (console := Console(stderr=True)).is_terminal:
        console.print("Spark starts, which takes some seconds", style="dim")
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.appName("pyklient load").config(map={**quiet, **conf})
    try:
        session = (builder if master is None else builder.master(master)).getOrCreate()
    except PySparkRuntimeError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise click.ClickException(
            "Spark's JVM has not started: it needs Java 17 or later, by JAVA_HOME or on the PATH; if there "
            "is one, what it has said stands above"
        ) from error
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def _progress() -> "Iterator[Callable[[LoadProgress], None] | None]":
    """Bars on a terminal, nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("planning", total=None)

        def watch(state: "LoadProgress") -> None:
            described = f"{state.records:,} records of {state.partitions} partitions: tasks"
            progress.update(task, description=described, total=state.tasks or None, completed=state.done)

        yield watch


def _show(done: "LoadResult", *, as_json: bool) -> None:
    if as_json:
        offsets: dict[str, dict[str, Any]] = {}
        for (topic, partition), each in sorted(done.offsets.items()):
            offsets.setdefault(topic, {})[str(partition)] = {"start": each.start, "end": each.end}
        print_json({"load": done.number, "path": done.path, "rows": done.rows, "offsets": offsets})
        return
    if done.number is None:
        print("nothing new")
        return
    listed = sorted(done.offsets.items())
    print_table(
        ["topic", "partition", "from", "to"], [(*each, where.start, where.end) for each, where in listed]
    )
    print(f"{done.rows:,} rows in {done.path}")


def _first_lines(message: str) -> str:
    """What happened, without the stack traces that Spark adds."""
    cause = re.findall(r"^(?:pyklient\.errors\.)?(\w*(?:Error|Exception)): (.+)$", message, re.MULTILINE)
    return f"{cause[-1][0]}: {cause[-1][1]}" if cause else message.strip().splitlines()[0]
