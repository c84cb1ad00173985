"""Replaces names of options in errors by the names under which the user gave these options.

An option can have several names: ``load(max_partition_fetch_bytes=…)`` becomes Spark's option
``kafka.max.partition.fetch.bytes``, and that becomes an option of pyklient's client. Each layer raises errors
with its own name for the option.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import Final

from pyklient.config import ConsumerConfig, ProducerConfig
from pyklient.errors import KafkaError

__all__ = ["LOAD_NAMES", "SPARK_NAMES", "property_names", "rename_options"]

_POLL_TIMEOUT: Final = "kafkaConsumer.pollTimeoutMs"
_CLIENT_OPTIONS: Final = tuple(
    dict.fromkeys(item.name for each in (ConsumerConfig, ProducerConfig) for item in fields(each))
)


def property_names(names: Iterable[str]) -> dict[str, str]:
    """Return Spark's names for the properties *names*, which have dots. Each property has two keys in the
    result: its name with dots, and with underscores."""
    listed = list(names)
    return {each: f"kafka.{name}" for name in listed for each in (name.replace(".", "_"), name)}


SPARK_NAMES: Final = {
    **{name: f"kafka.{name.replace('_', '.')}" for name in _CLIENT_OPTIONS},
    "consumer_timeout_ms": _POLL_TIMEOUT,
}
"""The name of the Spark option for each option of pyklient's clients."""

LOAD_NAMES: Final = {
    **{spark: own for own, spark in SPARK_NAMES.items()},
    "kafka.consumer.timeout.ms": "consumer_timeout_ms",
    "failOnDataLoss": "fail_on_data_loss",
    "includeHeaders": "include_headers",
    "minPartitions": "min_partitions",
    "startingOffsets": "start",
    "startingTimestamp": "start",
    "subscribe": "topics",
    "subscribePattern": "topics",
}
"""The name of the parameter of ``pyklient.spark.load`` for each Spark option."""


@contextmanager
def rename_options(names: Mapping[str, str]) -> Iterator[None]:
    """Run the ``with`` block. If it raises a KafkaError, replace each key of *names* by its value in the
    error's text."""
    try:
        yield
    except KafkaError as error:
        if error.args and isinstance(error.args[0], str):
            text = _any_of(tuple(names)).sub(lambda found: names[found[0]], error.args[0])
            error.args = (text, *error.args[1:])
        raise


@cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that matches each of *names*, but not inside a longer name."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w|\.\w)")
