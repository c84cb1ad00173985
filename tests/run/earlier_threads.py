"""Exceptions in threads that a test has left behind are no failures of the tests after it.

pytest blames the test that runs when an exception ends a thread. A thread of another client may end long
after its test: when its broker has stopped, or when a time-out of minutes is over. Such an exception is only
printed. An exception in a thread that the test itself has started is a failure of the test.
"""

import threading
import weakref
from collections.abc import Callable

import pytest

__all__ = ["EarlierThreads"]


class EarlierThreads:
    """Knows which threads ran before the current test began."""

    def __init__(self) -> None:
        self._earlier: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._fail: Callable[[threading.ExceptHookArgs], object] = threading.excepthook

    def pytest_sessionstart(self) -> None:
        """Put a function before that of pytest, which fails the test. pytest removes both at the end."""
        self._fail, threading.excepthook = threading.excepthook, self._failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._earlier.update(threading.enumerate())

    def _failed(self, exception: threading.ExceptHookArgs) -> None:
        if exception.thread in self._earlier:
            threading.__excepthook__(exception)
        else:
            self._fail(exception)
