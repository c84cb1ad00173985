"""The memory that the records of a producer use, compared with the option ``buffer_memory``."""

from pyklient.kernel import Appender

__all__ = ["MemoryUse"]


class MemoryUse:
    """The memory of the batches of *appender*, and the waits for it. *limit* is in bytes. Any thread may use
    this object."""

    def __init__(self, appender: Appender, limit: int) -> None:
        self._appender = appender
        self._limit = limit
        self.an_eighth = limit // 8
        """An eighth of the limit, in bytes."""
        self.a_thirty_second = limit // 32
        """A thirty-second of the limit, in bytes."""
        self.waits = 0
        """The number of times that threads began to wait for memory."""

    def note_wait(self) -> None:
        """Record that a thread begins to wait for memory. The batch lock must be held."""
        self.waits += 1

    def fits(self, size: int, limit: int) -> bool:
        """Return True if a batch of *size* bytes can be begun without using more than *limit* bytes."""
        return self._appender.used_memory + size + Appender.OVERHEAD <= limit

    @property
    def is_short(self) -> bool:
        """True if more than half of the memory is used."""
        return self._appender.used_memory > self._limit // 2

    @property
    def an_eighth_is_free(self) -> bool:
        """True if an eighth of the memory is free, so that a thread that waits for memory should continue
        now.

        The thread waits until more memory is free than its record needs. Otherwise, if brokers are slow, each
        record would cost a change of threads.
        """
        return self._appender.used_memory <= self._limit - self.an_eighth

    @property
    def used(self) -> int:
        """The bytes that are used."""
        return self._appender.used_memory

    @property
    def a_thirty_second_is_free(self) -> bool:
        """True if a thirty-second of the memory is free, so that a thread whose record fits already should
        continue now, after a pause for more memory."""
        return self._appender.used_memory <= self._limit - self.a_thirty_second
