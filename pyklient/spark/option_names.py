"""Replaces the names of options in error messages with the names that the user has used.

For example, ``load(max_partition_fetch_bytes=…)`` sets Spark's option ``kafka.max.partition.fetch.bytes``,
which in turn sets the option ``max_partition_fetch_bytes`` of pyklient's client. Each layer raises errors
with its own name of the option.
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
    """Return a map from *names*, Kafka's properties such as ``linger.ms``, to Spark's options such as
    ``kafka.linger.ms``. The result also has each property with underscores, such as ``linger_ms``."""
    listed = list(names)
    return {each: f"kafka.{name}" for name in listed for each in (name.replace(".", "_"), name)}


SPARK_NAMES: Final = {
    **{name: f"kafka.{name.replace('_', '.')}" for name in _CLIENT_OPTIONS},
    "consumer_timeout_ms": _POLL_TIMEOUT,
}
"""A map from the options of pyklient's clients to the names of Spark's options, such as from ``linger_ms`` to
``kafka.linger.ms``."""

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
"""A map from Spark's options to the parameters of ``pyklient.spark.load``, such as from ``subscribe`` to
``topics``."""


@contextmanager
def rename_options(names: Mapping[str, str]) -> Iterator[None]:
    """Rename options in the text of a KafkaError that the ``with`` block raises: replace each key of *names*
    by its value."""
    try:
        yield
    except KafkaError as error:
        if error.args and isinstance(error.args[0], str):
            text = _any_of(tuple(names)).sub(lambda found: names[found[0]], error.args[0])
            error.args = (text, *error.args[1:])
        raise


@cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that matches each of *names*, unless it is a part of a longer name."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w|\.\w)")
