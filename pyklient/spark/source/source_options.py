"""What a query's options say together: which partitions to read, where to begin and end, how."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pyklient.config import NOT_READ, ConsumerConfig
from pyklient.config.dotted_names import from_properties
from pyklient.errors import ConfigurationError
from pyklient.spark.option_names import OF_SPARK, called, of_properties
from pyklient.spark.option_values import EARLIEST, LATEST
from pyklient.spark.options import Given, Use, given_options
from pyklient.topic_partition import TopicPartition

__all__ = ["Bound", "SourceOptions", "Subscription"]

_SET_BY_SPARK: Final = {
    "auto.offset.reset": "set startingOffsets; where to go on is in the query's checkpoint",
    "enable.auto.commit": "Spark keeps the offsets, and nothing is committed",
    "interceptor.classes": "records reach the query as they are",
    "key.deserializer": "keys are bytes; decode the column",
    "value.deserializer": "values are bytes; decode the column",
}
_PATIENCE_MS: Final = 60_000
_DELAY_MS: Final = 15 * 60_000


@dataclass(frozen=True)
class Subscription:
    """Which partitions to read: those of *topics*, of the topics that *pattern* matches, or *partitions*."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics like {self.pattern}"
        return ", ".join(self.topics or map(str, self.partitions))

    def wants(self, topic: str) -> bool:
        """Whether *pattern* matches the name."""
        return self.pattern is not None and re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class Bound:
    """Where a query begins or ends: *at* is an offset, EARLIEST or LATEST, for all partitions or for each;
    if *timed*, a time in milliseconds. *option* is the one that says so."""

    option: str
    at: int | Mapping[TopicPartition, int]
    timed: bool = False
    must_match: bool = False
    """Whether it is an error that no record is that late. Otherwise the end of the log stands for it."""

    @property
    def points(self) -> Iterable[int]:
        """What is said of all partitions, or of each."""
        return self.at.values() if isinstance(self.at, Mapping) else (self.at,)

    def is_latest(self, partition: TopicPartition) -> bool:
        """Whether it is the end of the log, by that name."""
        return not self.timed and (self.at[partition] if isinstance(self.at, Mapping) else self.at) == LATEST

    @property
    def moves(self) -> bool:
        """Whether it means another offset at another time, retention aside."""
        return not self.must_match if self.timed else LATEST in self.points


@dataclass(frozen=True)
class SourceOptions:
    """The options of one source, checked. Picklable; its repr shows no password."""

    config: ConsumerConfig
    subscription: Subscription
    start: Bound
    end: Bound
    fail_on_data_loss: bool
    headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str], use: Use | None = None) -> Self:
        """*options* of a query of kind *use*; with None, what is wrong in either kind is an error.

        Raises ConfigurationError, which names the option and what it takes.
        """
        given = given_options(options, use)
        values = given.values
        least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise ConfigurationError(f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
        found = cls(
            config=_consumer_config(given),
            subscription=_subscription(values),
            start=_bound(values, "starting", LATEST if use is Use.STREAM else EARLIEST),
            end=_bound(values, "ending", LATEST),
            fail_on_data_loss=values.get("failOnDataLoss", True),
            headers=values.get("includeHeaders", False),
            min_partitions=values.get("minPartitions"),
            max_records_per_partition=values.get("maxRecordsPerPartition"),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=values.get("maxTriggerDelay", _DELAY_MS),
        )
        if use is Use.BATCH:
            found.refuse_empty_batch()
        return found

    def refuse_empty_batch(self) -> None:
        """Raises ConfigurationError for a batch that would begin at the end, or end at the beginning or
        before it begins."""
        if not self.start.timed and LATEST in self.start.points:
            raise ConfigurationError(
                "startingOffsets of a batch cannot be latest (-1): there would be nothing to read"
            )
        if not self.end.timed and EARLIEST in self.end.points:
            raise ConfigurationError(
                "endingOffsets of a batch cannot be earliest (-2): there would be nothing to read"
            )
        start, end = self.start, self.end
        if start.timed == end.timed and isinstance(start.at, Mapping) and isinstance(end.at, Mapping):
            for each, last in end.at.items():
                if 0 <= last < start.at.get(each, 0):
                    raise ConfigurationError(
                        f"{end.option} of {each} is {last}, before {start.option}, {start.at[each]}"
                    )


def _subscription(values: Mapping[str, Any]) -> Subscription:
    names = ("assign", "subscribe", "subscribePattern")
    given = [name for name in names if name in values]
    if len(given) != 1:
        problem = f"{' and '.join(given)} are given together" if given else "nothing says what to read"
        raise ConfigurationError(f"{problem}: set exactly one of the options {', '.join(names)}")
    return Subscription(
        topics=values.get("subscribe", ()),
        pattern=values.get("subscribePattern"),
        partitions=values.get("assign", ()),
    )


def _bound(values: Mapping[str, Any], side: str, default: int) -> Bound:
    """The bound on one *side*: the option that wins, as in Spark's own source."""
    must_match = side == "starting" and values.get("startingOffsetsByTimestampStrategy", "error") == "error"
    for name in (f"{side}Timestamp", f"{side}OffsetsByTimestamp"):
        if name in values:
            return Bound(name, values[name], timed=True, must_match=must_match)
    name = f"{side}Offsets"
    return Bound(name, values.get(name, default))


def _consumer_config(given: Given) -> ConsumerConfig:
    given.check_kafka(_SET_BY_SPARK)
    with called(OF_SPARK | of_properties(given.kafka)):
        options = from_properties(ConsumerConfig, given.kafka)
        kept = {name: value for name, value in options.items() if name not in NOT_READ}
        patience = given.values.get("kafkaConsumer.pollTimeoutMs", _PATIENCE_MS)
        return ConsumerConfig.from_options({"consumer_timeout_ms": patience, **kept})
