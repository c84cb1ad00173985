"""The events in the life of a session with ZooKeeper."""

from enum import Enum

__all__ = ["SessionEvent"]


class SessionEvent(Enum):
    """An event in the life of a session with ZooKeeper."""

    CONNECTED = "connected"
    """A server has accepted a new session, or has accepted the suspended session again."""

    SUSPENDED = "suspended"
    """The connection is lost. The session and its ephemeral nodes continue to exist if a server accepts the
    session again within the session time-out."""

    EXPIRED = "expired"
    """The session is over, and ZooKeeper has deleted its ephemeral nodes. The client begins a new session
    without being asked."""
