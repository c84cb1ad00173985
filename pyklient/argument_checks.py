"""Checks the arguments of public methods before they are used.

A wrong type raises TypeError. A value out of range raises ConfigurationError, which is a ValueError. Both
name the argument, what it accepts and what was given. Whole numbers of other libraries, such as NumPy's, are
accepted; True and False are not numbers.
"""

import math
import operator
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = [
    "INT16_MAX",
    "INT32_MAX",
    "INT64_MAX",
    "flag",
    "mapping",
    "names",
    "partition",
    "partitions",
    "seconds_or_none",
    "positions",
    "seconds",
    "several",
    "settings",
    "text",
    "topic_name",
    "whole",
]

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_PARTITION: Final = "TopicPartition('clicks', 0)"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST_TOPIC: Final = 249


def text(value: Any, name: str) -> str:
    """Return *value*, a str that fits into a request."""
    if not isinstance(value, str):
        raise _wrong(f"{name} takes a str", value)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name}={value!r} cannot be encoded as UTF-8") from None
    if size > INT16_MAX:
        raise ConfigurationError(f"{name} has {size:,} bytes; at most {INT16_MAX:,} are allowed")
    return value


def names(values: Any, name: str) -> tuple[str, ...]:
    """Return *values*, the name of one topic or of several, as a tuple of valid names."""
    listed = values if not isinstance(values, str) else (values,)
    if isinstance(listed, bytes | Mapping) or not isinstance(listed, Iterable):
        raise _wrong(f"{name} takes the name of a topic, or a list of names", values)
    found = tuple(text(each, f"each topic in {name}") for each in listed)
    if not all(found):
        raise ConfigurationError(f"{name}={values!r} contains an empty name")
    return tuple(map(topic_name, found))


def topic_name(value: str) -> str:
    """Return *value* if it is a valid name of a topic. Otherwise raise a ConfigurationError that gives the
    reason."""
    if not value:
        raise ConfigurationError("the name of a topic must not be empty")
    if len(value) > _LONGEST_TOPIC:
        raise ConfigurationError(
            f"{reprlib.repr(value)} is not a valid name of a topic: it has {len(value):,} characters; at "
            f"most {_LONGEST_TOPIC} are allowed"
        )
    if not _TOPIC.fullmatch(value):
        raise ConfigurationError(
            f"{value!a} is not a valid name of a topic: only a-z, A-Z, 0-9, '.', '_' and '-' are allowed"
        )
    if value in (".", ".."):
        raise ConfigurationError(
            f"{value!a} is not a valid name of a topic: a name of one or two dots is not allowed"
        )
    return value


def whole(value: Any, name: str, low: int = 0, high: int = INT32_MAX) -> int:
    """Return *value* as an int from *low* to *high*."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise _wrong(f"{name} takes a whole number", value) from None
    if not low <= number <= high:
        raise ConfigurationError(f"{name}={number} is out of range: {low} to {high}")
    return number


def flag(value: Any, name: str) -> bool:
    """Return *value*, which must be True or False."""
    if not isinstance(value, bool):
        raise _wrong(f"{name} takes True or False", value)
    return value


def seconds(value: Any, name: str) -> float:
    """Return *value* as a time to wait. A negative time counts as 0: a deadline that has passed."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(f"{name} takes a number of seconds", value)
    if math.isnan(value) or value > INT32_MAX / 1000:
        raise ConfigurationError(
            f"{name}={value} is out of range: at most {INT32_MAX // 1000:,} seconds are allowed"
        )
    return max(0.0, float(value))


def seconds_or_none(value: Any, name: str) -> float | None:
    """Return *value* as a number of seconds to wait; None means without limit."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise _wrong(f"{name} takes a number of seconds, or None", value)
    return None if value is None else float(value)


def mapping(value: Any, name: str, example: str) -> Mapping[Any, Any]:
    """Return *value*, which must be a mapping; *example* shows one in the error."""
    if not isinstance(value, Mapping):
        raise _wrong(f"{name} takes a mapping such as {example}", value)
    return value


def settings(value: Any, name: str) -> dict[str, str]:
    """Return the settings of a topic as text, the form that brokers expect."""
    return {
        text(key, f"a name in {name}"): _setting(each, f"{name}[{key!r}]")
        for key, each in mapping(value, name, "{'retention.ms': '60000'}").items()
    }


def _setting(value: Any, name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else text(value, name)


def partition(value: Any, name: str) -> TopicPartition:
    """Return *value* as a TopicPartition. A tuple of topic and number is accepted too."""
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str):
        raise _wrong(f"{name} takes a {_PARTITION}", value)
    topic = text(value[0], f"the topic in {name}")
    return TopicPartition(topic, whole(value[1], f"the partition of topic {topic!r} in {name}"))


def partitions(values: Any, name: str) -> list[TopicPartition]:
    """Return *values* as a list of TopicPartitions."""
    if isinstance(values, str | bytes | TopicPartition) or not isinstance(values, Iterable):
        raise _wrong(f"{name} takes several partitions, such as [{_PARTITION}]", values)
    return [partition(each, name) for each in values]


def several(values: Any, name: str) -> Iterable[Any]:
    """Return *values*, an iterable of values.

    Text and bytes count as one value, and are not accepted. Nor is a mapping, of which only the keys would be
    used.
    """
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping) or not isinstance(values, Iterable):
        raise _wrong(f"{name} takes a list or another iterable", values)
    return values


def positions(values: Any, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return *values* as positions to commit: offsets or OffsetAndMetadata by partition."""
    items = mapping(values, name, f"{{{_PARTITION}: 17}}").items()
    return {(where := partition(key, name)): _position(at, f"{name}[{where}]") for key, at in items}


def _position(value: Any, name: str) -> OffsetAndMetadata:
    if not isinstance(value, OffsetAndMetadata):
        return OffsetAndMetadata(whole(value, name, high=INT64_MAX))
    return OffsetAndMetadata(
        whole(value.offset, f"the offset of {name}", high=INT64_MAX),
        text(value.metadata, f"the metadata of {name}"),
        whole(value.leader_epoch, f"the leader_epoch of {name}", low=-1),
    )


def _wrong(what_it_takes: str, value: Any) -> TypeError:
    return TypeError(f"{what_it_takes}, not {reprlib.repr(value)}")
