"""The options of ``format("pyklient")``, each declared once, by the names of Spark's own Kafka source.

Options reach a data source as text, their names in lower case. Those that begin with ``kafka.`` are Kafka's
own and go to pyklient's client.
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

__all__ = ["OPTIONS", "Given", "SparkOption", "Use", "given_options"]

log = logging.getLogger("pyklient.spark")


class Use(StrEnum):
    """What an option is for."""

    BATCH = "batch"
    STREAM = "stream"
    SINK = "sink"


@dataclass(frozen=True)
class SparkOption:
    """One option: who takes it, the default as the documentation shows it, how its text is read."""

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
    SparkOption("subscribe", _SOURCE, "", values.topics, "topics to read, with commas between them"),
    SparkOption(
        "subscribePattern",
        _SOURCE,
        "",
        values.pattern,
        "a regular expression: topics whose whole name it matches, new ones too as they come; internal "
        "topics are left out",
    ),
    SparkOption(
        "assign",
        _SOURCE,
        "",
        values.partitions,
        'these partitions and no others, as `{"clicks": [0, 1]}`. Exactly one of the three is given',
    ),
    SparkOption(
        "startingOffsets",
        _SOURCE,
        "`earliest`; of a stream `latest`",
        values.ends,
        "where a new query begins: `earliest`, `latest` (streams only), or an offset for each partition, as "
        '`{"clicks": {"0": 23, "1": -2}}` (-2 earliest, -1 latest). A query that has a checkpoint goes on '
        "where that says, and partitions that are new to it begin at their earliest offset",
    ),
    SparkOption(
        "startingTimestamp",
        _SOURCE,
        "",
        values.whole,
        "begin at the first record of this time (milliseconds since 1970) or later; wins over the two others",
    ),
    SparkOption(
        "startingOffsetsByTimestamp",
        _SOURCE,
        "",
        values.times,
        'the same for each partition, as `{"clicks": {"0": 1700000000000}}`; wins over `startingOffsets`',
    ),
    SparkOption(
        "startingOffsetsByTimestampStrategy",
        _SOURCE,
        "`error`",
        values.strategy,
        "where no record is that late: `error`, or begin at the `latest` offset",
    ),
    SparkOption(
        "endingOffsets",
        _BATCH,
        "`latest`",
        values.ends,
        "where a batch ends, this offset left out: `latest` or an offset for each partition (-1 latest)",
    ),
    SparkOption(
        "endingTimestamp",
        _BATCH,
        "",
        values.whole,
        "end before the first record of this time or later; wins over the two others",
    ),
    SparkOption(
        "endingOffsetsByTimestamp",
        _BATCH,
        "",
        values.times,
        "the same for each partition; wins over `endingOffsets`",
    ),
    SparkOption(
        "failOnDataLoss",
        _SOURCE,
        "`true`",
        values.flag,
        "fail where records are gone before they were read; `false` warns in the log and goes on with what "
        "is still there",
    ),
    SparkOption(
        "minPartitions",
        _SOURCE,
        "",
        values.positive,
        "tasks to read with, at least, if there are so many offsets: the largest ranges are cut. Without it, "
        "one task for each partition that has something to read",
    ),
    SparkOption(
        "maxRecordsPerPartition", _SOURCE, "", values.positive, "offsets that one task reads, at most"
    ),
    SparkOption(
        "maxOffsetsPerTrigger",
        _STREAM,
        "",
        values.positive,
        "offsets in one micro-batch, shared out by what waits in each partition, at least one of each. Needs "
        "PySpark 4.2",
    ),
    SparkOption(
        "minOffsetsPerTrigger",
        _STREAM,
        "",
        values.positive,
        "a micro-batch waits until so many offsets are there, or for `maxTriggerDelay`. Needs PySpark 4.2",
    ),
    SparkOption(
        "maxTriggerDelay", _STREAM, "`15m`", values.milliseconds, "longest wait for `minOffsetsPerTrigger`"
    ),
    SparkOption("includeHeaders", _SOURCE, "`false`", values.flag, "a column of headers too"),
    SparkOption(
        "topic",
        _SINK,
        "",
        values.topic,
        "the topic to write to; wins over a column `topic`, and one of the two is needed",
    ),
    SparkOption(
        "deduplicationHeaders",
        _SINK,
        "`false`",
        values.flag,
        "headers that say which row of which query or job a record is, so that readers can drop copies",
    ),
    SparkOption(
        "deduplicationQuery",
        _SINK,
        "a streaming query's id; of a batch, one made up",
        values.text,
        "what these headers call the query or job. A job that is run again under the same name makes the "
        "same headers",
    ),
    SparkOption(
        "kafkaConsumer.pollTimeoutMs",
        _SOURCE,
        "`60000`",
        values.positive,
        "a task fails when nothing comes for this long, in milliseconds; sooner where its topic is gone",
    ),
    SparkOption(
        "groupIdPrefix",
        _SOURCE,
        "",
        values.text,
        "changes nothing: reading needs no group here. Nor does `kafka.group.id`",
    ),
    SparkOption(
        "fetchOffset.numRetries",
        _SOURCE,
        "",
        values.whole,
        "changes nothing: brokers are asked again for `kafka.default.api.timeout.ms`",
    ),
    SparkOption(
        "fetchOffset.retryIntervalMs",
        _SOURCE,
        "",
        values.whole,
        "changes nothing: see `kafka.retry.backoff.ms`",
    ),
)
"""Every option but those of ``kafka.``"""

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
_OF_SPARK: Final = frozenset(
    {
        "asyncprogresstrackingcheckpointintervalms",
        "asyncprogresstrackingenabled",
        "checkpointlocation",
        "queryname",
    }
)
"""Options of the query itself, which a stream's sink is shown too."""

_NO_OPTION: Final = {
    "path": "load() and save() take no path: topics are named by option subscribe, or topic of a sink",
}


@dataclass(frozen=True)
class Given:
    """Options as a query gave them: values by name, and the properties of ``kafka.`` without that prefix."""

    values: Mapping[str, Any]
    kafka: Mapping[str, str]

    def check_kafka(self, refused: Mapping[str, str]) -> None:
        """Raises ConfigurationError where no broker is named, and for a property that is among the *refused*,
        which say what to do instead, or that nobody knows."""
        if not self.kafka.get("bootstrap.servers", "").strip():
            raise ConfigurationError("option kafka.bootstrap.servers is missing: host:port of some brokers")
        for name, instead in refused.items():
            if name in self.kafka:
                raise ConfigurationError(f"option kafka.{name} cannot be set: {instead}")
        for name in unknown_properties(self.kafka):
            near = nearest_property(name)
            hint = f"; did you mean 'kafka.{near}'?" if near else ""
            raise ConfigurationError(f"option 'kafka.{name}' is unknown{hint}")


def given_options(options: Mapping[str, str], use: Use | None = None) -> Given:
    """*options* of a query, checked one by one.

    Raises ConfigurationError for one that is unknown, with the nearest name, for one that does not hold what
    it takes, and for the end of a stream. What is of another *use* (None: not known yet) is passed over with
    a warning.
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
            raise ConfigurationError(f"option {option.name} is for batch queries: a stream has no end")
        else:
            log.warning(
                "option %s changes nothing here: it is for %s", option.name, " and ".join(sorted(option.uses))
            )
    return Given(found, kafka)


def _parsed(option: SparkOption, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise ConfigurationError(
            f"option {option.name}={text!r} is not understood: it takes {error}"
        ) from None


def _unknown(name: str) -> str:
    if name in _NO_OPTION:
        return _NO_OPTION[name]
    beginning = f"option {name!r} is unknown to format('pyklient')"
    if (near := nearest(name, _BY_NAME)) is not None:
        return f"{beginning}; did you mean {_BY_NAME[near].name!r}?"
    return f"{beginning}; if it is one of Kafka's own, write 'kafka.{name}'"
