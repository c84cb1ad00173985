"""The locks of a classic producer. No other module of ``classic/`` makes a lock.

They are reentrant, because a signal handler may call ``send`` in the middle of a ``send``, and a finalizer
may close the queue. Nobody waits for the network, or for another lock, while holding the queue lock.
"""

import threading

__all__ = ["new_queue_lock", "new_turn_lock"]


def new_queue_lock() -> threading.RLock:
    """Return a new queue lock. It guards an EventQueue."""
    queue_lock: threading.RLock = threading.RLock()
    return queue_lock


def new_turn_lock() -> threading.RLock:
    """Return a new turn lock. The thread that holds it uses the event handler of a synchronous producer."""
    turn_lock: threading.RLock = threading.RLock()
    return turn_lock
