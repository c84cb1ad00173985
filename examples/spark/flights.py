"""Send a year of flights to Kafka, aggregate them in a Spark stream, load and draw the results.

Run: make demo-spark                         on a broker in this process
     make demo-spark BOOTSTRAP=host:port     on your cluster
"""

import argparse
import contextlib
import os
import shutil
import sys
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from rich.console import Console
from rich.table import Table

from pyklient import Admin, Producer
from pyklient.broker import Broker
from pyklient.cli.demo.flights import Flights
from pyklient.spark import LoadProgress, load

PARTITIONS = 8
FLIGHTS_PER_BATCH = 60_000
FLIGHT = "time_hour timestamp, origin string, dep_delay int"
DAY = "day date, origin string, flights long, cancelled long, minutes long"
AFTER_THE_LAST = b'{"origin":"none","time_hour":"2014-02-01T00:00:00Z"}'

console = Console()


@dataclass
class Day:
    """The flights of one airport on one day of UTC, which begins at 19 or 20 o'clock in New York."""

    flights: int = 0
    cancelled: int = 0
    minutes: int = 0
    """The sum of the departure delays."""


Days = dict[tuple[str, str], Day]


def main() -> None:
    """Run the pipeline, and fail if a figure differs from the CSV file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "bootstrap", nargs="?", help="host:port of a cluster (default: a broker in this process)"
    )
    parser.add_argument("--flights", type=int, help="send only this many flights")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("demo-spark"),
        help="directory for the Parquet files and the chart",
    )
    arguments = parser.parse_args()
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        sys.exit("Spark needs Java 17 or later: install it, or set JAVA_HOME")
    flights = Flights(arguments.flights)
    with cluster(arguments.bootstrap) as servers, session() as spark:
        found = run(spark, servers, flights, arguments.directory)
    expected = from_csv(flights)
    if found != expected:
        wrong = sorted(
            each for each in found.keys() | expected.keys() if found.get(each) != expected.get(each)
        )
        sys.exit(f"{len(wrong)} days differ from the CSV, the first is {wrong[0]}")
    show_months(found)
    chart = arguments.directory / "delays.png"
    draw(found, chart)
    print(f"ok: {len(found):,} days (of UTC) as in the CSV, {chart}")


def run(spark: SparkSession, servers: str, flights: Flights, directory: Path) -> Days:
    """Produce, aggregate and load the flights, and return the days from the data set."""
    with topics(servers) as (flown, daily):
        console.print(f"{flights.count:,} flights to {flown} on {servers}", highlight=False)
        produce(servers, flown, flights)
        aggregate(spark, servers, flown, daily, directory / daily)
        path = directory / f"{daily}.parquet"
        done = load(spark, servers, daily, path, transform=parsed, partition_by=["origin"], watch=show)
    console.print(f"{done.rows:,} rows in {done.path}", highlight=False, soft_wrap=True)
    return collected(spark, path)


@contextlib.contextmanager
def cluster(bootstrap: str | None) -> Iterator[str]:
    """Yield the bootstrap servers of the cluster to run on."""
    if bootstrap is not None:
        yield bootstrap
        return
    with Broker() as broker:
        yield broker.bootstrap_servers


@contextlib.contextmanager
def topics(servers: str) -> Iterator[tuple[str, str]]:
    """Create a topic for flights and one for days, and delete them at the end."""
    mark = uuid.uuid4().hex[:8]
    names = f"flights-{mark}", f"daily-delays-{mark}"
    with Admin(servers) as admin:
        for name in names:
            admin.create_topic(name, partitions=PARTITIONS, replication_factor=-1)
        try:
            yield names
        finally:
            for name in names:
                admin.delete_topic(name)


@contextlib.contextmanager
def session() -> Iterator[SparkSession]:
    """Run Spark on this machine."""
    # Without this, Spark's workers run the python3 of the PATH, which may not have pyklient.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
    }
    spark = SparkSession.builder.master("local[2]").appName("flights").config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def produce(servers: str, topic: str, flights: Flights) -> None:
    """Send the flights to all partitions in the order of their departure, then a record that is later
    than all of them, because a window closes only when a later record arrives."""
    ordered = sorted(flights, key=lambda flight: flight[1].rpartition(b'"time_hour":"')[2])
    with Producer(servers, compression_type="zstd") as producer:
        for number, (carrier, value) in enumerate(ordered):
            producer.send(topic, value, key=carrier, partition=number % PARTITIONS)
        producer.flush()
        producer.send(topic, AFTER_THE_LAST, partition=0)


def aggregate(spark: SparkSession, servers: str, flown: str, daily: str, checkpoint: Path) -> None:
    """Read the flights as a stream, and write the sums of each day to topic *daily* when the day is over."""
    flights = (
        spark.readStream.format("pyklient")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", flown)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", FLIGHTS_PER_BATCH)
        .load()
        .select(f.from_json(f.col("value").cast("string"), FLIGHT).alias("flight"))
        .select("flight.*")
    )
    days = (
        flights.withWatermark("time_hour", "2 days")
        .groupBy(f.window("time_hour", "1 day"), "origin")
        .agg(
            f.count("*").alias("flights"),
            f.count_if(f.col("dep_delay").isNull()).alias("cancelled"),
            f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("minutes"),
        )
        .select(
            f.col("origin").alias("key"),
            f.to_json(
                f.struct(f.to_date("window.start").alias("day"), "origin", "flights", "cancelled", "minutes")
            ).alias("value"),
        )
    )
    writing = (
        days.writeStream.queryName(daily)
        .format("pyklient")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", daily)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
    )
    listener = MicroBatches(daily)
    spark.streams.addListener(listener)
    try:
        writing.start().awaitTermination()
        listener.ended.wait(60)
    finally:
        spark.streams.removeListener(listener)


class MicroBatches(StreamingQueryListener):
    """A listener that prints what each micro-batch of the query *name* has read. Spark reports every
    micro-batch to a listener, while ``lastProgress`` shows only the last one."""

    def __init__(self, name: str) -> None:
        self.ended = threading.Event()
        """Set when the query has ended and all its micro-batches have been printed."""
        self._name = name
        self._run: object = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Remember the run of the query."""
        if event.name == self._name:
            self._run = event.runId

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Print a line for the micro-batch."""
        progress = event.progress
        if progress.name == self._name:
            console.print(
                f"micro-batch {progress.batchId}: {progress.numInputRows:,} flights", highlight=False
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: the query has read nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Set ``ended`` at the end of the query."""
        if event.runId == self._run:
            self.ended.set()


def parsed(rows: DataFrame) -> DataFrame:
    """Return the columns of the records' JSON values."""
    return rows.select(f.from_json(f.col("value").cast("string"), DAY).alias("day")).select("day.*")


def show(progress: LoadProgress) -> None:
    """Print the progress of the load."""
    if console.is_terminal:
        console.print(f"loading: {progress.done} of {progress.tasks} tasks", end="\r", highlight=False)


def collected(spark: SparkSession, path: Path) -> Days:
    """Return the days in the data set, without the copies that the sink writes if a task fails."""
    rows = spark.read.parquet(str(path)).dropDuplicates(["day", "origin"]).collect()
    return {(row.day.isoformat(), row.origin): Day(row.flights, row.cancelled, row.minutes) for row in rows}


def from_csv(flights: Flights) -> Days:
    """Compute the same days without Kafka and Spark."""
    days: Days = defaultdict(Day)
    for row in flights.rows():
        day = days[row["time_hour"][:10], row["origin"]]
        day.flights += 1
        if row["dep_delay"] == "NA":
            day.cancelled += 1
        else:
            day.minutes += int(row["dep_delay"])
    return dict(days)


def show_months(days: Days) -> None:
    """Print the mean delay of each month and airport as bars."""
    months: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for (day, origin), each in days.items():
        months[day[:7], origin][0] += each.minutes
        months[day[:7], origin][1] += each.flights - each.cancelled
    airports = sorted({origin for _, origin in days})
    table = Table(
        "month",
        *airports,
        title="Mean departure delay, minutes (months of UTC)",
        box=None,
        title_justify="left",
    )
    for month in sorted({month for month, _ in months}):
        means = [minutes / flown if flown else 0.0 for minutes, flown in (months[month, a] for a in airports)]
        table.add_row(month, *(f"{'█' * max(0, round(mean / 2))} {mean:.1f}" for mean in means))
    console.print(table)


def draw(days: Days, path: Path) -> None:
    """Draw the mean delay of each day, one chart for each airport."""
    airports = sorted({origin for _, origin in days})
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(len(airports), 1, sharex=True, sharey=True, squeeze=False)
    for axis, airport in zip(axes[:, 0], airports, strict=True):
        chosen = sorted((day, each) for (day, origin), each in days.items() if origin == airport)
        means = [each.minutes / max(1, each.flights - each.cancelled) for _, each in chosen]
        axis.bar([date.fromisoformat(day) for day, _ in chosen], means, width=1.0, color="#3b6ea5")
        axis.axhline(0, color="#444444", linewidth=0.6)
        axis.set_title(airport, loc="left", fontweight="bold")
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Flights from New York City: mean departure delay of each day (UTC), in minutes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
