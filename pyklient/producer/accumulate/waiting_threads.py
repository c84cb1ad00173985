"""The threads that wait for memory, in the order in which they get it."""

from collections import deque
from typing import Final

from pyklient.producer.accumulate.memory_use import MemoryUse
from pyklient.producer.locks import Wakeup

__all__ = ["Gathering", "WaitingThreads"]

_FIRST_PAUSE: Final = 0.005
_LONGEST: Final = 0.05
"""The largest number of seconds for which a thread waits for more memory than its record needs."""
_SHARE: Final = 8
"""A thread waits for more memory than its record needs for at most ``max_block`` divided by this number."""


class Gathering:
    """Decides how long a thread waits for more memory than its record needs.

    When much memory is free, the thread can append many records. Without the wait, if brokers are slow, every
    few records would cost a change of threads. The thread waits in pauses. Each pause is as long as all
    earlier pauses together, so that there are few pauses. *max_block* is in seconds.
    """

    def __init__(self, memory: MemoryUse, max_block: float) -> None:
        self._memory = memory
        self._used = 0
        self._waited = 0.0
        self._left = min(_LONGEST, max_block / _SHARE)
        self._pause = min(_FIRST_PAUSE, self._left)

    def begin_pause(self) -> float:
        """Return the seconds of the next pause."""
        self._used = self._memory.used
        return self._pause

    def is_over(self) -> bool:
        """Return True if the thread should append its record after the pause that has just ended.

        That is so if the time is over or a thirty-second of the memory is free. It is also so if no memory
        was released during the pause: perhaps all batches in memory wait for a slow broker, while the other
        brokers have nothing to do.
        """
        self._waited += self._pause
        self._left -= self._pause
        self._pause = min(self._waited, self._left)
        return self._pause <= 0 or self._memory.a_thirty_second_is_free or self._memory.used >= self._used


class WaitingThreads:
    """The threads that wait for *memory*. The thread that has waited longest is the first.

    The batch lock must be held to call a method of this object, unless the method says otherwise.
    """

    def __init__(self, memory: MemoryUse) -> None:
        self._memory = memory
        self.wakeups: deque[Wakeup] = deque()
        """A signal for each thread. A thread may remove its own signal without the lock."""
        self.gathering = False
        """True while the first thread has enough memory, but waits until more is released."""
        self.gathered = False
        """True if the first thread has waited long enough for more memory than its record needs. The waiting
        threads then append their records as long as these fit."""

    def add(self, wakeup: Wakeup) -> None:
        """Append the thread that waits for *wakeup* to the waiting threads, and count its wait."""
        self._memory.note_wait()
        self.wakeups.append(wakeup)

    def is_first(self, wakeup: Wakeup) -> bool:
        """Return True if the thread that waits for *wakeup* has waited longest."""
        return self.wakeups[0] is wakeup

    def note(self, wakeup: Wakeup, fits: bool) -> None:
        """Note whether the record of the thread that waits for *wakeup* fits, if this thread is the first."""
        if self.is_first(wakeup):
            self.gathering, self.gathered = fits, False

    def need_memory(self, an_eighth_is_free: bool) -> bool:
        """Return True if the first thread is to be woken, because memory was released. *an_eighth_is_free* is
        the value of ``MemoryUse.an_eighth_is_free``. The lock is not needed."""
        return bool(self.wakeups) and (an_eighth_is_free or not self.gathering)

    def wake_first(self) -> None:
        """Wake the thread that has waited longest. This thread then checks if there is enough memory. When
        its own wait ends, it wakes the next thread."""
        if self.wakeups:
            self.wakeups[0].set()

    def wake_all(self) -> None:
        """Wake all threads, because ``send`` must raise an error now."""
        for wakeup in list(self.wakeups):
            wakeup.set()
