"""The states of a group member, as a table that gives the next state for a state and an event."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["TRANSITIONS", "Event", "State"]


class State(StrEnum):
    """The states of a member of a group that Kafka coordinates by the classic protocol."""

    OUTSIDE = "outside"
    """The member is not in the group: it has not joined yet, or it has left. It leaves if the client closes,
    or if the program's loop has not asked for a message for max_poll_interval_ms."""
    JOINING = "joining"
    """The member has asked to join, and waits until the other members have joined."""
    SYNCING = "syncing"
    """The member is in the new generation and waits for its partitions."""
    STABLE = "stable"
    """The member owns partitions and sends heartbeats."""
    RELEASING = "releasing"
    """The member gives its partitions back before it joins again."""
    LEAVING = "leaving"
    """The member gives its partitions back and tells the coordinator that it leaves."""
    CLOSED = "closed"
    """The member has left and will not join again."""


class Event(StrEnum):
    """The events that change the state of a member of a group that Kafka coordinates by the classic
    protocol."""

    START = "start"
    """The member begins to join the group: it is new, or its loop has asked for a message again."""
    JOINED = "joined"
    """A generation has begun, and the member belongs to it."""
    ASSIGNED = "assigned"
    """The member has got its partitions."""
    REJOIN = "rejoin"
    """The group rebalances, or this member begins a rebalance, for example after a change of its topics."""
    LOST = "lost"
    """The coordinator has removed the member, or has begun a generation without it."""
    STALLED = "stalled"
    """The program's loop has not asked for a message for max_poll_interval_ms, although a message waits."""
    RELEASED = "released"
    """The member has given its partitions back, or has found that it may keep them while it joins."""
    CLOSE = "close"
    """The client closes, or cannot go on."""


TRANSITIONS: Final = MappingProxyType(
    {
        (State.OUTSIDE, Event.START): State.JOINING,
        (State.OUTSIDE, Event.CLOSE): State.CLOSED,
        (State.JOINING, Event.JOINED): State.SYNCING,
        (State.JOINING, Event.CLOSE): State.LEAVING,
        (State.SYNCING, Event.ASSIGNED): State.STABLE,
        (State.SYNCING, Event.REJOIN): State.JOINING,
        (State.SYNCING, Event.CLOSE): State.LEAVING,
        (State.STABLE, Event.REJOIN): State.RELEASING,
        (State.STABLE, Event.LOST): State.RELEASING,
        (State.STABLE, Event.STALLED): State.LEAVING,
        (State.STABLE, Event.CLOSE): State.LEAVING,
        (State.RELEASING, Event.RELEASED): State.JOINING,
        (State.LEAVING, Event.RELEASED): State.OUTSIDE,
    }
)
