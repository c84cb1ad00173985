"""The locks of a consumer's commits and of its end. The lock of a stream is in its FetchQueue."""

from threading import Lock

__all__ = ["new_closing_lock", "new_counting_lock", "new_turn_lock"]


def new_turn_lock() -> Lock:
    """Return a new turn lock. The thread that holds it commits, so that a later commit is also stored
    later."""
    turn_lock: Lock = Lock()
    return turn_lock


def new_counting_lock() -> Lock:
    """Return a new counting lock. It guards the number of commits that
    wait, and the start of their thread."""
    counting_lock: Lock = Lock()
    return counting_lock


def new_closing_lock() -> Lock:
    """Return a new closing lock. The thread that gets it closes the connector, and keeps it for ever."""
    closing_lock: Lock = Lock()
    return closing_lock
