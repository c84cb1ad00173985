"""Turns the values of properties, which are text in a file, into numbers, booleans and checked text.

A parser takes the key and the text of a property, and returns the value, for example a number. It raises
ConfigurationError, with the key, if it does not accept the value. The functions of this module are parsers,
or return a parser.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from pyklient.config.option_checks import INT32_MAX
from pyklient.errors import ConfigurationError

__all__ = [
    "ANY_NUMBER",
    "Parse",
    "StaticBroker",
    "anything",
    "boolean",
    "broker_addresses",
    "codec",
    "name_characters",
    "name_value_pairs",
    "one_of",
    "static_brokers",
    "text",
    "topic_list",
    "whole",
]

Parse: TypeAlias = Callable[[str, object], Any]
"""A function that takes the key and the value of a property, and returns the value, converted to its type."""


class StaticBroker(NamedTuple):
    """A broker that ``broker.list`` names, as ``id:host:port``."""

    id: int
    host: str
    port: int


_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]")


def text(key: str, value: object) -> str:
    """Return *value*. Raises ConfigurationError, which names *key*, if *value* is not text."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{key} takes text, not {value!r}")
    return value


def boolean(key: str, value: object) -> bool:
    """Return True if *value* is ``true``, and False if it is ``false``. A bool is returned as it is. Any
    other value is an error."""
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise ConfigurationError(f"{key}={value!r} is not a boolean; write true or false, in small letters")
    return value == "true"


def whole(low: int, high: int = INT32_MAX) -> Parse:
    """Return a function that accepts whole numbers from *low* to *high*."""

    def parse(key: str, value: object) -> int:
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{key} takes a whole number, not {value!r}")
        if not low <= value <= high:
            raise ConfigurationError(f"{key}={value} is out of range; choose a number from {low} to {high}")
        return value

    return parse


ANY_NUMBER: Final = whole(-INT32_MAX - 1)
"""A parser that accepts every whole number that a Java ``int`` can have."""


def one_of(*choices: str, fold: bool = False) -> Parse:
    """Return a function that accepts one of *choices*. If *fold* is true, it accepts them in upper and lower
    case, and returns them in lower case."""

    def parse(key: str, value: object) -> str:
        found = value.lower() if fold and isinstance(value, str) else value
        if not isinstance(found, str) or found not in choices:
            near = {"earliest": "smallest", "beginning": "smallest", "latest": "largest", "end": "largest"}
            meant = near.get(found) if isinstance(found, str) else None
            raise ConfigurationError(
                f"{key}={value!r} is not one of {', '.join(map(repr, choices))}"
                + (f"; did you mean {meant!r}?" if meant in choices else "")
            )
        return found

    return parse


def name_characters(key: str, value: object) -> str:
    """Return *value*, which may contain only characters that Kafka allows in names."""
    found = text(key, value)
    if (wrong := _NOT_IN_NAMES.search(found)) is not None:
        raise ConfigurationError(
            f"{key}={found!r} contains {wrong.group()!r}; use only ASCII letters, digits, '.', '_' and '-'"
        )
    return found


def anything(key: str, value: object) -> object:
    """Return *value* without a check: it is text, or an object that the program passes."""
    return value


def codec(*names: str) -> Parse:
    """Return a function that accepts one of the compression codecs *names* by its name or by its number (its
    index in *names*), and returns its name."""

    def parse(key: str, value: object) -> str:
        written = str(value).lower()
        number = int(written) if _NUMBER.fullmatch(written) else None
        if number is not None and 0 <= number < len(names):
            return names[number]
        if written not in names:
            known = ", ".join(f"{number} or {name}" for number, name in enumerate(names))
            raise ConfigurationError(f"{key}={value!r} is not a codec; choose one of {known}")
        return written

    return parse


def topic_list(key: str, value: object) -> frozenset[str]:
    """Return the names in *value*, which are separated by commas."""
    return frozenset(_parts(text(key, value)))


def name_value_pairs(key: str, value: object) -> dict[str, str]:
    """Return the pairs in *value*, such as ``a=1,b=2``, as a dictionary. A dictionary is returned as it
    is."""
    if isinstance(value, dict):
        return value
    pairs = [each.split("=") for each in _parts(text(key, value))]
    if any(len(pair) != 2 for pair in pairs):
        raise ConfigurationError(f"{key}={value!r} is not of the form name=value,name=value")
    return {name.strip(): content.strip() for name, content in pairs}


def static_brokers(key: str, value: object) -> tuple[StaticBroker, ...]:
    """Return the brokers in *value*: a list of ``id:host:port``, such as ``0:one:9092,1:two:9092``."""
    found: dict[int, StaticBroker] = {}
    for each in _parts(text(key, value)):
        number, _, address = each.partition(":")
        host, _, port = address.rpartition(":")
        if not (_NUMBER.fullmatch(number) and host.strip() and re.fullmatch("[0-9]{1,5}", port)):
            raise ConfigurationError(
                f"{key}: {each!r} is not of the form id:host:port, such as 1:localhost:9092"
            )
        broker_id = whole(0)(f"{key}: the id of {each!r}", number)
        if broker_id in found:
            raise ConfigurationError(f"{key} names broker {broker_id} twice; give each broker a different id")
        whole(1, 65_535)(f"{key}: the port of {each!r}", port)
        found[broker_id] = StaticBroker(broker_id, host.strip("[]"), int(port))
    if not found:
        raise ConfigurationError(f"{key} is empty; name at least one broker, such as 1:localhost:9092")
    return tuple(found.values())


def broker_addresses(key: str, value: object) -> str:
    """Return *value*, a list of ``host:port``. Brokers with ids, as in ``broker.list``, are an error."""
    written = text(key, value)
    for each in _parts(written):
        if (found := re.fullmatch(r"[0-9]+:([^:\[\]]+:[0-9]+)", each)) is not None:
            raise ConfigurationError(
                f"{key}: {each!r} begins with the id of a broker, as in Kafka 0.7; since 0.8, write "
                f"{found.group(1)!r}"
            )
    return written


def _parts(written: str) -> list[str]:
    return [each for each in re.split(r"\s*,\s*", written.strip()) if each]
