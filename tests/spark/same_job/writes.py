"""Writes as users write them, except for the name of the format."""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, functions

from tests.servers.topics import create_topic
from tests.spark.same_job.jobs import Job, Word
from tests.spark.same_job.topics import Topics

__all__ = ["REFUSED", "WRITES"]

_PATIENCE = 120
_ROWS = (
    "key string, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>"
)


def _target(word: Word, name: str, partitions: int = 3) -> str:
    return create_topic(word.bootstrap, f"{word.topics.prefix}-{name}-{word.format}", partitions)


def _write(word: Word, rows: DataFrame, **options: object) -> None:
    writer = rows.coalesce(1).write.format(word.format).mode("append")
    for name, value in {"kafka.bootstrap.servers": word.bootstrap, **options}.items():
        writer = writer.option(name.replace("__", "."), str(value))
    writer.save()


def _read(word: Word, topic: str) -> DataFrame:
    """Return the records in *topic*, whoever has written them, as Spark's own source reads them."""
    reader = word.spark.read.format("kafka").option("kafka.bootstrap.servers", word.bootstrap)
    rows: DataFrame = reader.option("subscribe", topic).option("includeHeaders", "true").load()
    return rows.select("key", "value", "partition", "offset", "headers")


def _some_rows(word: Word, *topics: str) -> DataFrame:
    """Return a row of every kind for each of *topics*, all in one partition."""
    rows: list[tuple[Any, ...]] = []
    for topic in topics:
        rows += [
            ("a", b"1", topic, 1, [("h", b"x"), ("h", None)]),
            (None, b"2", topic, 1, []),
            ("c", None, topic, 1, None),
            ("", b"", topic, 1, [("", b"")]),
        ]
    return word.spark.createDataFrame(rows, _ROWS)


def _by_column(word: Word, topics: Topics) -> DataFrame:
    one, two = _target(word, "one", 2), _target(word, "two", 2)
    _write(word, _some_rows(word, one, two))
    return _read(word, f"{one},{two}")


def _by_option(word: Word, topics: Topics) -> DataFrame:
    target = _target(word, "option")
    _write(word, _some_rows(word, "elsewhere"), topic=target)
    return _read(word, target)


def _by_key(word: Word, topics: Topics) -> DataFrame:
    target = _target(word, "keys", 7)
    _write(word, word.spark.range(200).selectExpr("cast(id as string) key", "'v' value"), topic=target)
    return _read(word, target)


def _nothing_but_values(word: Word, topics: Topics) -> DataFrame:
    target = _target(word, "values", 1)
    _write(word, word.spark.range(100).selectExpr("cast(id as string) value"), topic=target)
    return _read(word, target)


def _no_partition_in_some(word: Word, topics: Topics) -> DataFrame:
    target = _target(word, "nulls", 3)
    rows = word.spark.range(30).selectExpr(
        "cast(id as string) key", "'v' value", "if(id % 2 = 0, 2, null) partition"
    )
    _write(word, rows, topic=target)
    return _read(word, target)


def _tuned(word: Word, topics: Topics) -> DataFrame:
    target = _target(word, "tuned", 1)
    options = {"compression__type": "gzip", "linger__ms": 1, "batch__size": 1000, "acks": "all"}
    rows = word.spark.range(100).selectExpr("cast(id as string) value")
    _write(word, rows, topic=target, **{f"kafka__{name}": value for name, value in options.items()})
    return _read(word, target)


def _no_rows(word: Word, topics: Topics) -> DataFrame:
    target = _target(word, "nothing", 1)
    _write(word, word.spark.range(0).selectExpr("cast(id as string) value"), topic=target)
    return _read(word, target)


def _streamed(word: Word, rows: DataFrame, target: str, mode: str) -> DataFrame:
    with tempfile.TemporaryDirectory() as directory:
        writer = rows.writeStream.format(word.format).outputMode(mode)
        writer = writer.option("checkpointLocation", directory).option("topic", target)
        query = writer.option("kafka.bootstrap.servers", word.bootstrap).trigger(availableNow=True).start()
        assert query.awaitTermination(_PATIENCE)
    return _read(word, target).drop("offset", "partition")


def _all_of_a_stream(word: Word, topics: Topics) -> DataFrame:
    """Write every column that was read. Those that a record does not have are ignored."""
    rows = word.stream(subscribe=topics.clicks, startingOffsets="earliest", includeHeaders="true")
    return _streamed(word, rows, _target(word, "appended"), "append")


def _an_aggregate(word: Word, topics: Topics) -> DataFrame:
    counts = (
        word.stream(subscribe=topics.clicks, startingOffsets="earliest")
        .groupBy("key")
        .agg(functions.count("*").cast("string").alias("value"))
    )
    return _streamed(word, counts, _target(word, "counts"), "complete")


WRITES: dict[str, Job] = {
    "written to the topics of a column": _by_column,
    "written to the topic of the option": _by_option,
    "written by key": _by_key,
    "written without keys": _nothing_but_values,
    "written with a partition here and there": _no_partition_in_some,
    "written with options of the producer": _tuned,
    "no rows written": _no_rows,
    "a stream written as it was read": _all_of_a_stream,
    "a complete aggregate written": _an_aggregate,
}
"""The writes. Each returns the records of the topic afterwards."""


def _refused(columns: Sequence[str], **options: object) -> Job:
    def job(word: Word, topics: Topics) -> DataFrame:
        given = {"topic": topics.empty, **options}
        rows = word.spark.range(1).selectExpr(*columns)
        _write(word, rows, **{name: value for name, value in given.items() if value is not None})
        return rows

    return job


def _overwritten(word: Word, topics: Topics) -> DataFrame:
    rows = word.spark.range(1).selectExpr("'v' value")
    writer = rows.write.format(word.format).mode("overwrite").option("topic", topics.empty)
    writer.option("kafka.bootstrap.servers", word.bootstrap).save()
    return rows


def _stream_refused(columns: Sequence[str], **options: str) -> Job:
    def job(word: Word, topics: Topics) -> DataFrame:
        rows = word.stream(subscribe=topics.clicks, startingOffsets="earliest").selectExpr(*columns)
        with tempfile.TemporaryDirectory() as directory:
            writer = rows.writeStream.format(word.format).option("checkpointLocation", directory)
            writer = writer.option("kafka.bootstrap.servers", word.bootstrap).options(**options)
            assert writer.trigger(availableNow=True).start().awaitTermination(_PATIENCE)
        return word.spark.range(1).toDF()

    return job


_VALUE = "'v' value"
REFUSED: dict[str, tuple[Callable[[Word, Topics], DataFrame], str]] = {
    "no value": (_refused(["'v' page"]), "(?i)value.*(not found|missing|but have)"),
    "a value that is a number": (_refused(["1 value"]), "(?is)value.*int.*(string.*binary|binary.*string)"),
    "a key that is a number": (_refused([_VALUE, "1 key"]), "(?is)key.*int.*(string.*binary|binary.*string)"),
    "a topic that is a number": (
        _refused([_VALUE, "1 topic"], topic=None),
        "(?is)topic.*int.*string",
    ),
    "a partition that is text": (_refused([_VALUE, "'1' partition"]), "(?is)partition.*string.*int"),
    "headers that are text": (_refused([_VALUE, "'h' headers"]), "(?is)headers.*string.*array"),
    "no topic to write to": (_refused([_VALUE], topic=None), "(?i)topic option|option topic"),
    "a topic that is null": (
        _refused([_VALUE, "cast(null as string) topic"], topic=None),
        "(?i)null topic|column `topic` is null",
    ),
    "a partition that is not there": (
        _refused([_VALUE, "7 partition"], kafka__max__block__ms=5_000, kafka__request__timeout__ms=4_000),
        "(?i)partition 7|-7",
    ),
    "a serializer of keys": (_refused([_VALUE], kafka__key__serializer="x.Y"), r"key\.serializer"),
    "a serializer of values": (_refused([_VALUE], kafka__value__serializer="x.Y"), r"value\.serializer"),
    "acks that are none": (_refused([_VALUE], kafka__acks="some"), "(?is)acks"),
    "a codec that is none": (_refused([_VALUE], kafka__compression__type="rar"), "(?i)compression.type"),
    "a topic overwritten": (_overwritten, "(?i)mode overwrite"),
    "a stream without values": (
        _stream_refused(["key"], topic="t"),
        "(?i)value.*(not found|missing|but have)",
    ),
    "a stream without a topic": (_stream_refused(["value"]), "(?i)topic option|option topic"),
}
"""Writes that raise an error with both formats, and a pattern that both errors match."""
