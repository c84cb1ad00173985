"""Parsers for the values of Spark's options, which Spark passes as text.

Each function returns the parsed value, or raises ValueError with a description of the allowed values.
"""

import json
import re
from typing import Any, Final

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.spark.offsets_json import EARLIEST, LATEST
from pyklient.topic_partition import TopicPartition

__all__ = [
    "ends",
    "flag",
    "milliseconds",
    "offsets",
    "partitions",
    "pattern",
    "positive",
    "strategy",
    "text",
    "times",
    "topic",
    "topics",
    "whole",
]

_INT64_MAX: Final = 2**63 - 1
_UNITS: Final = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_TIME: Final = re.compile(r"([0-9]{1,18})\s*([a-z]*)")
_OFFSETS: Final = '{"clicks": {"0": 23, "1": -1}, "views": {"0": -2}} (-2: earliest, -1: latest)'


def text(given: str) -> str:
    """Return *given* if it is not blank. Otherwise raise ValueError."""
    if not given.strip():
        raise ValueError("expected text that is not blank")
    return given


def topic(given: str) -> str:
    """Return *given*, without surrounding blanks, if a topic can have this name. Otherwise raise
    ValueError."""
    try:
        return argument_checks.topic_name(given.strip())
    except ConfigurationError as error:
        raise ValueError(f"expected the name of a topic: {error}") from None


def flag(given: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    if (lowered := given.strip().lower()) not in ("true", "false"):
        raise ValueError("expected 'true' or 'false'")
    return lowered == "true"


def whole(given: str) -> int:
    """Parse a whole number of 0 or more."""
    number = given.strip()
    if not number.isascii() or not number.isdigit() or len(number) > 19 or int(number) > _INT64_MAX:
        raise ValueError("expected a whole number of 0 or more")
    return int(number)


def positive(given: str) -> int:
    """Parse a whole number of 1 or more."""
    try:
        number = whole(given)
    except ValueError:
        number = 0
    if not number:
        raise ValueError("expected a whole number of 1 or more")
    return number


def milliseconds(given: str) -> int:
    """Parse a duration such as ``15m``, ``90s`` or ``500ms`` into milliseconds. A number without a unit is in
    milliseconds."""
    found = _TIME.fullmatch(given.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError("expected a duration such as 15m, 90s or 500ms")
    return int(int(found[1]) * _UNITS[found[2]])


def topics(given: str) -> tuple[str, ...]:
    """Parse the names of topics, which are separated by commas."""
    found = tuple(dict.fromkeys(name for each in given.split(",") if (name := each.strip())))
    if not found:
        raise ValueError("expected the name of a topic, or several names separated by commas")
    return found


def pattern(given: str) -> str:
    """Return *given* if it is a regular expression in Python's syntax. Otherwise raise ValueError. (Spark's
    own source uses Java's syntax, which differs only in details.)"""
    try:
        re.compile(text(given).strip())
    except re.error as error:
        raise ValueError(f"expected a regular expression ({error})") from None
    return given.strip()


def strategy(given: str) -> str:
    """Parse the value of ``startingOffsetsByTimestampStrategy``: ``error`` or ``latest``, in any case."""
    if (lowered := given.strip().lower()) not in ("error", "latest"):
        raise ValueError("expected 'error' or 'latest'")
    return lowered


def partitions(given: str) -> tuple[TopicPartition, ...]:
    """Parse a list of partitions in JSON, such as ``{"clicks": [0, 1], "views": [2]}``."""
    example = '{"clicks": [0, 1], "views": [2]}'
    found = []
    for topic, numbers in _topics_of(given, example).items():
        if not isinstance(numbers, list) or not all(map(_is_partition, numbers)):
            raise ValueError(f"expected JSON such as {example}")
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise ValueError(f"expected at least one partition, as in {example}")
    return tuple(sorted(set(found)))


def ends(given: str) -> int | dict[TopicPartition, int]:
    """Parse ``earliest``, ``latest``, or a JSON object with an offset for each partition, as in
    :func:`offsets`."""
    word = given.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    try:
        return offsets(given)
    except ValueError:
        raise ValueError(f"expected 'earliest', 'latest', or JSON such as {_OFFSETS}") from None


def offsets(given: str) -> dict[TopicPartition, int]:
    """Parse a JSON object with an offset for each partition, in which -2 means earliest and -1 latest.

    An example is ``{"clicks": {"0": 23, "1": -1, "2": -2}}``.
    """
    return _by_partition(given, _OFFSETS, EARLIEST)


def times(given: str) -> dict[TopicPartition, int]:
    """Parse a JSON object with a time for each partition, in milliseconds since 1970.

    An example is ``{"clicks": {"0": 1700000000000}}``.
    """
    return _by_partition(given, '{"clicks": {"0": 1700000000000}}, in milliseconds since 1970', 0)


def _by_partition(given: str, example: str, least: int) -> dict[TopicPartition, int]:
    wanted = f"expected JSON such as {example}"
    found = {}
    for topic, values in _topics_of(given, example).items():
        if not isinstance(values, dict):
            raise ValueError(wanted)
        for key, value in values.items():
            number = int(key) if key.isascii() and key.isdigit() and len(key) < 11 else -1
            if not _is_partition(number) or not _is_whole(value) or not least <= value <= _INT64_MAX:
                raise ValueError(wanted)
            found[TopicPartition(topic, number)] = value
    return found


def _topics_of(given: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(given)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"expected JSON such as {example}")
    return found


def _is_partition(value: Any) -> bool:
    return _is_whole(value) and 0 <= value < 2**31


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
