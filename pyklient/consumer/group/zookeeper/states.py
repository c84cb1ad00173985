"""The states of a member of a group that ZooKeeper coordinates, as a table that gives the next state for a
state and an event."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["TRANSITIONS", "Event", "State"]


class State(StrEnum):
    """The states of a member of a group that ZooKeeper coordinates."""

    OUTSIDE = "outside"
    """The member has no node in ZooKeeper: the node is not created yet, or the member's session has
    expired."""
    REBALANCING = "rebalancing"
    """The member gives its partitions back, computes the assignment and creates its owner nodes."""
    WAITING = "waiting"
    """The member waits for the next attempt to rebalance. It owns nothing if the failed attempt has given its
    partitions back."""
    STABLE = "stable"
    """The member owns its partitions, and waits for changes of the group."""
    IDLE = "idle"
    """All attempts have failed. The member waits for a change of the group, or for the next round of
    attempts."""
    LEAVING = "leaving"
    """The member stops reading and commits."""
    CLOSED = "closed"
    """The member does not read any more, and will not join again. Its nodes are deleted when the client ends
    the session."""


class Event(StrEnum):
    """The events that change the state of a member of a group that ZooKeeper coordinates."""

    ADDED = "added"
    """The node of the member has been created."""
    OWNED = "owned"
    """The member has created the owner nodes of all partitions that are assigned to it."""
    FAILED = "failed"
    """An attempt to rebalance has failed: another member still owns a partition, or ZooKeeper did not
    answer."""
    GAVE_UP = "gave up"
    """The last attempt of a round has failed."""
    RETRY = "retry"
    """The pause after a failed attempt to rebalance is over. The next attempt begins."""
    CHANGED = "changed"
    """Members, topics, partitions or brokers have changed."""
    EXPIRED = "expired"
    """ZooKeeper has ended the session and removed the nodes of the member."""
    CLOSE = "close"
    """The client closes, or cannot go on."""
    LEFT = "left"
    """The member has stopped reading and committed."""


TRANSITIONS: Final = MappingProxyType(
    {
        (State.OUTSIDE, Event.ADDED): State.REBALANCING,
        (State.OUTSIDE, Event.CLOSE): State.LEAVING,
        (State.REBALANCING, Event.OWNED): State.STABLE,
        (State.REBALANCING, Event.FAILED): State.WAITING,
        (State.REBALANCING, Event.GAVE_UP): State.IDLE,
        (State.REBALANCING, Event.EXPIRED): State.OUTSIDE,
        (State.REBALANCING, Event.CLOSE): State.LEAVING,
        (State.WAITING, Event.RETRY): State.REBALANCING,
        (State.WAITING, Event.EXPIRED): State.OUTSIDE,
        (State.WAITING, Event.CLOSE): State.LEAVING,
        (State.STABLE, Event.CHANGED): State.REBALANCING,
        (State.STABLE, Event.EXPIRED): State.OUTSIDE,
        (State.STABLE, Event.CLOSE): State.LEAVING,
        (State.IDLE, Event.CHANGED): State.REBALANCING,
        (State.IDLE, Event.RETRY): State.REBALANCING,
        (State.IDLE, Event.EXPIRED): State.OUTSIDE,
        (State.IDLE, Event.CLOSE): State.LEAVING,
        (State.LEAVING, Event.LEFT): State.CLOSED,
    }
)
