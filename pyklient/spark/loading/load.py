"""Incremental loads of topics into a Parquet data set, each committed with its offsets in one step."""

import inspect
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

from pyklient import argument_checks
from pyklient.config.dotted_names import unknown_properties
from pyklient.config.keyword_types import ReadOptions
from pyklient.config.unknown_options import did_you_mean
from pyklient.errors import ConfigurationError
from pyklient.spark.loading.changes import Change, Changes
from pyklient.spark.loading.data_set import DataSet, Manifest, offsets_json
from pyklient.spark.loading.file_systems import open_files
from pyklient.spark.loading.load_plan import plan_load
from pyklient.spark.loading.load_progress import LoadProgress, watched
from pyklient.spark.option_names import OF_LOAD, called
from pyklient.spark.option_values import EARLIEST
from pyklient.spark.source.offset_lookup import Brokers
from pyklient.spark.source.offset_ranges import OffsetRange
from pyklient.spark.source.source_options import SourceOptions
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LoadResult", "load"]

_LOAD_COLUMN: Final = "load"
_BY_DEFAULT: Final = ("topic", "partition")
_COMMITTER: Final = {
    # Files of a task appear together, once it is known to have ended well.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_GLOB: Final = re.compile(r"[\\*?{}\[\]]")
"""What stands for other characters in a path that Spark reads, and for itself in one that it writes."""
_FLAGS: Final = {re.ASCII: "a", re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}

Topics: TypeAlias = str | Sequence[str] | re.Pattern[str]
Start: TypeAlias = datetime | Mapping[TopicPartition, int] | None


@dataclass(frozen=True)
class LoadResult:
    """What a load has done. Where there was nothing new, ``path`` and ``number`` are None."""

    rows: int
    """Rows stored: records, unless the transformation makes more or fewer of them."""
    offsets: Mapping[TopicPartition, OffsetRange]
    """What was read."""
    path: str | None
    """The load's directory, with its file system, as Spark takes it: nothing in it is percent-encoded."""
    number: int | None
    """Its number, which is column ``load`` of its rows."""


def load(
    spark: "SparkSession",
    bootstrap_servers: str | Sequence[str],
    topics: Topics,
    path: str | os.PathLike[str],
    *,
    transform: "Callable[[DataFrame], DataFrame] | None" = None,
    partition_by: Sequence[str] | None = None,
    start: Start = None,
    max_records: int | None = None,
    include_headers: bool = False,
    fail_on_data_loss: bool = True,
    min_partitions: int | None = None,
    allow: Collection[Change] = (),
    watch: Callable[[LoadProgress], None] | None = None,
    **options: Unpack[ReadOptions],
) -> LoadResult:
    """Store what is new in *topics* (names, or a pattern for whole names) in the Parquet data set at *path*.

    ::

        load(spark, "localhost:9092", "clicks", "/data/clicks")     # everything, the first time
        load(spark, "localhost:9092", "clicks", "/data/clicks")     # what is new since
        spark.read.parquet("/data/clicks")

    Each record is stored exactly once, however often this is run, and whatever it is interrupted by: rows and
    offsets are published together, in one step. Of loads that run at the same time one is published, and the
    others raise LoadConflictError. Where nothing is new, nothing is published.

    The rows are those of ``format("pyklient")``, or what *transform* makes of them; column ``load`` is added,
    the number of the load. Directories are made by the columns of *partition_by*, if left out by topic and
    partition, as far as the rows have these. *start* is where topics begin that have not been loaded yet: a
    time (with a time zone), or an offset for each partition; else the earliest record. At most about
    *max_records* are read, shared out by what waits in each partition, at least one of each.
    *include_headers*, *fail_on_data_loss* and *min_partitions* are options of the source, *options* those of
    ``pyklient.read``. A directory keeps to its cluster and its columns, and to its topics: at least one of
    *topics* was loaded before, and others may be added beside it. *allow* names what may be different in this
    load, of "cluster", "columns" and "topics". *watch* is called a few times a second, from another thread. A
    relative *path* begins at the working directory of Spark's JVM, whatever that of Python is by now.

    Raises LoadConflictError; DataLossError where records are gone before they were loaded, unless
    *fail_on_data_loss* is off; ConfigurationError for wrong options, for a path that holds other things, or
    loads of other topics, or is on a file system without an exclusive rename, for Spark Connect; KafkaError
    for what the brokers answer; and what Spark raises, in which case nothing is published.
    """
    if max_records is not None and max_records < 1:
        raise ConfigurationError(
            f"max_records={max_records}: it takes a number above 0, or None for no bound"
        )
    reading = _reading(bootstrap_servers, options) | {
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        "includeHeaders": str(include_headers).lower(),
        **({} if min_partitions is None else {"minPartitions": str(min_partitions)}),
    }
    with called(OF_LOAD):
        source = SourceOptions.parse(reading | _subscribed(topics) | _beginning(start))
    data = DataSet(open_files(spark, path))
    before = data.newest()
    changes = Changes(data.uri, before, allow)
    data.sweep(None if before is None else before.load)
    with called(OF_LOAD), Brokers(source.config) as brokers:
        partitions = brokers.partitions(source.subscription)
        cluster_id = brokers.cluster_id
        continued = changes.continued(cluster_id, {each.topic for each in partitions})
        plan = plan_load(brokers, source, partitions, continued, max_records)
    if not plan.ranges:
        return LoadResult(0, {}, None, None)
    rows = spark.read.format("pyklient").options(**reading, **_exactly(plan.ranges)).load()
    rows = rows if transform is None else transform(rows)
    by = _partition_columns(rows, partition_by, before)
    columns = {each.name: each.dataType.simpleString() for each in rows.schema.fields}
    changes.check_columns(columns)
    staging = data.stage(0 if before is None else before.load + 1)
    try:
        with watched(spark, f"load {staging.token}", plan.ranges, watch):
            count = _write(spark, rows, by, data.uri_of(staging))
        data.publish(
            staging,
            Manifest(
                load=staging.number,
                token=staging.token,
                rows=count,
                partition_by=by,
                topic_ids=dict(plan.topic_ids),
                start=offsets_json({each: wanted.start for each, wanted in plan.ranges.items()}),
                end=offsets_json(plan.end),
                cluster_id=cluster_id,
                columns=columns,
            ),
        )
    except BaseException as error:
        data.discard(staging)
        if isinstance(error, Exception):
            data.raise_conflict(staging, error)
        raise
    data.sweep(staging.number)
    return LoadResult(count, plan.ranges, data.uri_of(staging.number), staging.number)


def _reading(bootstrap_servers: str | Sequence[str], options: Mapping[str, Any]) -> dict[str, str]:
    """The options of the source that say how it talks to the brokers."""
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    found = {"kafka.bootstrap.servers": servers}
    for name, value in options.items():
        if not isinstance(value, str | int | float | None):
            raise ConfigurationError(f"{name} is of no use to load(): it cannot be sent to Spark's workers")
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found[f"kafka.{name.replace('_', '.')}"] = text
    for name in options:
        if unknown_properties([name.replace("_", ".")]):
            own = {*inspect.signature(load).parameters, *ReadOptions.__annotations__} - {"options"}
            raise ConfigurationError(f"unknown option {name!r} of load(){did_you_mean(name, own)}")
    return found


def _subscribed(topics: Topics) -> dict[str, str]:
    if isinstance(topics, re.Pattern):
        return {"subscribePattern": _pattern_text(topics)}
    names = argument_checks.names(topics, "topics")
    if not names:
        raise ConfigurationError("name at least one topic to load")
    return {"subscribe": ",".join(names)}


def _pattern_text(pattern: re.Pattern[str]) -> str:
    """*pattern* with its flags in the text, which is all that an option can hold."""
    if not isinstance(pattern.pattern, str):
        raise TypeError(f"topics takes a pattern of text, not {pattern!r}")
    flags = "".join(letter for flag, letter in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


def _beginning(start: Start) -> dict[str, str]:
    if start is None:
        return {"startingOffsets": "earliest"}
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ConfigurationError(
                f"start={start!r} has no time zone: datetime(…, tzinfo=UTC), for example"
            )
        milliseconds = str(max(0, round(start.timestamp() * 1000)))
        return {"startingTimestamp": milliseconds, "startingOffsetsByTimestampStrategy": "latest"}
    for each, at in start.items():
        if type(at) is not int or at < EARLIEST:
            raise ConfigurationError(
                f"start: {at!r} for {each} is not an offset; -2 is the earliest, -1 the latest"
            )
    return {"startingOffsets": json.dumps(offsets_json(start))}


def _exactly(ranges: Mapping[TopicPartition, OffsetRange]) -> dict[str, str]:
    """The options of a query that reads *ranges* and nothing else."""
    partitions: dict[str, list[int]] = {}
    for topic, partition in sorted(ranges):
        partitions.setdefault(topic, []).append(partition)
    bounds = {
        "startingOffsets": {each: wanted.start for each, wanted in ranges.items()},
        "endingOffsets": {each: wanted.end for each, wanted in ranges.items()},
    }
    return {
        "assign": json.dumps(partitions),
        **{name: json.dumps(offsets_json(offsets)) for name, offsets in bounds.items()},
    }


def _partition_columns(rows: "DataFrame", wanted: Sequence[str] | None, before: Manifest | None) -> list[str]:
    """The columns that directories are made by. Raises ConfigurationError where *before* has used others."""
    if not hasattr(rows, "columns"):
        raise TypeError(f"transform returns the DataFrame to store, not {rows!r}")
    columns = {name.lower() for name in rows.columns}
    if _LOAD_COLUMN in columns:
        raise ConfigurationError(
            "a column is called 'load', as the number of the load will be: have the transformation rename it"
        )
    if isinstance(wanted, str):
        raise TypeError(f"partition_by takes a list of columns: [{wanted!r}]")
    by = list(wanted) if wanted is not None else [str(each) for each in _BY_DEFAULT if each in columns]
    if missing := [each for each in by if each.lower() not in columns]:
        raise ConfigurationError(
            f"partition_by names {missing[0]!r}; the rows have {', '.join(rows.columns)} alone"
        )
    if before is not None and before.partition_by != by:
        used = ", ".join(before.partition_by) or "no column"
        raise ConfigurationError(
            f"the loads before have made directories by {used}, this one by {', '.join(by) or 'no column'}: "
            "readers take either, but not both. Set partition_by as it was, or load into another directory"
        )
    return by


def _write(spark: "SparkSession", rows: "DataFrame", by: Sequence[str], uri: str) -> int:
    """Store *rows* at *uri*; how many there are, as counted in the files."""
    # Here, for Spark's workers import this package too.
    from pyspark.sql import Observation, functions

    written = Observation()
    counted = rows.observe(written, functions.count(functions.lit(1)).alias("rows"))
    counted.write.mode("append").options(**_COMMITTER).partitionBy(*by).parquet(uri)
    stored = spark.read.schema(rows.schema).parquet(_GLOB.sub(r"\\\g<0>", uri)).count()
    if stored != written.get["rows"]:
        # An executor's own disk is not the driver's, and its files would never be seen.
        raise ConfigurationError(
            f"{written.get['rows']} rows were written and {stored} of them are in {uri}: every executor and "
            "the driver must see the same files, so use a disk that all have mounted, or HDFS"
        )
    return stored
