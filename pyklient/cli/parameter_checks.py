"""What several commands take on their command lines, checked before anything is done."""

import math
import os
from collections.abc import Callable
from typing import Any

import click

from pyklient import argument_checks

__all__ = ["checked", "seconds", "separator", "text", "topic_name"]


def checked(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A click callback that puts an argument, or each of several, through *check*.

    What *check* returns is what the command gets; a ValueError is a wrong call.
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
    """*given*, if it can be sent: a command line is bytes, and not all of them are text."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{given!a} is not UTF-8") from None
    return given


def topic_name(given: str) -> str:
    """*given*, if a topic can have that name. Raises ConfigurationError, a ValueError."""
    return argument_checks.topic_name(given)


def separator(given: str) -> bytes:
    """The bytes of *given*, as they stand on the command line."""
    if not given:
        raise ValueError("the separator is empty")
    return os.fsencode(given)


def seconds(given: float) -> float:
    """*given*, if it is a number: the range that an option has does not say so."""
    if math.isnan(given):
        raise ValueError("nan is no number of seconds")
    return given
