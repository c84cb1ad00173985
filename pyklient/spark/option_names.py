"""Options in errors have the names under which they were given.

An option passes several hands: ``load(max_partition_fetch_bytes=…)`` becomes Spark's option
``kafka.max.partition.fetch.bytes``, and that an option of pyklient's client. Each of them raises errors with
its own name for it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import Final

from pyklient.config import ConsumerConfig, ProducerConfig
from pyklient.errors import KafkaError

__all__ = ["OF_LOAD", "OF_SPARK", "called", "of_properties"]

_PATIENCE: Final = "kafkaConsumer.pollTimeoutMs"
_CLIENT_OPTIONS: Final = tuple(
    dict.fromkeys(item.name for each in (ConsumerConfig, ProducerConfig) for item in fields(each))
)


def of_properties(names: Iterable[str]) -> dict[str, str]:
    """The properties *names*, and what a client calls them, → Spark's options."""
    listed = list(names)
    return {each: f"kafka.{name}" for name in listed for each in (name.replace(".", "_"), name)}


OF_SPARK: Final = {
    **{name: f"kafka.{name.replace('_', '.')}" for name in _CLIENT_OPTIONS},
    "consumer_timeout_ms": _PATIENCE,
}
"""Options of pyklient's clients → Spark's options."""

OF_LOAD: Final = {
    **{spark: own for own, spark in OF_SPARK.items()},
    "kafka.consumer.timeout.ms": "consumer_timeout_ms",
    "failOnDataLoss": "fail_on_data_loss",
    "includeHeaders": "include_headers",
    "minPartitions": "min_partitions",
    "startingOffsets": "start",
    "startingTimestamp": "start",
    "subscribe": "topics",
    "subscribePattern": "topics",
}
"""Spark's options → parameters of ``pyklient.spark.load``."""


@contextmanager
def called(names: Mapping[str, str]) -> Iterator[None]:
    """Let errors that leave the block call options by the values of *names*, instead of by its keys."""
    try:
        yield
    except KafkaError as error:
        if error.args and isinstance(error.args[0], str):
            said = _any_of(tuple(names)).sub(lambda found: names[found[0]], error.args[0])
            error.args = (said, *error.args[1:])
        raise


@cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Matches each of *names* where it is a whole name."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w|\.\w)")
