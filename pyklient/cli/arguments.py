"""What several commands take on their command lines, checked before anything is done."""

import os
import re
from collections.abc import Callable
from typing import Any, Final

import click

__all__ = ["checked", "separator", "text", "topic_name"]

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")


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
    """*given*, if a topic can have that name. How long it may be is the broker's to say."""
    if not given:
        raise ValueError("the name is empty")
    if given in (".", "..") or not _TOPIC.fullmatch(given):
        raise ValueError(f"no topic is called {given!a}: names are of a-z, A-Z, 0-9, '.', '_' and '-'")
    return given


def separator(given: str) -> bytes:
    """The bytes of *given*, as they stand on the command line."""
    if not given:
        raise ValueError("the separator is empty")
    return os.fsencode(given)
