"""The thread on which partitions are assigned and revoked, so that heartbeats go on meanwhile."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

__all__ = ["RebalanceThread"]


class RebalanceThread:
    """A thread that makes calls in order. It calls *done* after each of them, which must not block."""

    def __init__(self, name: str, done: Callable[[], None]) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = queue.SimpleQueue()
        self._done = done
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def call(self, function: Callable[[], None]) -> "Future[None]":
        """Call *function* on this thread. Return a future that is done when it has returned or raised."""
        result: Future[None] = Future()
        self._calls.put((function, result))
        return result

    def end(self) -> None:
        """End the thread after the call that it makes now. Does not wait for that."""
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
