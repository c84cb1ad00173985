"""One loop over a stream at a time: who reads it now, and what it takes to be the next.

To ask for the next message says that the one before is done with. Two threads at one stream would say so
of each other's messages, and what nobody has handled would be committed. So a stream has an owner, which
is the loop under way and the thread that took its last step, and another thread is refused until that
loop has ended, was closed or dropped, or its thread is gone.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TypeVar

from pyklient.errors import ForkError, StreamInUseError

__all__ = ["Loop", "Ownership"]

_T = TypeVar("_T")


class _Hold:
    """A loop's hold on its stream. Apart from the Loop, which must be free to be dropped."""

    __slots__ = ("moves", "thread")

    def __init__(self, *, moves: bool) -> None:
        self.moves = moves
        self.thread = threading.current_thread()


class Ownership:
    """The loop under way over one stream, under its *lock*; *left* is called, with that, when it ends.

    *cut* is called in a child of the process, without any lock: nothing more is to be handed out there.
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
        _ownerships.add(self)

    @property
    def thread(self) -> threading.Thread | None:
        """The thread of the loop under way."""
        hold = self._hold
        return None if hold is None else hold.thread

    def refuse_fork(self) -> None:
        """Raises ForkError in a child of the process that the stream was made in."""
        if self.forked:
            raise ForkError(
                "this stream was made before a fork and is read in the parent process; make a new "
                "ConsumerConnector, or call read() again, in the child"
            )

    def disown(self) -> None:
        """In a child of the process, whose locks nobody may ever release: the stream is the parent's."""
        self.forked = True
        self._cut()

    def take(self, hold: _Hold) -> None:
        """The loop of *hold* steps in this thread. Raises StreamInUseError, having changed nothing."""
        self.refuse_fork()
        me = threading.current_thread()
        with self._lock:
            other = self._hold
            self._refuse_if_read(other is not hold or not hold.moves)
            hold.thread = me
            self._hold = hold
            self._stepping = me

    def refuse_others(self) -> None:
        """Raises StreamInUseError where this thread could not go on with the loop under way; with the lock
        held, none begins meanwhile."""
        self._refuse_if_read(self._hold is None or not self._hold.moves)

    def _refuse_if_read(self, stays: bool) -> None:
        """With the lock held: raises StreamInUseError if another thread steps, or has the loop under way and
        that *stays* there."""
        me = threading.current_thread()
        if (stepping := self._stepping) is not None and stepping is not me and stepping.is_alive():
            raise self._refusal(stepping)
        other = self._hold
        if other is not None and stays and other.thread is not me and other.thread.is_alive():
            raise self._refusal(other.thread)

    def rest(self) -> None:
        """This thread's step is done; its loop goes on."""
        if self._stepping is threading.current_thread():
            self._stepping = None

    def leave(self, hold: _Hold | None = None) -> None:
        """The loop of *hold* has ended; without one, whichever loop of this thread is under way."""
        if self.forked:
            return  # a lock that another thread held at the fork is never released in the child
        with self._lock:
            mine = self._hold
            if mine is not None and (
                mine is hold or (hold is None and mine.thread is threading.current_thread())
            ):
                self._hold = None
            self._left()

    def _refusal(self, thread: threading.Thread) -> StreamInUseError:
        return StreamInUseError(
            f"{self._name()} is being read by thread {thread.name!r}, and one thread at a time can: ask "
            f"create_message_streams for a stream for each thread, or end that loop first (break, or close() "
            f"of what batches() returned)"
        )


class Loop(Iterator[_T]):
    """The iterator behind a loop over a stream: a step at a time, until it ends, raises or is closed.

    It stays with the thread of its first step, unless it *moves*: then any thread may take the next step,
    when none is under way. *step* → what to hand out, None at the end; *take_back* is called where that has
    reached nobody, because the step was interrupted (Ctrl-C).
    """

    def __init__(
        self,
        ownership: Ownership,
        step: Callable[[], _T | None],
        *,
        moves: bool = False,
        take_back: Callable[[], None] | None = None,
    ) -> None:
        self._ownership = ownership
        self._step = step
        self._take_back = take_back
        self._hold = _Hold(moves=moves)
        self._closed = False
        self.keeps: object = None
        """What must not go as long as the loop is there."""

    def __next__(self) -> _T:
        if self._closed:
            raise StopIteration
        refused = True
        try:
            self._ownership.take(self._hold)
            refused = False
            found = self._step()
            self._ownership.rest()
            if found is not None:
                return found  # with no call in between, at which an interrupt would lose it
        except BaseException:
            if not refused:
                if self._take_back is not None:
                    self._take_back()
                self.close()
            self._ownership.rest()
            raise
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the loop; another may begin, in any thread. What is in hand stays in hand until then."""
        self._closed = True
        self._ownership.leave(self._hold)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


_ownerships: "weakref.WeakSet[Ownership]" = weakref.WeakSet()


def _mark_forked() -> None:
    for ownership in list(_ownerships):
        ownership.disown()


os.register_at_fork(after_in_child=_mark_forked)
