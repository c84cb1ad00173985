"""The thread that assigns and revokes partitions, so that the group thread can send heartbeats meanwhile."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

__all__ = ["RebalanceThread"]


class RebalanceThread:
    """A thread that runs functions in order, and calls *done* after each of them. *done* must not block."""

    def __init__(self, name: str, done: Callable[[], None]) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = queue.SimpleQueue()
        self._done = done
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def call(self, function: Callable[[], None]) -> "Future[None]":
        """Call *function* on this thread. Return a future that is done when *function* has returned or
        raised."""
        result: Future[None] = Future()
        self._calls.put((function, result))
        return result

    def end(self) -> None:
        """Make the thread end after the function that it runs now. This call does not wait for the end."""
        self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            function, result = item
            try:
                function()
            except Exception as error:
                result.set_exception(error)
            else:
                result.set_result(None)
            del item, function, result  # they hold on to an assignment and its partitions
            self._done()
