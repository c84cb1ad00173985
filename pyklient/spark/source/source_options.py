"""The options of a query that reads: which partitions to read, where to begin and end, and how. They are
checked together."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pyklient.config import NOT_READ, ConsumerConfig
from pyklient.config.dotted_names import from_properties
from pyklient.errors import ConfigurationError
from pyklient.spark.offsets_json import EARLIEST, LATEST
from pyklient.spark.option_names import SPARK_NAMES, property_names, rename_options
from pyklient.spark.options import GivenOptions, Use, parse_options
from pyklient.topic_partition import TopicPartition

__all__ = ["Bound", "SourceOptions", "Subscription"]

_SET_BY_SPARK: Final = {
    "auto.offset.reset": "set startingOffsets; a query that has a checkpoint continues from its offsets",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint, and nothing is committed to Kafka",
    "interceptor.classes": "the query gets the records unchanged",
    "key.deserializer": "keys are bytes; convert the column instead",
    "value.deserializer": "values are bytes; convert the column instead",
}
_POLL_TIMEOUT_MS: Final = 60_000
_TRIGGER_DELAY_MS: Final = 15 * 60_000


@dataclass(frozen=True)
class Subscription:
    """The partitions that a query reads: all partitions of *topics*, or of the topics whose names match
    *pattern*, or only *partitions*."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics that match {self.pattern}"
        return ", ".join(self.topics or map(str, self.partitions))

    def wants(self, topic: str) -> bool:
        """Return True if ``pattern`` matches the name *topic*."""
        return self.pattern is not None and re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class Bound:
    """The start or the end of a query, as the user has set it in *option*.

    *at* is one value for all partitions, or a mapping with a value for each partition. A value is an offset,
    EARLIEST or LATEST, or a time in milliseconds since 1970 if *timed* is true.
    """

    option: str
    at: int | Mapping[TopicPartition, int]
    timed: bool = False
    must_match: bool = False
    """True if an error is raised when *at* is a time and a partition has no record of this time or later. If
    it is False, the end of the partition is used instead."""

    @property
    def points(self) -> Iterable[int]:
        """The offsets or times in ``at``: a single one if ``at`` is the same for all partitions."""
        return self.at.values() if isinstance(self.at, Mapping) else (self.at,)

    def is_latest(self, partition: TopicPartition) -> bool:
        """Return True if the bound of *partition* is LATEST."""
        return not self.timed and (self.at[partition] if isinstance(self.at, Mapping) else self.at) == LATEST

    @property
    def moves(self) -> bool:
        """True if the bound, such as LATEST, may stand for another offset when new records arrive."""
        return not self.must_match if self.timed else LATEST in self.points


@dataclass(frozen=True)
class SourceOptions:
    """The checked options of one source. The object can be pickled, and its ``repr`` shows no password."""

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
        """Parse and check the *options* of a query. *use* is the kind of the query, or None if it is not
        known yet.

        Raises ConfigurationError if an option is wrong. The error names the option and the allowed values.
        """
        given = parse_options(options, use)
        values = given.values
        least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise ConfigurationError(
                f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}; choose a minimum that "
                "is at most the maximum"
            )
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
            max_trigger_delay_ms=values.get("maxTriggerDelay", _TRIGGER_DELAY_MS),
        )
        if use is Use.BATCH:
            found.require_range()
        return found

    def require_range(self) -> None:
        """Raise ConfigurationError if a batch query would read nothing: if it starts at the end, ends at the
        beginning, or ends before it starts."""
        if not self.start.timed and LATEST in self.start.points:
            raise ConfigurationError(
                "startingOffsets of a batch query cannot be latest (-1): there would be nothing to read"
            )
        if not self.end.timed and EARLIEST in self.end.points:
            raise ConfigurationError(
                "endingOffsets of a batch query cannot be earliest (-2): there would be nothing to read"
            )
        start, end = self.start, self.end
        if start.timed == end.timed and isinstance(start.at, Mapping) and isinstance(end.at, Mapping):
            for each, last in end.at.items():
                if 0 <= last < start.at.get(each, 0):
                    raise ConfigurationError(
                        f"{end.option} of {each} is offset {last}, which is before offset {start.at[each]} "
                        f"of {start.option}"
                    )


def _subscription(values: Mapping[str, Any]) -> Subscription:
    names = ("assign", "subscribe", "subscribePattern")
    given = [name for name in names if name in values]
    if len(given) != 1:
        problem = f"{', '.join(given)} are set" if given else "none of them is set"
        raise ConfigurationError(f"set exactly one of the options {', '.join(names)}: {problem}")
    return Subscription(
        topics=values.get("subscribe", ()),
        pattern=values.get("subscribePattern"),
        partitions=values.get("assign", ()),
    )


def _bound(values: Mapping[str, Any], side: str, default: int) -> Bound:
    """Return the start of the query if *side* is "starting", or its end if *side* is "ending", from the
    options in *values*. If no option sets this bound, return a Bound at the offset *default*.

    Several options can set the same bound, such as startingOffsets and startingTimestamp. If more than one of
    them is set, use the one that Spark's own Kafka source prefers.
    """
    must_match = side == "starting" and values.get("startingOffsetsByTimestampStrategy", "error") == "error"
    for name in (f"{side}Timestamp", f"{side}OffsetsByTimestamp"):
        if name in values:
            return Bound(name, values[name], timed=True, must_match=must_match)
    name = f"{side}Offsets"
    return Bound(name, values.get(name, default))


def _consumer_config(given: GivenOptions) -> ConsumerConfig:
    given.check_properties(_SET_BY_SPARK)
    with rename_options(SPARK_NAMES | property_names(given.kafka)):
        options = from_properties(ConsumerConfig, given.kafka)
        kept = {name: value for name, value in options.items() if name not in NOT_READ}
        poll_timeout = given.values.get("kafkaConsumer.pollTimeoutMs", _POLL_TIMEOUT_MS)
        return ConsumerConfig.from_options({"consumer_timeout_ms": poll_timeout, **kept})
