"""The thread of a Producer that runs its sender, and the inbox through which other threads reach it.

The sender's state (queues of partitions and brokers, retries, sequence numbers) is used only with the sender
lock held. Other threads put functions into the inbox. A *pass* of the sender takes the lock, calls the
functions in the inbox, fires due timers and calls ``SenderWork.step``. The sender's thread makes a pass
whenever something has happened, and sleeps until the next timer. When a response arrives, the connection's
reader thread makes a pass itself if the lock is free. So the records are confirmed sooner, because no other
thread has to wake.
"""

import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final

from pyklient.errors import KafkaError
from pyklient.log_events import log_fields
from pyklient.producer.locks import Wakeup, new_sender_lock
from pyklient.producer.threads.timers import NEVER, Timers

__all__ = ["SenderThread", "SenderWork"]

log = logging.getLogger("pyklient.producer")

_NOW: Final = -NEVER
_LONGEST_SLEEP: Final = 60.0
_NAP: Final = 0.02
"""The seconds between two checks for new batches while brokers accept no more requests. This time is much
shorter than any time-out, and much longer than the usual wait for a response."""
_LIVENESS_CHECK: Final = 0.5
"""The seconds after which a waiting thread checks that the sender's thread still runs."""


class SenderWork(ABC):
    """The work that a SenderThread does each time it runs. ``Sender`` implements it."""

    @abstractmethod
    def has_new_batches(self) -> bool:
        """Return True if users' threads have added batches since the last call of ``step``."""

    @abstractmethod
    def is_full(self) -> bool:
        """Return True if nothing can be sent before a response arrives. The arrival makes the sender run
        again."""

    @abstractmethod
    def step(self) -> bool:
        """Collect new batches, and send the batches that can be sent. Return False when there is nothing left
        to do."""

    @abstractmethod
    def end(self, crash: BaseException | None) -> None:
        """Fail the remaining batches and release all resources, because the thread ends.

        *crash* is the exception that ended the thread, or None.
        """


class SenderThread:
    """The sender's thread, its inbox and its timers. Times are ``time.monotonic`` seconds.

    While the brokers accept no more requests, new batches do not wake the thread. When a response arrives,
    the thread looks for new batches. If no response arrives, it looks for new batches after *nap* seconds.

    After something has woken the thread, its next sleep lasts for *lookout* seconds at most, if that is not
    0. A batch that is begun during this sleep does not wake the thread, unless it must be sent before the
    sleep ends. In a program with one short transaction after the other, this saves a change of threads for
    each transaction.
    """

    def __init__(self, name: str, nap: float = _NAP, *, lookout: float = 0.0) -> None:
        self.timers: Final = Timers()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = new_sender_lock()
        self._holder: int | None = None
        """The identifier of the thread that runs the sender now. None if no thread does."""
        self._inbox: deque[Callable[[], None]] = deque()
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._sleeps_until = _NOW
        self._nap = nap
        self._lookout = lookout
        self._listens = True
        """True if a new batch wakes the thread. False while no broker accepts more requests."""
        self._work: SenderWork | None = None
        self._over = False
        self._crash: BaseException | None = None

    @property
    def started(self) -> bool:
        """True once the thread has started."""
        return self._thread.ident is not None

    def assign(self, work: SenderWork) -> None:
        """Set the work that the thread does. Call this before ``start``."""
        self._work = work

    def start(self) -> None:
        """Start the thread. This may be called again after a call that failed or that Ctrl-C interrupted.

        Raises KafkaError if no thread can be started.
        """
        try:
            self._thread.start()
        except RuntimeError as error:
            if not self.started:
                raise KafkaError(
                    f"the producer's thread cannot be started: {error}; perhaps the limit of threads is "
                    "reached, or the program is ending"
                ) from error

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end. Return True if it has ended. If the calling thread runs the sender,
        return True at once."""
        if not self.started or self.is_current():
            return True
        self._thread.join(min(max(timeout, 0.0), threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Return True if the calling thread runs the sender, and so must not wait for the sender."""
        return self._holder == threading.get_ident()

    def post(self, call: Callable[[], None]) -> None:
        """Run the function *call* when the sender runs next. Any thread may call this, with any lock held."""
        self._inbox.append(call)
        self.wake(_NOW)

    def post_and_run(self, call: Callable[[], None]) -> None:
        """Run the function *call* when the sender runs next. If the sender lock is free, run the sender in
        this thread now.

        The calling thread must hold no lock.
        """
        self._inbox.append(call)
        if not self._lock.acquire(blocking=False):
            self.wake(_NOW)
            return
        try:
            self._make_pass()
            missed = not self._listens and self._has_missed_batches()
            due = _NOW if self._over or missed else self.timers.next_due()
        finally:
            self._lock.release()
        self.wake(due)

    def catch_up(self, timeout: float | None) -> bool:
        """Wait until all functions posted so far have been called. Return False after *timeout* seconds.

        Return True at once if the calling thread runs the sender, or if the sender's thread has ended.
        """
        # The lock is held from before a function leaves the inbox until after its call. So if the inbox is
        # empty, and the lock is free after that, no function is left. Usually a reader has just made a pass,
        # and then the sender's thread does not have to wake.
        if not self._inbox and not self._lock.locked():
            return True
        if not self.started or self.is_current():
            return True
        caught_up = Wakeup()
        self.post(caught_up.set)
        deadline = NEVER if timeout is None else time.monotonic() + timeout
        while not caught_up.wait(min(deadline - time.monotonic(), _LIVENESS_CHECK)):
            if not self._thread.is_alive():
                return True
            if time.monotonic() >= deadline:
                return False
        return True

    def wake(self, due: float) -> None:
        """Make sure that the thread runs the sender at the time *due*. Any thread may call this. The call
        takes little time."""
        if due < self._sleeps_until:
            self._wakeups.put(None)

    def notify(self, due: float) -> None:
        """Make sure that the sender runs at the time *due*, because users' threads have added batches.

        While no broker accepts more requests, this does nothing: the sender runs when a response arrives, or
        after a short pause.
        """
        # The caller adds the batch first and then calls this. The thread sets _listens first and then looks
        # for new batches. So one of the two always notices the other.
        if self._listens:
            self.wake(due)

    def _run(self) -> None:
        work = self._work
        assert work is not None
        woken = False
        while True:
            with self._lock:
                self._make_pass()
                if self._over:
                    break
                # Set with the lock held: a thread that makes the next pass, and sets an earlier timer, wakes
                # this one.
                self._sleeps_until = self.timers.next_due()
                if woken and self._lookout:
                    self._sleeps_until = min(self._sleeps_until, time.monotonic() + self._lookout)
                self._listens = not work.is_full()
                if not self._listens:
                    self._sleeps_until = min(self._sleeps_until, time.monotonic() + self._nap)
            woken = self._sleep(work)
        # The lock is kept for good: no thread makes another pass.
        self._lock.acquire()
        self._holder = threading.get_ident()
        try:
            work.end(self._crash)
        finally:
            self._holder = None

    def _make_pass(self) -> None:
        """Run the sender once: do all that is due now. The sender lock must be held."""
        work = self._work
        assert work is not None
        if self._over:
            return
        self._holder = threading.get_ident()
        try:
            for _ in range(len(self._inbox)):
                self._inbox.popleft()()
            self.timers.fire_due()
            self._over = not work.step()
        except BaseException as error:
            self._over, self._crash = True, error
            extra = log_fields("sender_failed", error=repr(error))
            log.exception(
                "the sender failed unexpectedly and sends nothing more; please report this", extra=extra
            )
        finally:
            self._holder = None

    def _has_missed_batches(self) -> bool:
        """Return True if there are new batches to send that have not woken the thread.

        New batches do not wake the thread while the brokers accept no more requests.

        The sender lock must be held, and the sender must have run at least once.
        """
        work = self._work
        assert work is not None
        if work.is_full():
            return False
        self._listens = True
        return work.has_new_batches()

    def _sleep(self, work: SenderWork) -> bool:
        """Sleep until the next timer, a posted function, or a call of ``wake``. Return True if something
        other than the timer has ended the sleep."""
        left = min(self._sleeps_until - time.monotonic(), _LONGEST_SLEEP)
        woken = left > 0
        # _sleeps_until is set before these checks: a batch that is added after them wakes this thread.
        if woken and not self._inbox and not (self._listens and work.has_new_batches()):
            try:
                self._wakeups.get(timeout=left)
            except queue.Empty:
                woken = False
        self._sleeps_until = _NOW
        while not self._wakeups.empty():
            self._wakeups.get_nowait()
        return woken
