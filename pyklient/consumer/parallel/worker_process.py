"""A child process in which a worker runs its handler."""

import multiprocessing
import pickle
import signal
import traceback
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from pyklient.at_exit import call_at_exit
from pyklient.errors import WorkerProcessError
from pyklient.kernel import Message

__all__ = ["WorkerProcess", "check_picklable"]

_END_TIMEOUT = 5.0


def check_picklable(handler: Callable[[Message], object]) -> None:
    """Raise TypeError if *handler* cannot be sent to another process."""
    try:
        pickle.dumps(handler)
    except Exception as error:
        raise TypeError(
            f"handler {handler!r} cannot be pickled, so no other process can run it ({error}); define it at "
            "the top level of a module, or use threads"
        ) from None


class WorkerProcess:
    """Runs *handler* in a child process, which starts when the first message arrives. Only one thread may use
    it. If the child process dies, the message in hand fails, and the next message starts another process.
    """

    def __init__(self, name: str, handler: Callable[[Message], object]) -> None:
        self._name = name
        self._handler = handler
        self._process: Any = None
        self._pipe: Connection[Any, Any] | None = None

    def __call__(self, message: Message) -> None:
        """Handle *message* in the child process. Raise the exception of the handler, or WorkerProcessError if
        the process dies."""
        pipe = self._pipe or self._start()
        try:
            pipe.send(message)
            error = pipe.recv()
        except (EOFError, OSError) as broken:
            self.close()
            raise WorkerProcessError(
                f"the process that handled {message.topic}-{message.partition} at offset {message.offset} "
                f"ended with exit code {self._process.exitcode}; the next message starts another process"
            ) from broken
        if error is not None:
            raise error

    def close(self) -> None:
        """End the child process. A process that does not end by itself is killed."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.join(_END_TIMEOUT)
            if self._process.is_alive():
                self._process.kill()
                self._process.join(_END_TIMEOUT)

    def _start(self) -> "Connection[Any, Any]":
        # Not by fork: a lock that another thread of this process holds would stay held in the child.
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_handle_all, args=(theirs, self._handler), name=self._name, daemon=True
        )
        self._process.start()
        theirs.close()
        _processes.add(self._process)
        call_at_exit(_kill_all)
        self._pipe = pipe
        return pipe


_processes: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _kill_all() -> None:
    """Kill the child processes that still run when this process exits. They ignore the SIGTERM that
    multiprocessing sends at exit, so multiprocessing would otherwise wait for them."""
    for process in list(_processes):
        process.kill()


def _handle_all(pipe: "Connection[Any, Any]", handler: Callable[[Message], object]) -> None:
    """Call *handler* with each message that comes through *pipe*, until the parent process closes the pipe or
    dies."""
    # A terminal sends SIGINT, and systemd SIGTERM, to all processes. The parent process decides when this one
    # ends, so that the message in hand is finished, and does not count as failed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            handler(message)
        except Exception as error:
            pipe.send(_portable(error))
        else:
            pipe.send(None)


def _portable(error: Exception) -> Exception:
    """Return *error* with its traceback as a note. If it cannot be pickled, return an error with its text."""
    text = "".join(traceback.format_exception(error)).rstrip()
    error.add_note(f"In the worker process:\n{text}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        replacement = WorkerProcessError(f"the handler raised {type(error).__qualname__}: {error}")
        replacement.add_note(f"In the worker process:\n{text}")
        return replacement
    return error
