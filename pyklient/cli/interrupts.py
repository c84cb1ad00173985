"""Ctrl-C and termination at a moment when nothing is half done."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final

__all__ = ["deferred"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let the block finish before Ctrl-C or a termination takes effect. A second one does not wait.

    On the main thread only, where Python runs handlers.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    came: list[int] = []

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def remember(number: int, _frame: FrameType | None) -> None:
        if came:
            restore()
            signal.raise_signal(number)
        came.append(number)

    for number in _SIGNALS:
        signal.signal(number, remember)
    try:
        yield
    finally:
        restore()
    if came:
        signal.raise_signal(came[0])
