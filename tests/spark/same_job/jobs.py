"""Jobs as users write them, except for the name of the format."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from tests.servers.topics import create_topic
from tests.spark.same_job.topics import Topics
from tests.spark.topics import fill, number_records

__all__ = ["ERRORS", "JOBS", "LIMITED", "QUICK", "Job", "Word"]

_PATIENCE = 120


@dataclass
class Word:
    """The arguments of a job: the session, the topics, and the format. ``other`` is the other format."""

    spark: SparkSession
    bootstrap: str
    topics: Topics
    format: str
    other: str
    made: list[str] = field(default_factory=list)

    def read(self, **options: object) -> DataFrame:
        """Return the rows of a batch query."""
        rows: DataFrame = self._with(self.spark.read.format(self.format), options).load()
        return rows

    def stream(self, word: str = "", **options: object) -> DataFrame:
        """Return the rows of a streaming query."""
        rows: DataFrame = self._with(self.spark.readStream.format(word or self.format), options).load()
        return rows

    def drained(self, rows: DataFrame, checkpoint: str, output: str) -> None:
        """Write all rows of a stream to Parquet files in *output*."""
        writer = rows.writeStream.format("parquet").option("path", output)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(_PATIENCE)

    def collected(self, rows: DataFrame, **options: Any) -> DataFrame:
        """Return all rows of a stream as a batch."""
        name = f"rows_{self.format}_{len(self.made)}"
        self.made.append(name)
        query = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        for option, value in options.items():
            query = getattr(query, option)(value)
        assert query.start().awaitTermination(_PATIENCE)
        return self.spark.table(name)

    def _with(self, reader: Any, options: dict[str, object]) -> Any:
        for name, value in {"kafka.bootstrap.servers": self.bootstrap, **options}.items():
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            reader = reader.option(name.replace("__", "."), text)
        return reader


Job = Callable[[Word, Topics], DataFrame]


def _moved(word: Word, topics: Topics) -> DataFrame:
    """Return the rows of a query that began with the other format, and finds more rows when it continues."""
    topic = create_topic(word.bootstrap, f"{topics.prefix}-moved-{word.format}", 2)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    with tempfile.TemporaryDirectory() as directory:
        for name in (word.other, word.format, word.other):
            fill(word.bootstrap, topic, number_records(range(10), 2))
            word.drained(word.stream(name, **options), f"{directory}/checkpoint", f"{directory}/rows")
        rows = word.spark.read.parquet(f"{directory}/rows").select("key", "value", "partition", "offset")
        return word.spark.createDataFrame(rows.collect(), rows.schema)


def _written(word: Word, topics: Topics) -> DataFrame:
    """Return the rows that a sink has written, as Spark's own connector reads them."""
    target = create_topic(word.bootstrap, f"{topics.prefix}-written-{word.format}", 3)
    source = word.read(subscribe=topics.clicks, includeHeaders="true").select(
        "key", "value", "headers", "partition"
    )
    writer = source.coalesce(1).write.format(word.format).mode("append").option("includeHeaders", "true")
    writer.option("kafka.bootstrap.servers", word.bootstrap).option("topic", target).save()
    return word.read(subscribe=target, includeHeaders="true").select(
        "key", "value", "headers", "partition", "offset"
    )


def _streamed(word: Word, topics: Topics) -> DataFrame:
    target = f"{topics.prefix}-streamed-{word.format}"
    with tempfile.TemporaryDirectory() as directory:
        rows = word.stream(subscribe=topics.clicks, startingOffsets="earliest").select("key", "value")
        writer = rows.writeStream.format(word.format).option("checkpointLocation", directory)
        writer = writer.option("kafka.bootstrap.servers", word.bootstrap).option("topic", target)
        assert writer.trigger(availableNow=True).start().awaitTermination(_PATIENCE)
    return word.read(subscribe=target).groupBy("key", "value").count()


JOBS: dict[str, Job] = {
    "a topic": lambda word, t: word.read(subscribe=t.clicks),
    "a topic with headers": lambda word, t: word.read(subscribe=t.clicks, includeHeaders="true"),
    "several topics": lambda word, t: word.read(subscribe=f"{t.clicks}, {t.views}"),
    "topics by pattern": lambda word, t: word.read(subscribePattern=f"{t.prefix}-(views|old|empty)"),
    "assigned partitions": lambda word, t: word.read(assign={t.clicks: [0, 2], t.views: [0]}),
    "an empty topic": lambda word, t: word.read(subscribe=t.empty),
    "null values": lambda word, t: word.read(subscribe=t.views).where("value IS NULL"),
    "from offsets": lambda word, t: word.read(
        subscribe=t.clicks, startingOffsets={t.clicks: {"0": 5, "1": -2, "2": 20}}
    ),
    "to offsets": lambda word, t: word.read(
        subscribe=t.clicks, endingOffsets={t.clicks: {"0": 5, "1": -1, "2": 0}}
    ),
    "from and to offsets": lambda word, t: word.read(
        subscribe=t.views, startingOffsets={t.views: {"0": 1}}, endingOffsets={t.views: {"0": 3}}
    ),
    "from a time": lambda word, t: word.read(subscribe=t.clicks, startingTimestamp=30_500),
    "to a time": lambda word, t: word.read(subscribe=t.clicks, endingTimestamp=30_500),
    "between times of partitions": lambda word, t: word.read(
        subscribe=t.clicks,
        startingOffsetsByTimestamp={t.clicks: {"0": 1, "1": 20_000, "2": 30_000}},
        endingOffsetsByTimestamp={t.clicks: {"0": 2000, "1": 999_000, "2": 31_000}},
    ),
    "a time that nothing has reached": lambda word, t: word.read(
        subscribe=t.clicks, startingTimestamp=999_000, startingOffsetsByTimestampStrategy="latest"
    ),
    "a time wins over offsets": lambda word, t: word.read(
        subscribe=t.views, startingTimestamp=0, startingOffsets={t.views: {"0": 4}}
    ),
    "more tasks than partitions": lambda word, t: word.read(subscribe=t.clicks, minPartitions=7),
    "small tasks": lambda word, t: word.read(subscribe=t.clicks, maxRecordsPerPartition=9),
    "what was committed": lambda word, t: word.read(
        subscribe=t.paid, kafka__isolation__level="read_committed"
    ).select("value", "offset"),
    "what was not committed too": lambda word, t: word.read(subscribe=t.paid).select("value", "offset"),
    "past deleted records": lambda word, t: word.read(
        subscribe=t.old, startingOffsets={t.old: {"0": 1}}, failOnDataLoss="false"
    ),
    "a group of ones own": lambda word, t: word.read(
        subscribe=t.views, kafka__group__id=f"{t.prefix}-{word.format}", groupIdPrefix="mine"
    ),
    "tuning": lambda word, t: word.read(
        subscribe=t.clicks,
        kafka__max__poll__records=7,
        kafka__fetch__min__bytes=1,
        kafka__client__id="a job",
        kafkaConsumer__pollTimeoutMs=30_000,
        fetchOffset__numRetries=5,
        fetchOffset__retryIntervalMs=50,
        maxOffsetsPerTrigger=3,
    ),
    "an aggregate": lambda word, t: (
        word.read(subscribe=t.clicks)
        .select(
            functions.from_json(functions.col("value").cast("string"), "page int").alias("click"), "timestamp"
        )
        .groupBy("click.page")
        .agg(functions.count("*"), functions.max("timestamp"))
    ),
    "a filter": lambda word, t: word.read(subscribe=t.clicks).where(
        "partition = 1 AND offset >= 10 AND key IS NULL"
    ),
    "a join": lambda word, t: (
        word.read(subscribe=t.clicks)
        .alias("a")
        .join(word.read(subscribe=t.clicks).alias("b"), ["partition", "offset"])
        .select("a.key", "b.value", "offset")
    ),
    "a stream": lambda word, t: word.collected(word.stream(subscribe=t.clicks, startingOffsets="earliest")),
    "a stream by pattern with headers": lambda word, t: word.collected(
        word.stream(
            subscribePattern=f"{t.prefix}-c.*", startingOffsets="earliest", includeHeaders="true"
        ).select("topic", "value", "headers")
    ),
    "a stream from its end": lambda word, t: word.collected(word.stream(subscribe=t.clicks)),
    "a stream in windows": lambda word, t: word.collected(
        word.stream(subscribe=t.clicks, startingOffsets="earliest")
        .groupBy(functions.window("timestamp", "10 seconds"), "key")
        .count(),
        outputMode="complete",
    ),
    "a query that the other source began": _moved,
    "rows written": _written,
    "a stream written": _streamed,
}
"""The jobs. Each returns rows; both formats return the same rows with the same schema."""


QUICK = frozenset(
    (
        *("from and to offsets", "more tasks than partitions", "a stream", "a stream written as it was read"),
        *("deleted records", "a stream with an end", "acks that are none"),
    )
)
"""One job or mistake of each kind, for ``make test``. All others run in ``make test-long``."""


def _ran(job: Job) -> Job:
    return lambda word, topics: word.collected(job(word, topics))


ERRORS: dict[str, tuple[Job, str]] = {
    "no servers": (
        lambda word, t: word.spark.read.format(word.format).option("subscribe", t.clicks).load(),
        r"kafka\.bootstrap\.servers",
    ),
    "nothing to read": (lambda word, t: word.read(), "assign.*subscribe|subscribe.*assign"),
    "two ways to read": (
        lambda word, t: word.read(subscribe=t.clicks, subscribePattern="x.*"),
        "(?i)only one|exactly one",
    ),
    "an empty name": (lambda word, t: word.read(subscribe=" ,"), "subscribe"),
    "partitions that are none": (lambda word, t: word.read(assign="clicks"), "assign"),
    "offsets that are none": (
        lambda word, t: word.read(subscribe=t.clicks, startingOffsets="first"),
        "first|Expected",
    ),
    "a batch from its end": (
        lambda word, t: word.read(subscribe=t.clicks, startingOffsets="latest"),
        "(?i)starting ?offset.*latest",
    ),
    "a batch from the end of a partition": (
        lambda word, t: word.read(subscribe=t.views, startingOffsets={t.views: {"0": -1}}),
        "(?i)starting ?offset.*latest",
    ),
    "a batch to its beginning": (
        lambda word, t: word.read(subscribe=t.clicks, endingOffsets="earliest"),
        "(?i)ending ?offset.*earliest",
    ),
    "an end before the beginning": (
        lambda word, t: word.read(
            subscribe=t.views, startingOffsets={t.views: {"0": 4}}, endingOffsets={t.views: {"0": 2}}
        ),
        "(?s)(?i:offset) 4.*2|is offset 2, which is before offset 4 of startingOffsets",
    ),
    "offsets of some partitions": (
        lambda word, t: word.read(subscribe=t.clicks, startingOffsets={t.clicks: {"0": 4}}),
        "(?s)(?i:start).*clicks-1",
    ),
    "a time that is none": (lambda word, t: word.read(subscribe=t.clicks, startingTimestamp="noon"), "noon"),
    "a time that nothing has reached": (
        lambda word, t: word.read(subscribe=t.views, startingTimestamp=99_999_999_999_999),
        "(?s)views-0.*99999999999999",
    ),
    "a topic that does not exist": (
        lambda word, t: word.read(subscribe=f"{t.prefix}-nowhere"),
        "(?i)unknown.?topic",
    ),
    "times the wrong way round": (
        lambda word, t: word.read(subscribe=t.clicks, startingTimestamp=30_000, endingTimestamp=10_000),
        r"(?i)beginning offset .* is after the ending offset|endingTimestamp of .* which is before offset",
    ),
    "no tasks": (lambda word, t: word.read(subscribe=t.clicks, minPartitions=0), "minPartitions"),
    "deleted records": (
        lambda word, t: word.read(subscribe=t.old, startingOffsets={t.old: {"0": 1}}),
        "(?s)failOnDataLoss",
    ),
    "a reset of offsets": (
        lambda word, t: word.read(subscribe=t.clicks, kafka__auto__offset__reset="earliest"),
        "(?is)auto.offset.reset.*startingoffsets",
    ),
    "commits": (
        lambda word, t: word.read(subscribe=t.clicks, kafka__enable__auto__commit="true"),
        r"enable\.auto\.commit",
    ),
    "interceptors": (
        lambda word, t: word.read(subscribe=t.clicks, kafka__interceptor__classes="x.Y"),
        r"interceptor\.classes",
    ),
    "a deserializer of keys": (
        lambda word, t: word.read(subscribe=t.clicks, kafka__key__deserializer="x.Y"),
        r"key\.deserializer",
    ),
    "a deserializer of values": (
        lambda word, t: word.read(subscribe=t.clicks, kafka__value__deserializer="x.Y"),
        r"value\.deserializer",
    ),
    "a stream with an end": (
        _ran(lambda word, t: word.stream(subscribe=t.clicks, endingOffsets="latest")),
        "(?i)ending ?offset",
    ),
    "a stream with an end in time": (
        _ran(lambda word, t: word.stream(subscribe=t.clicks, endingOffsetsByTimestamp={t.clicks: {"0": 1}})),
        "(?i)ending ?(timestamp|offsetsByTimestamp)",
    ),
    "more offsets than there may be": (
        _ran(lambda word, t: word.stream(subscribe=t.clicks, minOffsetsPerTrigger=9, maxOffsetsPerTrigger=3)),
        "(?i)minOffset.*maxOffset",
    ),
}
"""Jobs that raise an error with both formats, and a pattern that both errors match."""

LIMITED: Job = _ran(lambda word, t: word.stream(subscribe=t.clicks, maxOffsetsPerTrigger=3))
"""A job that Spark's own connector can run and a data source on PySpark 4.0 cannot."""
