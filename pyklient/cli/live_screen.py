"""Shows frames again and again: on a terminal in place of each other, in a pipe one after the other."""

import itertools
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from pyklient.cli.cluster_options import naming_our_timeout
from pyklient.cli.parameter_checks import checked, seconds
from pyklient.cli.standard_streams import complain
from pyklient.errors import KafkaError

__all__ = ["frame_options", "local_time", "watch"]

_T = TypeVar("_T")
_Command = TypeVar("_Command", bound=Callable[..., Any])

_CLEAR: Final = "\x1b[2J\x1b[H"
"""The ANSI sequences that clear the screen and move the cursor to its start."""


def frame_options(command: _Command) -> _Command:
    """Add ``--interval`` and ``-n`` to a command, which gets them as ``interval`` and ``frames``."""
    interval = click.option(
        "--interval",
        metavar="SECONDS",
        type=click.FloatRange(0.1, 3600),
        callback=checked(seconds),
        default=2.0,
        show_default=True,
        help="Time from one frame to the next.",
    )
    frames = click.option(
        "-n", "--frames", type=click.IntRange(min=1), help="End after so many frames, and not with Ctrl-C."
    )
    return interval(frames(command))


def local_time(seconds: float) -> str:
    """Return *seconds*, a time since 1970, as text: the date and the time of day in the local time zone."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")


def watch(read: Callable[[], _T], show: Callable[[_T], None], interval: float, frames: int | None) -> None:
    """Call *read* and *show* every *interval* seconds, *frames* times, or without end if *frames* is None.

    If a later frame cannot be read, print the error and try again. Raises the error of the first frame, and
    errors that are not retriable.
    """
    redraws = sys.stdout.isatty() and frames != 1
    for number in itertools.count(1):
        began = time.monotonic()
        try:
            found = read()
        except KafkaError as error:
            if number == 1 or not error.retriable:
                raise
            complain(f"{naming_our_timeout(str(error))}; trying again")
        else:
            if redraws:
                sys.stdout.write(_CLEAR)
            show(found)
            sys.stdout.flush()
        if number == frames:
            return
        time.sleep(max(0.0, began + interval - time.monotonic()))
