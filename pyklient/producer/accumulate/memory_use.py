"""The memory that the records of a producer use, compared with the option ``buffer_memory``."""

from typing import Final

from pyklient.kernel import Appender

__all__ = ["MemoryUse"]

_MUCH: Final = 8
"""A thread that waits for memory continues when ``buffer_memory`` divided by this number is free."""

_LITTLE: Final = 32
"""``buffer_memory`` divided by this number is a small amount of memory: see ``MemoryUse.little``."""


class MemoryUse:
    """The memory of the batches of *appender*. *limit* is in bytes. Any thread may use this object."""

    def __init__(self, appender: Appender, limit: int) -> None:
        self._appender = appender
        self._limit = limit
        self.much = limit // _MUCH
        """An eighth of the limit, in bytes. This much must be free before a thread that waits for memory
        continues."""
        self.little = limit // _LITTLE
        """A thirty-second of the limit, in bytes. If this much is free, a thread whose record fits already,
        but that waits for more memory, continues after a pause."""
        self.waits = 0
        """The number of times that threads began to wait for memory. The batch lock must be held to change
        it."""

    def fits(self, size: int, limit: int) -> bool:
        """Return True if a batch of *size* bytes can be begun without using more than *limit* bytes."""
        return self._appender.used_memory + size + Appender.OVERHEAD <= limit

    @property
    def is_short(self) -> bool:
        """True if more than half of the memory is used, which means that users' threads send records faster
        than the brokers store them."""
        return self._appender.used_memory > self._limit // 2

    @property
    def much_is_free(self) -> bool:
        """True if a thread that waits for memory should continue now.

        The thread waits until more memory is free than its record needs. Otherwise, if brokers are slow, each
        record would cost a change of threads.
        """
        return self._appender.used_memory <= self._limit - self.much

    @property
    def used(self) -> int:
        """The bytes that are used."""
        return self._appender.used_memory

    @property
    def enough_is_free(self) -> bool:
        """True if a thread whose record fits already should continue now, after a pause for more memory."""
        return self._appender.used_memory <= self._limit - self.little
