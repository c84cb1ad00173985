"""Loads the new records of topics into a Parquet data set. Rows and offsets are published in one step."""

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
from pyklient.counted import counted
from pyklient.errors import ConfigurationError
from pyklient.spark.loading.allowed_changes import AllowedChanges, Change
from pyklient.spark.loading.data_set import DataSet, Manifest
from pyklient.spark.loading.file_systems import open_file_system
from pyklient.spark.loading.load_plan import LoadPlan, plan_load
from pyklient.spark.loading.load_progress import LoadProgress, reported_jobs
from pyklient.spark.loading.rewind import Rewind, RewindTo, check_rewind, find_rewind
from pyklient.spark.offsets_json import EARLIEST, to_json
from pyklient.spark.option_names import LOAD_NAMES, rename_options
from pyklient.spark.source.offset_lookup import OffsetLookup
from pyklient.spark.source.offset_ranges import OffsetRange
from pyklient.spark.source.source_options import SourceOptions
from pyklient.topic_partition import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LoadResult", "load"]

_LOAD_COLUMN: Final = "load"
_DEFAULT_PARTITION_BY: Final = ("topic", "partition")
_COMMITTER: Final = {
    # The files of a task appear together, after the task has succeeded.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_GLOB: Final = re.compile(r"[\\*?{}\[\]]")
"""Matches the characters that are wildcards in a path that Spark reads. In a path that Spark writes, they
have no special meaning."""
_FLAGS: Final = {re.ASCII: "a", re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}

Topics: TypeAlias = str | Sequence[str] | re.Pattern[str]
Start: TypeAlias = datetime | Mapping[TopicPartition, int] | None
Transform: TypeAlias = "Callable[[DataFrame], DataFrame] | None"


@dataclass(frozen=True)
class LoadResult:
    """The result of a load. ``path`` and ``number`` are None if there were no new records."""

    rows: int
    """The number of stored rows: one for each record, unless the function *transform* has returned more or
    fewer rows."""
    offsets: Mapping[TopicPartition, OffsetRange]
    """The range of offsets that the load has read from each partition."""
    path: str | None
    """The URI of the load's directory, in the form that Spark reads: without percent-encoding."""
    number: int | None
    """The number of the load. The rows of the load have this number in the column ``load``."""
    replaced: tuple[int, ...] = ()
    """The numbers of the loads that this load has replaced, because ``load`` was called with *rewind_to*."""


def load(
    spark: "SparkSession",
    bootstrap_servers: str | Sequence[str],
    topics: Topics,
    path: str | os.PathLike[str],
    *,
    transform: Transform = None,
    partition_by: Sequence[str] | None = None,
    start: Start = None,
    rewind_to: RewindTo | None = None,
    max_records: int | None = None,
    include_headers: bool = False,
    fail_on_data_loss: bool = True,
    min_partitions: int | None = None,
    allow: Collection[Change] = (),
    watch: Callable[[LoadProgress], None] | None = None,
    **options: Unpack[ReadOptions],
) -> LoadResult:
    """Store the new records of *topics* (names, or a pattern of names) in the Parquet data set at *path*.

    ::

        load(spark, "localhost:9092", "clicks", "/data/clicks")  # a second call loads only the new records
        spark.read.parquet("/data/clicks")

    Each record is stored exactly once, even if a load is interrupted, because rows and offsets are published
    in one step. If there are no new records, nothing is published. The rows are those of
    ``format("pyklient")``, or those that *transform* returns, with a column ``load`` that has the number of
    the load. The columns *partition_by* determine the directories; by default these are ``topic`` and
    ``partition`` if the rows have them. A relative *path* begins at the JVM's directory.

    A topic that was not loaded before is read from *start*: a time with a time zone, or an offset for each
    partition. By default, it is read from its first record. *max_records* limits the load to about this
    number of records. *include_headers*, *fail_on_data_loss* and *min_partitions* are options of the source,
    and *options* are those of ``pyklient.read``. The load must have the same cluster and columns as earlier
    loads, and at least one of their topics, unless *allow* has "cluster", "columns" or "topics". Another
    thread calls *watch* with a LoadProgress several times a second.

    *rewind_to* is a point: a time, or offsets of some partitions. In one step, this load replaces the first
    load with a record at or after this point and all later loads. It begins where the replaced loads began.

    Raises LoadConflictError if another load was published first; DataLossError if records were deleted before
    they were loaded, unless *fail_on_data_loss* is false; ConfigurationError for wrong options, for a path
    that cannot be used, and over Spark Connect; KafkaError for errors of the brokers; and Spark's own errors.
    After an error, nothing of this load is visible, and no load is replaced.
    """
    fail_on_data_loss = fail_on_data_loss or rewind_to is not None  # the rows that exist must not be lost
    reading = _source_options(bootstrap_servers, options, include_headers, fail_on_data_loss, min_partitions)
    with rename_options(LOAD_NAMES):
        source = SourceOptions.parse(reading | _topic_options(topics) | _start_options(start))
    data = DataSet(open_file_system(spark, path))
    changes, loads = _earlier_loads(data, allow, rewinds=rewind_to is not None)
    plan, rewind = _plan(source, changes, max_records, loads, rewind_to)
    if not plan.ranges:
        return LoadResult(0, {}, None, None)
    read = spark.read.format("pyklient").options(**reading, **_range_options(plan.ranges)).load()
    rows = read if transform is None else transform(read)
    by = _partition_columns(rows, partition_by, changes.before)
    changes.check_columns(_types(rows))
    return _publish(spark, data, changes.before, plan, rewind, rows, by, watch)


def _earlier_loads(
    data: DataSet, allow: Collection[Change], *, rewinds: bool
) -> tuple[AllowedChanges, list[Manifest]]:
    """Return the changes (of cluster, topics and columns) that a load may make, and the earlier loads that it
    may replace: none unless it *rewinds*. Delete the remains of failed loads."""
    loads = data.loads() if rewinds else []
    if loads:
        data.check_replacing()
    before = loads[-1] if loads else data.newest()
    changes = AllowedChanges(data.uri, before, allow)
    data.remove_failed(None if before is None else before.load)
    return changes, loads


def _plan(
    source: SourceOptions,
    changes: AllowedChanges,
    max_records: int | None,
    loads: Sequence[Manifest],
    rewind_to: RewindTo | None,
) -> tuple[LoadPlan, Rewind | None]:
    """Return the plan of the load: the offsets that it reads. If the load replaces some of *loads*, also
    return a Rewind, which has the numbers of these; otherwise None. Raises ConfigurationError if the cluster
    or the topics have changed and *changes* does not allow that."""
    if max_records is not None and max_records < 1:
        raise ConfigurationError(
            f"max_records must be a number of 1 or more, or None for no limit, not {max_records}"
        )
    rewind_to = None if rewind_to is None else check_rewind(rewind_to, max_records)
    with rename_options(LOAD_NAMES), OffsetLookup(source.config) as lookup:
        partitions = lookup.partitions(source.subscription)
        continued = changes.check_source(lookup.cluster_id, {each.topic for each in partitions})
        rewind = None if not loads or rewind_to is None else find_rewind(lookup, loads, partitions, rewind_to)
        if rewind is not None:
            continued = rewind.before
        return plan_load(lookup, source, partitions, continued, max_records), rewind


def _publish(
    spark: "SparkSession",
    data: DataSet,
    before: Manifest | None,
    plan: LoadPlan,
    rewind: Rewind | None,
    rows: "DataFrame",
    by: list[str],
    watch: Callable[[LoadProgress], None] | None,
) -> LoadResult:
    """Write *rows* to a staging directory, and make this directory visible to readers as the load after
    *before*."""
    staging = data.stage(0 if before is None else before.load + 1)
    try:
        with reported_jobs(spark, f"load {staging.token}", plan.ranges, watch):
            count = _write(spark, rows, by, data.uri_of(staging))
        data.publish(
            staging,
            Manifest(
                load=staging.number,
                token=staging.token,
                rows=count,
                partition_by=by,
                topic_ids=dict(plan.topic_ids),
                start=to_json({each: wanted.start for each, wanted in plan.ranges.items()}),
                end=to_json(plan.end),
                cluster_id=plan.cluster_id,
                columns=_types(rows),
            ),
            () if rewind is None else rewind.replaced,
            () if rewind is None else rewind.present,
        )
    except BaseException as error:
        data.discard(staging)
        if isinstance(error, Exception):
            data.raise_conflict(staging, error)
        raise
    data.remove_failed(staging.number)
    replaced = () if rewind is None else rewind.replaced
    return LoadResult(count, plan.ranges, data.uri_of(staging.number), staging.number, replaced)


def _types(rows: "DataFrame") -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in rows.schema.fields}


def _source_options(
    bootstrap_servers: str | Sequence[str],
    options: Mapping[str, Any],
    include_headers: bool,
    fail_on_data_loss: bool,
    min_partitions: int | None,
) -> dict[str, str]:
    """Return the options of ``format("pyklient")`` for a load, except those for topics and offsets."""
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    found = {"kafka.bootstrap.servers": servers}
    for name, value in options.items():
        if unknown_properties([name.replace("_", ".")]):
            own = {*inspect.signature(load).parameters, *ReadOptions.__annotations__} - {"options"}
            raise ConfigurationError(f"unknown option {name!r} of load(){did_you_mean(name, own)}")
        if not isinstance(value, str | int | float | None):
            raise ConfigurationError(f"load() cannot use {name}: its value cannot be sent to Spark's workers")
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found[f"kafka.{name.replace('_', '.')}"] = text
    if min_partitions is not None:
        found["minPartitions"] = str(min_partitions)
    return found | {
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        "includeHeaders": str(include_headers).lower(),
    }


def _topic_options(topics: Topics) -> dict[str, str]:
    if isinstance(topics, re.Pattern):
        return {"subscribePattern": _pattern_text(topics)}
    names = argument_checks.names(topics, "topics")
    if not names:
        raise ConfigurationError("topics is empty: name at least one topic to load")
    return {"subscribe": ",".join(names)}


def _pattern_text(pattern: re.Pattern[str]) -> str:
    """Return the text of the regular expression *pattern*, including its flags."""
    if not isinstance(pattern.pattern, str):
        raise TypeError(f"the pattern in topics must be of str, not of bytes: {pattern!r}")
    flags = "".join(letter for flag, letter in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


def _start_options(start: Start) -> dict[str, str]:
    if start is None:
        return {"startingOffsets": "earliest"}
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ConfigurationError(
                f"start={start!r} has no time zone: pass datetime(…, tzinfo=UTC), for example"
            )
        milliseconds = str(max(0, round(start.timestamp() * 1000)))
        return {"startingTimestamp": milliseconds, "startingOffsetsByTimestampStrategy": "latest"}
    if not isinstance(start, Mapping):
        raise ConfigurationError(
            f"start={start!r} is not allowed: pass a datetime with a time zone, or an offset for each "
            "partition, such as {TopicPartition('clicks', 0): 17}"
        )
    for each, at in start.items():
        if type(at) is not int or at < EARLIEST:
            raise ConfigurationError(
                f"start has {at!r} for partition {each}: pass an offset, or -2 for earliest, or -1 for latest"
            )
    return {"startingOffsets": json.dumps(to_json(start))}


def _range_options(ranges: Mapping[TopicPartition, OffsetRange]) -> dict[str, str]:
    """Return the options of ``format("pyklient")`` for a query that reads *ranges*."""
    bounds = {
        "startingOffsets": {each: wanted.start for each, wanted in ranges.items()},
        "endingOffsets": {each: wanted.end for each, wanted in ranges.items()},
    }
    return {
        "assign": json.dumps(numbers_by_topic(sorted(ranges))),
        **{name: json.dumps(to_json(offsets)) for name, offsets in bounds.items()},
    }


def _partition_columns(rows: "DataFrame", wanted: Sequence[str] | None, before: Manifest | None) -> list[str]:
    """Return the columns that determine the directories of the load: *wanted*, or the default. Raises
    ConfigurationError if earlier loads used other columns."""
    if not hasattr(rows, "columns"):
        raise TypeError(f"transform must return the DataFrame to store, not {rows!r}")
    columns = {name.lower() for name in rows.columns}
    if _LOAD_COLUMN in columns:
        raise ConfigurationError(
            "a column is called 'load', but load() adds a column of that name: rename it in transform"
        )
    if isinstance(wanted, str):
        raise TypeError(f"partition_by takes a list of columns, such as [{wanted!r}], not a string")
    usual = [str(each) for each in _DEFAULT_PARTITION_BY if each in columns]
    by = usual if wanted is None else list(wanted)
    if missing := [each for each in by if each.lower() not in columns]:
        raise ConfigurationError(
            f"partition_by names {missing[0]!r}, but the rows have only {', '.join(rows.columns)}"
        )
    if before is not None and before.partition_by != by:
        used = ", ".join(before.partition_by) or "no column"
        raise ConfigurationError(
            f"earlier loads are partitioned by {used}, but this load by {', '.join(by) or 'no column'}: "
            "readers cannot read both together. Set partition_by as before, or load into another directory"
        )
    return by


def _write(spark: "SparkSession", rows: "DataFrame", by: Sequence[str], uri: str) -> int:
    """Write *rows* to *uri*, in directories that the columns *by* determine. Return the number of rows in the
    written files."""
    # Imported here, because Spark's workers import this module too.
    from pyspark.sql import Observation, functions

    written = Observation()
    observed = rows.observe(written, functions.count(functions.lit(1)).alias("rows"))
    observed.write.mode("append").options(**_COMMITTER).partitionBy(*by).parquet(uri)
    stored = spark.read.schema(rows.schema).parquet(_GLOB.sub(r"\\\g<0>", uri)).count()
    if stored != written.get["rows"]:
        # Some executors wrote to a disk of their own, where the driver and readers cannot see the files.
        raise ConfigurationError(
            f"{counted(written.get['rows'], 'row was', 'rows were')} written, but "
            f"{counted(stored, 'row is', 'rows are')} in {uri}: the driver and all "
            "executors must see the same files. Use a disk that is mounted on all machines, or HDFS"
        )
    return stored
