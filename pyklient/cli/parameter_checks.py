"""Checks of command-line parameters that several commands use."""

import math
import os
from collections.abc import Callable
from typing import Any

import click

from pyklient import argument_checks

__all__ = ["checked", "seconds", "separator", "text", "topic_name"]


def checked(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a click callback that applies *check* to a parameter. If the parameter has several values, it
    applies *check* to each of them.

    The command gets the result of *check*. A ValueError becomes an error of the command line.
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
    """Return *given* if it is valid text. The bytes of a command line may not be UTF-8."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{given!a} is not UTF-8") from None
    return given


def topic_name(given: str) -> str:
    """Return *given* if it is a valid name of a topic. Raises ConfigurationError, a ValueError."""
    return argument_checks.topic_name(given)


def separator(given: str) -> bytes:
    """Return the bytes of *given* on the command line."""
    if not given:
        raise ValueError("the separator must not be empty")
    return os.fsencode(given)


def seconds(given: float) -> float:
    """Return *given* unless it is NaN, which click would accept as a number in a range."""
    if math.isnan(given):
        raise ValueError("nan is not a number of seconds")
    return given
