"""The rule that only one loop at a time reads a stream.

When a loop asks for the next message, the previous message is done. If two threads read one stream, each
would mark the other thread's messages as done, and messages that nobody has handled would be committed. So a
stream has one active loop, in the thread that made its last step (a call of ``next``). Another thread gets an
error as long as the loop is active. A loop is active until it ends or is closed, until the program no longer
refers to it, or until its thread ends.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TypeVar

from pyklient.consumer.stream.chunk_reader import ChunkReader
from pyklient.errors import ForkError, StreamInUseError

__all__ = ["Loop", "ActiveLoop"]

_T = TypeVar("_T")


class _Hold:
    """The right of a loop to read its stream. If *moves* is true, any thread may make the loop's next step.
    The right is a separate object, so that the Loop itself can be garbage-collected.
    """

    __slots__ = ("moves", "thread")

    def __init__(self, *, moves: bool) -> None:
        self.moves = moves
        self.thread = threading.current_thread()


class ActiveLoop:
    """The loop that reads one stream now. *lock*, the lock of the stream, guards the ActiveLoop.

    When the loop ends, the ActiveLoop calls *left* with the lock held. In a forked child process, it calls
    *cut* without any lock, so that no more messages are handed out there.
    """

    def __init__(
        self,
        lock: threading.RLock,
        left: Callable[[], None],
        cut: Callable[[], None],
        name: Callable[[], str],
    ) -> None:
        self._lock = lock
        self._left = left
        self._cut = cut
        self._name = name
        self._hold: _Hold | None = None
        self._stepping: threading.Thread | None = None
        self.forked = False
        _active_loops.add(self)

    @property
    def thread(self) -> threading.Thread | None:
        """The thread of the active loop. None if there is no active loop."""
        hold = self._hold
        return None if hold is None else hold.thread

    def check_not_forked(self) -> None:
        """Raise ForkError in a child of the process that made the stream."""
        if self.forked:
            raise ForkError(
                "this stream was made before a fork and is read in the parent process; create a new "
                "ConsumerConnector, or call read() again, in the child process"
            )

    def disown(self) -> None:
        """Leave the stream to the parent process. This is called in a forked child process, and takes no
        lock."""
        self.forked = True
        self._cut()

    def begin_step(self, hold: _Hold) -> None:
        """Begin a step (one call of ``next``) in this thread. *hold* stands for the loop that reads.

        Raises StreamInUseError, and changes nothing, if another thread reads the stream.
        """
        self.check_not_forked()
        me = threading.current_thread()
        with self._lock:
            other = self._hold
            self._check_not_read(me, other is not hold or not hold.moves)
            hold.thread = me
            self._hold = hold
            self._stepping = me

    def check_not_read_elsewhere(self) -> None:
        """Raise StreamInUseError if another thread makes a step now, or if the active loop belongs to another
        thread and may not move to this one. The stream's lock must be held."""
        self._check_not_read(threading.current_thread(), self._hold is None or not self._hold.moves)

    def _check_not_read(self, me: threading.Thread, stays: bool) -> None:
        """Raise StreamInUseError if a thread other than *me* makes a step now. If *stays* is true, raise it
        also if the active loop belongs to a thread other than *me*.

        The stream's lock must be held.
        """
        if (stepping := self._stepping) is not None and stepping is not me and stepping.is_alive():
            raise self._in_use_error(stepping)
        other = self._hold
        if other is not None and stays and other.thread is not me and other.thread.is_alive():
            raise self._in_use_error(other.thread)

    def end_step(self) -> None:
        """End the step that this thread makes. Its loop stays active."""
        if self._stepping is threading.current_thread():
            self._stepping = None

    def leave(self, hold: _Hold | None = None) -> None:
        """End the loop whose right to read is *hold*. Without *hold*, end the active loop of this thread."""
        if self.forked:
            return  # a lock that another thread held at the fork is never released in the child
        with self._lock:
            mine = self._hold
            if mine is not None and (
                mine is hold or (hold is None and mine.thread is threading.current_thread())
            ):
                self._hold = None
            self._left()

    def _in_use_error(self, thread: threading.Thread) -> StreamInUseError:
        return StreamInUseError(
            f"{self._name()} is being read by thread {thread.name!r}, and only one thread at a time can read "
            f"it: ask create_message_streams for one stream per thread, or end that thread's loop first "
            f"(break, or call close() on the iterator that batches() returned)"
        )


class Loop(Iterator[_T]):
    """The iterator behind a loop over a stream. It ends when the stream ends, after an exception, and when
    :meth:`close` is called.

    A step is one call of ``next``. If *moves* is true, any thread may make the next step when the last step
    is done. Otherwise, all steps must be made by the thread of the first step. *step* returns the message or
    batch to hand out, or None at the end. *reader* is the ChunkReader from which *step* gets batches. If
    Ctrl-C or an exception interrupts a step, the loop returns the batch to *reader*.
    """

    def __init__(
        self,
        active_loop: ActiveLoop,
        step: Callable[[], _T | None],
        *,
        moves: bool = False,
        reader: ChunkReader | None = None,
    ) -> None:
        self._active_loop = active_loop
        self._step = step
        self._reader = reader
        self._hold = _Hold(moves=moves)
        self._closed = False
        self.keeps: object = None
        """An object to which this loop keeps a reference, so that it lives as long as the loop."""

    def __next__(self) -> _T:
        if self._closed:
            raise StopIteration
        reader, begun, asks = self._reader, False, 0
        try:
            self._active_loop.begin_step(self._hold)
            asks = 0 if reader is None else reader.asks
            begun = True
            found = self._step()
            self._active_loop.end_step()
            if found is not None:
                return found  # with no call in between, at which an interrupt would lose it
        except BaseException:
            if begun:
                if (
                    reader is not None and reader.asks != asks
                ):  # otherwise the batch in hand is the last step's
                    reader.return_unread()
                self.close()
            self._active_loop.end_step()
            raise
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the loop. Another loop may then begin, in any thread.

        Until another loop begins, the message or batch in hand stays in hand.
        """
        self._closed = True
        self._active_loop.leave(self._hold)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


_active_loops: "weakref.WeakSet[ActiveLoop]" = weakref.WeakSet()


def _mark_forked() -> None:
    for active_loop in list(_active_loops):
        active_loop.disown()


os.register_at_fork(after_in_child=_mark_forked)
