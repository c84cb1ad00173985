"""Turns the values of properties, which are text in a file, into numbers, booleans and checked text.

Each function returns one that takes the key and the value of a property. The inner function raises
ConfigurationError, with the key, if it does not accept the value.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pyklient.config.option import INT32_MAX
from pyklient.errors import ConfigurationError

__all__ = ["Parse", "boolean", "name_characters", "one_of", "text", "whole"]

Parse: TypeAlias = Callable[[str, object], Any]
"""A function that takes the key and the value of a property, and returns the value as its type."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]")


def text(key: str, value: object) -> str:
    """Return *value*, which must be text."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{key} takes text, not {value!r}")
    return value


def boolean(key: str, value: object) -> bool:
    """Return whether *value* is ``true``. Only ``true`` and ``false`` are booleans, and Python's own."""
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise ConfigurationError(f"{key}={value!r} is not a boolean; write true or false, in small letters")
    return value == "true"


def whole(low: int, high: int = INT32_MAX) -> Parse:
    """Return a function that accepts whole numbers from *low* to *high*."""

    def parse(key: str, value: object) -> int:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{key} takes a whole number, not {value!r}")
        if not low <= value <= high:
            raise ConfigurationError(f"{key}={value} is out of range: {low} to {high}")
        return value

    return parse


def one_of(*choices: str, fold: bool = False) -> Parse:
    """Return a function that accepts one of *choices*; in any case of the letters if *fold* is true."""

    def parse(key: str, value: object) -> str:
        found = value.lower() if fold and isinstance(value, str) else value
        if not isinstance(found, str) or found not in choices:
            raise ConfigurationError(f"{key}={value!r} is not one of {', '.join(map(repr, choices))}")
        return found

    return parse


def name_characters(key: str, value: object) -> str:
    """Return *value*, which may have only the characters that names have in Kafka."""
    found = text(key, value)
    if (wrong := _NOT_IN_NAMES.search(found)) is not None:
        raise ConfigurationError(
            f"{key}={found!r} contains {wrong.group()!r}; use only ASCII letters, digits, '.', '_' and '-'"
        )
    return found
