"""The options of ``format("pyklient")``: their names, defaults, meanings and parsers. Their names are those
of Spark's own Kafka source.

Spark passes options to a data source as text, with their names in lower case. An option that begins with
``kafka.`` is a property of Kafka and is passed on to pyklient's client.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pyklient.config.dotted_names import nearest_property, unknown_properties
from pyklient.config.unknown_options import nearest
from pyklient.errors import ConfigurationError
from pyklient.spark import option_values as values

__all__ = ["OPTIONS", "GivenOptions", "SparkOption", "Use", "parse_options"]

log = logging.getLogger("pyklient.spark")


class Use(StrEnum):
    """The kinds of query that have options: a batch read, a streaming read, and any write (sink)."""

    BATCH = "batch"
    STREAM = "stream"
    SINK = "sink"


@dataclass(frozen=True)
class SparkOption:
    """An option of ``format("pyklient")``. ``uses`` has the kinds of query that accept it; ``default`` and
    ``meaning`` are texts for the documentation."""

    name: str
    uses: frozenset[Use]
    default: str
    parse: Callable[[str], Any]
    meaning: str


_BATCH: Final = frozenset({Use.BATCH})
_STREAM: Final = frozenset({Use.STREAM})
_SINK: Final = frozenset({Use.SINK})
_SOURCE: Final = _BATCH | _STREAM

OPTIONS: Final = (
    SparkOption("subscribe", _SOURCE, "", values.topics, "the topics to read, separated by commas"),
    SparkOption(
        "subscribePattern",
        _SOURCE,
        "",
        values.pattern,
        "a regular expression: the topics whose whole name it matches are read, including topics that are "
        "created later, but no internal topics",
    ),
    SparkOption(
        "assign",
        _SOURCE,
        "",
        values.partitions,
        'the partitions to read, as `{"clicks": [0, 1]}`. Exactly one of `subscribe`, `subscribePattern` and '
        "`assign` must be set",
    ),
    SparkOption(
        "startingOffsets",
        _SOURCE,
        "`earliest`; `latest` for a stream",
        values.ends,
        "where a new query begins: `earliest`, `latest` (streams only), or an offset for each partition, as "
        '`{"clicks": {"0": 23, "1": -2}}` (-2 is earliest, -1 is latest). A query that has a checkpoint '
        "continues from the offsets in it. A partition that is new to the query begins at its earliest "
        "offset",
    ),
    SparkOption(
        "startingTimestamp",
        _SOURCE,
        "",
        values.whole,
        "begin at the first record with this timestamp (milliseconds since 1970) or a later one; takes "
        "precedence over `startingOffsetsByTimestamp` and `startingOffsets`",
    ),
    SparkOption(
        "startingOffsetsByTimestamp",
        _SOURCE,
        "",
        values.times,
        'a timestamp to begin at for each partition, as `{"clicks": {"0": 1700000000000}}`; takes precedence '
        "over `startingOffsets`",
    ),
    SparkOption(
        "startingOffsetsByTimestampStrategy",
        _SOURCE,
        "`error`",
        values.strategy,
        "what happens if a partition has no record with the timestamp or a later one: `error` fails the "
        "query, `latest` begins at the end of the partition",
    ),
    SparkOption(
        "endingOffsets",
        _BATCH,
        "`latest`",
        values.ends,
        "where a batch query ends: `latest`, or an offset for each partition (-1 is latest). The record at "
        "that offset is not read",
    ),
    SparkOption(
        "endingTimestamp",
        _BATCH,
        "",
        values.whole,
        "end before the first record with this timestamp (milliseconds since 1970) or a later one; takes "
        "precedence over `endingOffsetsByTimestamp` and `endingOffsets`",
    ),
    SparkOption(
        "endingOffsetsByTimestamp",
        _BATCH,
        "",
        values.times,
        "a timestamp to end at for each partition; takes precedence over `endingOffsets`",
    ),
    SparkOption(
        "failOnDataLoss",
        _SOURCE,
        "`true`",
        values.flag,
        "fail if records were deleted before they were read; with `false`, log a warning and read the "
        "records that are left",
    ),
    SparkOption(
        "minPartitions",
        _SOURCE,
        "",
        values.positive,
        "the least number of tasks (or one task for each offset, if there are fewer offsets). By default, "
        "there is one task for each partition that has records to read",
    ),
    SparkOption(
        "maxRecordsPerPartition",
        _SOURCE,
        "",
        values.positive,
        "the greatest number of offsets that one task reads",
    ),
    SparkOption(
        "maxOffsetsPerTrigger",
        _STREAM,
        "",
        values.positive,
        "the greatest number of offsets in a micro-batch. Each partition gets a share in proportion to its "
        "offsets to read, and at least one offset. Needs PySpark 4.2",
    ),
    SparkOption(
        "minOffsetsPerTrigger",
        _STREAM,
        "",
        values.positive,
        "the least number of offsets in a micro-batch: the query waits for them, but not for longer than "
        "`maxTriggerDelay`. Needs PySpark 4.2",
    ),
    SparkOption(
        "maxTriggerDelay",
        _STREAM,
        "`15m`",
        values.milliseconds,
        "the longest wait for `minOffsetsPerTrigger`",
    ),
    SparkOption("includeHeaders", _SOURCE, "`false`", values.flag, "add the column `headers`"),
    SparkOption(
        "topic",
        _SINK,
        "",
        values.topic,
        "the topic to write to; takes precedence over a column `topic`. One of the two is required",
    ),
    SparkOption(
        "deduplicationHeaders",
        _SINK,
        "`false`",
        values.flag,
        "add headers that identify the query or job and the row of each record, so that consumers can drop "
        "duplicates",
    ),
    SparkOption(
        "deduplicationQuery",
        _SINK,
        "the id of a streaming query; a random name for a batch",
        values.text,
        "the name of the query or job in these headers. A job that runs again with the same name writes the "
        "same headers",
    ),
    SparkOption(
        "kafkaConsumer.pollTimeoutMs",
        _SOURCE,
        "`60000`",
        values.positive,
        "milliseconds without a record after which a task fails; it fails sooner if its topic was deleted",
    ),
    SparkOption(
        "groupIdPrefix",
        _SOURCE,
        "",
        values.text,
        "no effect, as pyklient reads without a group; `kafka.group.id` has no effect either",
    ),
    SparkOption(
        "fetchOffset.numRetries",
        _SOURCE,
        "",
        values.whole,
        "no effect: requests are retried for `kafka.default.api.timeout.ms`",
    ),
    SparkOption(
        "fetchOffset.retryIntervalMs",
        _SOURCE,
        "",
        values.whole,
        "no effect: see `kafka.retry.backoff.ms`",
    ),
)
"""All options of ``format("pyklient")``, except those that begin with ``kafka.``"""

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_OF_SPARK: Final = frozenset(
    {
        "asyncprogresstrackingcheckpointintervalms",
        "asyncprogresstrackingenabled",
        "checkpointlocation",
        "queryname",
    }
)
"""Options of a streaming query itself, in lower case. Spark also passes them to the sink, which ignores
them."""

_NO_OPTION: Final = {
    "path": "load() and save() take no path: set option subscribe to read, or option topic to write",
}


@dataclass(frozen=True)
class GivenOptions:
    """The parsed options of a query.

    ``values`` has the options by name. ``kafka`` has the Kafka properties by name. Users set them by options
    that begin with ``kafka.``; the names in ``kafka`` do not have this prefix.
    """

    values: Mapping[str, Any]
    kafka: Mapping[str, str]

    def check_properties(self, refused: Mapping[str, str]) -> None:
        """Raise ConfigurationError if ``bootstrap.servers`` is missing, or if a Kafka property is unknown or
        *refused*.

        *refused* has the properties that must not be set. It maps each of them to the reason, or to the
        option that must be set instead.
        """
        if not self.kafka.get("bootstrap.servers", "").strip():
            raise ConfigurationError(
                "option kafka.bootstrap.servers is missing: set it to host:port of a broker"
            )
        for name, reason in refused.items():
            if name in self.kafka:
                raise ConfigurationError(f"option kafka.{name} cannot be set: {reason}")
        for name in unknown_properties(self.kafka):
            near = nearest_property(name)
            hint = f"; did you mean 'kafka.{near}'?" if near else ""
            raise ConfigurationError(f"option 'kafka.{name}' is unknown{hint}")


def parse_options(options: Mapping[str, str], use: Use | None = None) -> GivenOptions:
    """Parse the options of a query. *use* is the kind of the query, or None if it is not known yet.

    Raises ConfigurationError for an unknown option, for a wrong value, and if a streaming query sets an end,
    because it has none. Other options that do not fit the kind of query are ignored with a warning.
    """
    found: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    for key, text in options.items():
        name = key.lower()
        if name.startswith("kafka."):
            kafka[name.removeprefix("kafka.")] = text
            continue
        if name in _OF_SPARK:
            continue
        option = _BY_NAME.get(name)
        if option is None:
            raise ConfigurationError(_unknown(name))
        if use is None or use in option.uses:
            found[option.name] = _parsed(option, text)
        elif use is Use.STREAM and name.startswith("ending"):
            raise ConfigurationError(f"option {option.name} is for batch queries only: a stream has no end")
        else:
            log.warning(
                "option %s has no effect on this query: it is only for %s queries",
                option.name,
                " and ".join(sorted(option.uses)),
            )
    return GivenOptions(found, kafka)


def _parsed(option: SparkOption, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"option {option.name} has the wrong value {text!r}: {error}") from None


def _unknown(name: str) -> str:
    if name in _NO_OPTION:
        return _NO_OPTION[name]
    beginning = f"option {name!r} is unknown to format('pyklient')"
    if (near := nearest(name, _BY_NAME)) is not None:
        return f"{beginning}; did you mean {_BY_NAME[near].name!r}?"
    return f"{beginning}; if it is a property of Kafka, write 'kafka.{name}'"
