"""What a query's options say together about what to read: a subscription, where it begins and ends, how."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pyklient.config import ConsumerConfig
from pyklient.errors import ConfigurationError
from pyklient.model import TopicPartition
from pyklient.properties import from_properties
from pyklient.spark.option_values import EARLIEST, LATEST
from pyklient.spark.options import Given, Use, given_options

__all__ = ["SourceOptions"]

_SET_BY_SPARK: Final = {
    "auto.offset.reset": "set startingOffsets; where to go on is in the query's checkpoint",
    "enable.auto.commit": "Spark keeps the offsets, nothing is committed",
    "interceptor.classes": "records are to reach the query as they are",
    "key.deserializer": "keys are bytes; cast or decode the column",
    "value.deserializer": "values are bytes; cast or decode the column",
}


@dataclass(frozen=True)
class SourceOptions:
    """The options of one source, checked. Picklable; its repr shows no password."""

    config: ConsumerConfig
    topics: tuple[str, ...]
    start: int | Mapping[TopicPartition, int]
    end: int | Mapping[TopicPartition, int]

    @classmethod
    def parse(cls, options: Mapping[str, str], use: Use) -> Self:
        """*options* of a query. Raises ConfigurationError, which names the option and what it takes."""
        given = given_options(options, use)
        values = given.values
        if "subscribe" not in values:
            raise ConfigurationError("say what to read: option subscribe")
        return cls(
            config=_consumer_config(given),
            topics=values["subscribe"],
            start=values.get("startingOffsets", EARLIEST if use is Use.BATCH else LATEST),
            end=values.get("endingOffsets", LATEST),
        )


def _consumer_config(given: Given) -> ConsumerConfig:
    if not given.kafka.get("bootstrap.servers", "").strip():
        raise ConfigurationError("option kafka.bootstrap.servers is missing: host:port of some brokers")
    for name, instead in _SET_BY_SPARK.items():
        if name in given.kafka:
            raise ConfigurationError(f"option kafka.{name} cannot be set: {instead}")
    options: dict[str, Any] = from_properties(ConsumerConfig, given.kafka)
    return ConsumerConfig.from_options(options)
