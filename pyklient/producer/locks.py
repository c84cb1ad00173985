"""The locks of a producer. No other module of ``producer/`` makes a lock.

A producer has a sender lock and a batch lock. A thread that needs both acquires them in this order:

1. The sender lock (``new_sender_lock``): the thread that holds it runs the sender. A connection's reader
   thread, which may hold locks of the connection, acquires the sender lock only if it is free, and never
   waits for it.
2. The batch lock (``new_batch_lock``): guards the table of topics, the list of unfinished batches, the
   outcomes of batches, and the queue of threads that wait for memory. The Python kernel acquires it for each
   append; the compiled kernel relies on the GIL instead. The lock is reentrant, because a signal handler or a
   finalizer may call ``send`` in the middle of a ``send``.

A transactional producer has a third lock, the transaction lock (``new_transaction_lock``), which a thread
acquires before the other two. With this lock, only one thread at a time can call a method for transactions.
The thread that holds the lock may wait for the network. The sender never acquires this lock.

A ``Wakeup`` guards no state: one thread waits for it, and another thread sets it. Nobody waits for a
``Wakeup``, or for the network, while holding the sender lock or the batch lock.
"""

import threading
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["Wakeup", "new_batch_lock", "new_sender_lock", "new_transaction_lock"]


def new_sender_lock() -> threading.Lock:
    """Return a new sender lock. The thread that holds it runs the sender."""
    sender_lock: threading.Lock = threading.Lock()
    return sender_lock


def new_batch_lock() -> AbstractContextManager[Any]:
    """Return a new batch lock. It guards the topics, the unfinished batches and the queue of threads that
    wait for memory."""
    batch_lock: AbstractContextManager[Any] = threading.RLock()
    return batch_lock


def new_transaction_lock() -> threading.Lock:
    """Return a new transaction lock. The thread that holds it begins or ends a transaction."""
    transaction_lock: threading.Lock = threading.Lock()
    return transaction_lock


class Wakeup:
    """A signal for which one thread waits. It is reset when the wait ends.

    It is used instead of ``threading.Event`` and ``threading.Condition``, which acquire an internal lock in
    Python code. If a KeyboardInterrupt occurs at that moment, the internal lock stays held, and the thread
    that sets the event waits for ever.
    """

    __slots__ = ("_wakeup",)

    def __init__(self) -> None:
        self._wakeup = threading.Lock()
        self._wakeup.acquire()

    def set(self) -> None:
        """Wake the waiting thread. At most one thread may call this at a time."""
        if self._wakeup.locked():
            self._wakeup.release()

    def wait(self, timeout: float | None) -> bool:
        """Wait for at most *timeout* seconds, or without a limit if *timeout* is None. Return True if the
        signal was set."""
        return self._wakeup.acquire(
            timeout=-1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
        )
