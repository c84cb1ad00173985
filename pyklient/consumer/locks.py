"""The locks that a consumer holds while it commits or saves positions, and while it closes. The lock of a
stream is in its FetchQueue."""

from threading import Lock, RLock

__all__ = [
    "new_closing_lock",
    "new_counting_lock",
    "new_making_lock",
    "new_reporting_lock",
    "new_saving_lock",
    "new_turn_lock",
]


def new_turn_lock() -> Lock:
    """Return a new turn lock. A thread holds this lock while it commits, so that commits reach the offset
    storage in the order in which they were made."""
    turn_lock: Lock = Lock()
    return turn_lock


def new_counting_lock() -> Lock:
    """Return a new counting lock. A thread holds this lock while it changes the number of commits of
    ``commit_offsets_async`` that wait, or starts the thread that makes them."""
    counting_lock: Lock = Lock()
    return counting_lock


def new_making_lock() -> Lock:
    """Return a new making lock. A thread holds this lock while it makes a commit of
    ``commit_offsets_async``."""
    making_lock: Lock = Lock()
    return making_lock


def new_reporting_lock() -> Lock:
    """Return a new reporting lock. A fetcher holds this lock while it decides whether to report its wait for
    an open transaction, or starts the thread that reports the wait."""
    reporting_lock: Lock = Lock()
    return reporting_lock


def new_saving_lock() -> RLock:
    """Return a new saving lock. A thread holds this lock while it saves the positions of a stream in an
    offset store, or moves the stream to another position. It is reentrant, because a signal handler may call
    ``seek`` in the middle of a save."""
    saving_lock: RLock = RLock()
    return saving_lock


def new_closing_lock() -> Lock:
    """Return a new closing lock. The first thread that acquires it closes the connector. The lock is never
    released, because a connector is closed only once."""
    closing_lock: Lock = Lock()
    return closing_lock
