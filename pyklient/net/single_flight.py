"""Lets only one thread at a time make an attempt for a key. Other threads that need the same result wait for
that attempt."""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

from pyklient.errors import KafkaError, for_another

__all__ = ["SingleFlight"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """The attempts that threads are making at the moment, by key. Safe to use from several threads."""

    def __init__(self) -> None:
        self._attempts: dict[K, Future[T]] = {}

    def run(
        self, key: K, attempt: Callable[[], T], deadline: float, is_shared: Callable[[KafkaError], bool]
    ) -> T:
        """Call *attempt* and return its result, or wait for the result of another thread's attempt for *key*.

        If the other thread's attempt fails, raise its error if *is_shared* returns True for that error, or if
        *deadline* (in seconds of ``time.monotonic``) has passed. Otherwise, this thread makes an attempt of
        its own. Raises TimeoutError if the other thread has no result by *deadline*.
        """
        mine: Future[T] = Future()
        while (theirs := self._attempts.setdefault(key, mine)) is not mine:
            try:
                return theirs.result(min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX))
            except KafkaError as error:
                if is_shared(error) or time.monotonic() >= deadline:
                    raise for_another(error) from error.__cause__
            except CancelledError:  # the other thread was interrupted
                if time.monotonic() >= deadline:
                    raise TimeoutError from None
        try:
            result = attempt()
        except BaseException as error:
            del self._attempts[key]
            if isinstance(error, KafkaError):
                mine.set_exception(error)
            else:
                mine.cancel()
            raise
        del self._attempts[key]
        mine.set_result(result)
        return result

    def wait(self, timeout: float) -> None:
        """Wait for the end of all attempts that are under way, at most *timeout* seconds for each attempt."""
        for attempt in list(self._attempts.values()):
            try:
                attempt.exception(timeout)
            except (TimeoutError, CancelledError):
                continue
