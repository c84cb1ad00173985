"""A thread for tasks that wait for a broker, so that the sender's thread does not have to wait."""

import logging
import queue
import threading
from collections.abc import Callable

__all__ = ["BlockingWorker"]

log = logging.getLogger("pyklient.producer")


class BlockingWorker:
    """Runs tasks in order on a thread of its own, which starts with the first task.

    A frozen or unreachable broker blocks the thread that writes to it until the request times out. The
    sender's thread must not block, because it serves the other brokers and watches the time-outs.

    A task is a function that handles its own failures. BlockingWorker does not limit the number of tasks,
    because the sender has at most ``max_in_flight_requests_per_connection`` requests in flight to a broker.
    If no thread can be started (a limit of the system, or the end of the program), ``run`` runs the task
    itself.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, task: Callable[[], None]) -> None:
        """Run *task* on the worker's thread, or in the calling thread if no thread can be started."""
        if self._thread is None and not self._start():
            self._run(task)
        else:
            self._tasks.put(task)

    def stop(self) -> None:
        """End the thread when all tasks that were passed to ``run`` so far have ended."""
        self._tasks.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end. Return True if it has ended."""
        if self._thread is None:
            return True
        self._thread.join(max(timeout, 0.0))
        return not self._thread.is_alive()

    def _start(self) -> bool:
        """Start the thread if it is not running. Return False if no thread can be started."""
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.info(
                "thread %s cannot be started (%s). The sender's thread runs the tasks of that thread. "
                "While such a task waits for a broker, the sender sends no batches",
                self._name,
                error,
            )
            return False
        self._thread = thread
        return True

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._run(task)
            del task

    def _run(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:
            log.exception("a task of thread %s failed unexpectedly; please report this", self._name)
