"""ParallelConsumer, which hands the messages of topics to several workers at the same time."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeAlias

from pyklient import argument_checks
from pyklient.consumer.parallel.key_queues import Task
from pyklient.consumer.parallel.parallel_stream import ParallelStream
from pyklient.errors import ClosedError
from pyklient.kernel import Message

__all__ = ["ErrorHandler", "Handler", "ParallelConsumer", "check_handlers"]

log = logging.getLogger("pyklient.consumer")

Handler: TypeAlias = Callable[[Message], object]
ErrorHandler: TypeAlias = Callable[[Message, Exception], object]
_TICK = 1.0


def check_handlers(handler: Handler, on_error: ErrorHandler | None, *, processes: bool) -> None:
    """Raise TypeError if *handler* or *on_error* is not callable, or is a coroutine function. If *processes*
    is true, also raise TypeError if *handler* cannot be pickled."""
    if not callable(handler):
        raise TypeError(f"handler must be a function that takes a message, not {handler!r}")
    if not (on_error is None or callable(on_error)):
        raise TypeError(f"on_error must be a function that takes a message and an error, not {on_error!r}")
    argument_checks.plain_function(handler, "handler")
    argument_checks.plain_function(on_error, "on_error")
    if processes:
        from pyklient.consumer.parallel.worker_process import check_picklable

        check_picklable(handler)


class ParallelConsumer:
    """Calls a handler for each message of some topics, in several threads or processes at the same time.

    ``ConsumerConnector.parallel`` makes it. Messages of one partition with the same key are handled one after
    another, in their order. A message is done when its handler has returned. A commit names the first message
    that is not done, and lists the later messages that are done. So no message is handed out again when it is
    done.
    """

    def __init__(
        self,
        stream: ParallelStream,
        check_open: Callable[[], None],
        handler: Handler,
        workers: int,
        processes: bool,
        on_error: ErrorHandler | None,
    ) -> None:
        self._stream = stream
        self._check_open = check_open  # the connector's own, which keeps that open as long as this is there
        self._handler = handler
        self._workers = workers
        self._processes = processes
        self._on_error = on_error
        self._begun = False
        self._stopping = False
        self._error: BaseException | None = None
        # Not an event: stop() may be called in a signal handler, at any step of the code that waits.
        self._ended: SimpleQueue[None] = SimpleQueue()

    def run(self) -> None:
        """Handle messages until :meth:`stop` is called or the connector is closed.

        After that, or after an exception, this method calls no more handlers, and waits for the handlers that
        are still running. Raises the exception of a handler, unless ``on_error`` handles it, and the
        exceptions that a loop over a stream raises. The message whose handler failed is not committed. This
        method can be called once.
        """
        self._check_open()
        if self._begun:
            raise ClosedError("this ParallelConsumer has run already; create another ConsumerConnector")
        self._begun = True
        threads = [threading.Thread(target=self._read, name="pyklient-parallel-reader", daemon=True)]
        for number in range(self._workers):
            thread = threading.Thread(target=self._work, name=f"pyklient-worker-{number}", daemon=True)
            threads.append(thread)
        try:
            for thread in threads:
                thread.start()
            while not self._stopping:
                with suppress(Empty):
                    self._ended.get(timeout=_TICK)
        finally:
            self.stop()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_TICK)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Make :meth:`run` return as soon as the workers have finished the messages that they handle now.

        This method does not wait for that. Any thread may call it, even in a handler or a signal handler.
        Messages that no handler has got yet are handed out to the next member that reads their partitions.
        """
        self._stopping = True
        self._stream.queues.stop()
        self._ended.put(None)

    def _read(self) -> None:
        try:
            while not self._stopping and self._stream.read_some():
                pass
        except BaseException as error:
            self._fail(error)
        self.stop()

    def _work(self) -> None:
        handle = self._handler
        process = None
        try:
            if self._processes:
                from pyklient.consumer.parallel.worker_process import WorkerProcess

                process = WorkerProcess(threading.current_thread().name, handle)
            while (task := self._stream.queues.next()) is not None:
                self._handle(task, process or handle)
        except BaseException as error:
            self._fail(error)
        finally:
            if process is not None:
                process.close()

    def _handle(self, task: Task, handle: Handler) -> None:
        completed = False
        try:
            try:
                handle(task.message)
            except Exception as error:
                if self._on_error is None:
                    raise
                self._on_error(task.message, error)
            completed = True
        except BaseException as error:
            message = task.message
            error.add_note(f"message: {message.topic}-{message.partition} at offset {message.offset}")
            self._fail(error)
        finally:
            self._stream.queues.finish(task, completed=completed)

    def _fail(self, error: BaseException) -> None:
        """Let :meth:`run` raise *error*. If an earlier handler has failed, ``run`` raises the earlier error,
        and *error* is only logged."""
        self.stop()
        if self._error is None:
            self._error = error
        else:
            log.error("another handler failed while the workers were stopping: %s", error, exc_info=error)
