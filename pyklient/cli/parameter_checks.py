"""Checks of command-line parameters that several commands use."""

import math
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from pyklient import argument_checks

__all__ = ["ago", "checked", "moment", "seconds", "separator", "text", "topic_name"]

_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<days>\d{1,6})D)?(?:T(?=.)(?:(?P<hours>\d{1,7})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)


def checked(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a click callback that applies *check* to a parameter, or to each value of a repeated parameter.

    The command gets the value that *check* returns. If *check* raises ValueError, the user sees the message
    of this error, and the command does not run.
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
    """Return the bytes of *given*, as the user typed them on the command line. Raises ValueError if *given*
    is empty."""
    if not given:
        raise ValueError("the separator must not be empty")
    return os.fsencode(given)


def seconds(given: float) -> float:
    """Return *given*, a number of seconds. Raises ValueError if it is NaN, which click itself accepts."""
    if math.isnan(given):
        raise ValueError("nan is not a number of seconds")
    return given


def moment(given: str) -> datetime:
    """Return the time that *given* names. A time without a zone is in UTC, as in Kafka's own tools. Raises
    ValueError if *given* is not a time in the format of ISO 8601."""
    try:
        found = datetime.fromisoformat(given)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found
    except ValueError:
        raise ValueError(f"{given!r} is not a time such as 2025-03-01T00:00:00+00:00") from None


def ago(given: str) -> datetime:
    """Return the present time minus the duration *given*, such as ``PT2H``. Raises ValueError if *given* is
    not a duration of days, hours, minutes and seconds in the format of ISO 8601, or if the time would be
    before the year 1."""
    try:
        return datetime.now().astimezone() - _duration(given)
    except OverflowError:
        raise ValueError(f"{given!r} is too long: the time would be before the year 1") from None


def _duration(given: str) -> timedelta:
    found = _DURATION.fullmatch(given)
    if found is None:
        raise ValueError(f"{given!r} is not a duration such as P1D, PT2H or PT30M")
    return timedelta(**{unit: float(count) for unit, count in found.groupdict().items() if count is not None})
