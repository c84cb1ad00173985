"""Checks the arguments of public methods before they are used.

A wrong type raises TypeError. A value out of range raises ConfigurationError, which is a ValueError. Both
errors name the argument, the accepted values and the given value. Whole numbers of other libraries, such as
NumPy's, are accepted. True and False do not count as numbers.
"""

import inspect
import math
import operator
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from pyklient.errors import ConfigurationError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = [
    "INT16_MAX",
    "INT32_MAX",
    "INT64_MAX",
    "ISOLATION_LEVELS",
    "IsolationLevel",
    "flag",
    "isolation_level",
    "mapping",
    "names",
    "partition",
    "partitions",
    "pause",
    "plain_function",
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
IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: Final = get_args(IsolationLevel)
"""The isolation levels. The index of a level is its number in requests."""
_PARTITION: Final = "TopicPartition('clicks', 0)"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST_TOPIC: Final = 249


def text(value: Any, name: str) -> str:
    """Return *value* if it is a str that has at most 32,767 bytes in UTF-8, which is the limit for a string
    in a request. Otherwise raise an error that names the argument *name*."""
    if not isinstance(value, str):
        raise TypeError(f"{name} takes a str, not {reprlib.repr(value)}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name}={value!r} cannot be encoded as UTF-8") from None
    if size > INT16_MAX:
        raise ConfigurationError(f"{name} has {size:,} bytes; at most {INT16_MAX:,} are allowed")
    return value


def names(values: Any, name: str) -> tuple[str, ...]:
    """Return the topic names in *values* as a tuple. *values* is one name or an iterable of names.

    Raises ConfigurationError if a name is not a valid name of a topic.
    """
    listed = values if not isinstance(values, str) else (values,)
    if isinstance(listed, bytes | Mapping) or not isinstance(listed, Iterable):
        raise TypeError(f"{name} takes the name of a topic, or a list of names, not {reprlib.repr(values)}")
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
        hint = "; to read topics by a pattern, call stream(pattern=…)" if value.startswith("^") else ""
        raise ConfigurationError(
            f"{value!a} is not a valid name of a topic: only a-z, A-Z, 0-9, '.', '_' and '-' are "
            f"allowed{hint}"
        )
    if value in (".", ".."):
        raise ConfigurationError(
            f"{value!a} is not a valid name of a topic: a name of one or two dots is not allowed"
        )
    return value


def whole(value: Any, name: str, low: int = 0, high: int = INT32_MAX) -> int:
    """Return *value* as an int if it is a whole number from *low* to *high*. Otherwise raise an error that
    names the argument *name*."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} takes a whole number, not {reprlib.repr(value)}") from None
    if not low <= number <= high:
        raise ConfigurationError(f"{name}={number} is out of range; choose a number from {low} to {high}")
    return number


def flag(value: Any, name: str) -> bool:
    """Return *value* if it is True or False. Otherwise raise a TypeError that names the argument *name*."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} takes True or False, not {reprlib.repr(value)}")
    return value


def isolation_level(value: Any) -> int:
    """Return the number that requests contain for the isolation level *value*. Raises ConfigurationError if
    there is no such level."""
    if value not in ISOLATION_LEVELS:
        raise ConfigurationError(
            f"isolation_level={value!r} is not one of {', '.join(map(repr, ISOLATION_LEVELS))}"
        )
    return ISOLATION_LEVELS.index(value)


def plain_function(value: Any, name: str) -> None:
    """Raise a TypeError, which names the argument *name*, if *value* is a coroutine function (``async def``)
    instead of a plain function.

    pyklient calls *value*. The call of a coroutine function only makes a coroutine. Nobody would await it,
    so the code of the function would never run.
    """
    for each in (value, inspect.getattr_static(type(value), "__call__", None)):
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            raise TypeError(
                f"{name} is a coroutine function ({value!r}), which nobody would await; pass a plain "
                "function, such as one that calls asyncio.run()"
            )


def seconds(value: Any, name: str) -> float:
    """Return *value*, a time to wait in seconds, as a float. A negative time becomes 0. Raise an error that
    names the argument *name* if *value* is no number or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} takes a number of seconds, not {reprlib.repr(value)}")
    if math.isnan(value) or value > INT32_MAX / 1000:
        raise ConfigurationError(
            f"{name}={value} is out of range: at most {INT32_MAX // 1000:,} seconds are allowed"
        )
    return max(0.0, float(value))


def pause(value: Any, name: str) -> float:
    """Return *value*, a pause in seconds, as a float. Raise an error that names the argument *name* if
    *value* is no number, too large or negative."""
    found = seconds(value, name)
    if value < 0:
        raise ConfigurationError(f"{name}={value} is negative; give a pause in seconds, such as 0.5")
    return found


def seconds_or_none(value: Any, name: str) -> float | None:
    """Return *value*, a time to wait in seconds, as a float. None means no limit, and stays None. Raise a
    TypeError that names the argument *name* for anything else."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError(f"{name} takes a number of seconds, or None, not {reprlib.repr(value)}")
    return None if value is None else float(value)


def mapping(value: Any, name: str, example: str) -> Mapping[Any, Any]:
    """Return *value* if it is a mapping. Otherwise raise a TypeError that names the argument *name* and shows
    *example*, a mapping in Python code."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} takes a mapping such as {example}, not {reprlib.repr(value)}")
    return value


def settings(value: Any, name: str) -> dict[str, str]:
    """Return *value*, a mapping with the settings of a topic, with all its values as text, as brokers expect
    them: True becomes ``true``. Errors name the argument *name*."""
    return {
        text(key, f"a name in {name}"): _setting(each, f"{name}[{key!r}]")
        for key, each in mapping(value, name, "{'retention.ms': '60000'}").items()
    }


def _setting(value: Any, name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else text(value, name)


def partition(value: Any, name: str) -> TopicPartition:
    """Return *value* as a TopicPartition. A tuple ``(topic, number)`` is accepted too. Raise an error that
    names the argument *name* for anything else."""
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str):
        raise TypeError(f"{name} takes a {_PARTITION}, not {reprlib.repr(value)}")
    topic = text(value[0], f"the topic in {name}")
    return TopicPartition(topic, whole(value[1], f"the partition of topic {topic!r} in {name}"))


def partitions(values: Any, name: str) -> list[TopicPartition]:
    """Return *values*, an iterable of partitions, as a list of TopicPartitions. Raise an error that names the
    argument *name* for anything else."""
    if isinstance(values, str | bytes | TopicPartition) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} takes several partitions, such as [{_PARTITION}], not {reprlib.repr(values)}"
        )
    return [partition(each, name) for each in values]


def several(values: Any, name: str) -> Iterable[Any]:
    """Return *values* if it is an iterable of several values. Otherwise raise a TypeError that names the
    argument *name*.

    Text and bytes are not accepted, because they count as one value. A mapping is not accepted, because only
    its keys would be used.
    """
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"{name} takes a list or another iterable, not {reprlib.repr(values)}")
    return values


def positions(values: Any, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return positions to commit from *values*, which maps partitions to offsets or OffsetAndMetadata. Errors
    name the argument *name*."""
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
