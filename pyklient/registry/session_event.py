"""What can happen to a session with ZooKeeper."""

from enum import Enum

__all__ = ["SessionEvent"]


class SessionEvent(Enum):
    """What happened to a session."""

    CONNECTED = "connected"
    """A server has accepted the session: a new one, or the same as before."""

    SUSPENDED = "suspended"
    """The connection is lost. The session, with its ephemeral nodes, goes on if a server accepts it again
    within the session time-out."""

    EXPIRED = "expired"
    """The session is over, and ZooKeeper has deleted its ephemeral nodes. A new session begins by itself."""
