"""Handles signals, so that a command ends cleanly after Ctrl-C, SIGTERM and SIGHUP."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

__all__ = ["deferred", "ended_by_signals"]

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_SIGNALS: Final = (signal.SIGINT, *_ENDING)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise SystemExit in the ``with`` block. The exit code is 128 plus the signal's
    number.

    A signal that the process ignores, as under ``nohup``, stays ignored.
    """
    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let the ``with`` block finish before Ctrl-C, SIGTERM or SIGHUP takes effect.

    A second signal takes effect at once. Only the main thread may use this function, because Python runs
    signal handlers there.
    """
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in found.items() if handler not in (None, signal.SIG_IGN)}
    came: list[int] = []

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def remember(number: int, _frame: FrameType | None) -> None:
        if came:
            restore()
            signal.raise_signal(number)
        came.append(number)

    for number in before:
        signal.signal(number, remember)
    try:
        yield
    finally:
        restore()
    if came:
        signal.raise_signal(came[0])


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
