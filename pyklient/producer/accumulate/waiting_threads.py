"""The threads that wait for memory, in the order in which they get it."""

from collections import deque

from pyklient.producer.locks import Wakeup

__all__ = ["WaitingThreads"]


class WaitingThreads:
    """The threads that wait for memory. The thread that has waited longest is the first.

    The batch lock must be held to call a method of this object, unless the method says otherwise.
    """

    def __init__(self) -> None:
        self.wakeups: deque[Wakeup] = deque()
        """A signal for each thread. A thread may remove its own signal without the lock."""
        self.gathering = False
        """True while the first thread has enough memory, but waits until more is released."""
        self.gathered = False
        """True if the first thread has waited long enough for more memory than its record needs. The waiting
        threads then append their records as long as these fit."""

    def add(self, wakeup: Wakeup) -> None:
        """Append the thread that waits for *wakeup* to the waiting threads."""
        self.wakeups.append(wakeup)

    def is_first(self, wakeup: Wakeup) -> bool:
        """Return True if the thread that waits for *wakeup* has waited longest."""
        return self.wakeups[0] is wakeup

    def need_memory(self, much_is_free: bool) -> bool:
        """Return True if the first thread is to be woken, because memory was released. *much_is_free* is the
        value of ``MemoryUse.much_is_free``. The lock is not needed."""
        return bool(self.wakeups) and (much_is_free or not self.gathering)

    def wake_first(self) -> None:
        """Wake the thread that has waited longest. This thread then checks if there is enough memory. When
        its own wait ends, it wakes the next thread."""
        if self.wakeups:
            self.wakeups[0].set()

    def wake_all(self) -> None:
        """Wake all threads, because ``send`` must raise an error now."""
        for wakeup in list(self.wakeups):
            wakeup.set()
