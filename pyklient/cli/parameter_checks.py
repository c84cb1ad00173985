"""Checks of command-line parameters that several commands use."""

import math
import os
from collections.abc import Callable
from typing import Any

import click

from pyklient import argument_checks

__all__ = ["checked", "seconds", "separator", "text", "topic_name"]


def checked(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a click callback that applies *check* to a parameter, or to each value of a repeated parameter.

    The command gets what *check* returns. If *check* raises ValueError, the user gets its message as an error
    in the command line.
    """

    def callback(_context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
        try:
            if isinstance(given, tuple):
                return tuple(map(check, given))
            return None if given is None else check(given)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def text(given: str) -> str:
    """Return *given*, an argument of the command line, if its bytes are UTF-8. Otherwise raise ValueError."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{given!a} is not UTF-8") from None
    return given


def topic_name(given: str) -> str:
    """Return *given* if it is a valid name of a topic. Otherwise raise ConfigurationError, which is a
    ValueError."""
    return argument_checks.topic_name(given)


def separator(given: str) -> bytes:
    """Return the bytes that *given* has on the command line. Raises ValueError if *given* is empty."""
    if not given:
        raise ValueError("the separator must not be empty")
    return os.fsencode(given)


def seconds(given: float) -> float:
    """Return *given* if it is a number. Raises ValueError for NaN, which click would accept."""
    if math.isnan(given):
        raise ValueError("nan is not a number of seconds")
    return given
