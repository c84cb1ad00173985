"""The waiting that dealing with one broker takes: connecting to it, and writing to its socket.

A broker that is frozen or cut off makes whoever writes to it wait until the request's time-out. The sender
must not: it has the other brokers to serve, and time-outs to watch.
"""

import logging
import queue
import threading
from collections.abc import Callable

__all__ = ["Courier"]

log = logging.getLogger("pyklient.producer")


class Courier:
    """A thread that runs the errands it is given, in order. Starts with the first.

    An errand is a function that reports its own failures. Whoever gives errands sees to it that they stay
    few: the sender never has more than ``max_in_flight_requests_per_connection`` on the way to a broker.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._errands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, errand: Callable[[], None]) -> None:
        """Have *errand* run on the courier's thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._errands.put(errand)

    def stop(self) -> None:
        """End after the errands given so far."""
        self._errands.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        if self._thread is None:
            return True
        self._thread.join(max(timeout, 0.0))
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None:
            try:
                errand()
            except Exception:
                log.exception("%s: an errand failed in a way that nobody foresaw", self._name)
            del errand
