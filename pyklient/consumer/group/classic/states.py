"""The life of a group member, as a table: in this state, on this event, go there.

A pair that is missing cannot happen; meeting one is a bug, and says so.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["TRANSITIONS", "Event", "State", "next_state"]


class State(StrEnum):
    """Where a member stands."""

    OUTSIDE = "outside"
    """Not in the group: not yet, not any more, or not while its loop stands still."""
    JOINING = "joining"
    """Has asked to join and waits for the others."""
    SYNCING = "syncing"
    """Is in the new generation and waits for its partitions."""
    STABLE = "stable"
    """Holds partitions and sends heartbeats."""
    RELEASING = "releasing"
    """Lets go of its partitions before it joins again."""
    LEAVING = "leaving"
    """Lets go of its partitions and tells the coordinator that it goes."""
    CLOSED = "closed"
    """Has gone for good."""


class Event(StrEnum):
    """What happens to a member."""

    START = "start"
    """Its streams want messages."""
    JOINED = "joined"
    """A generation has begun, and we are in it."""
    ASSIGNED = "assigned"
    """The leader's answer is there."""
    REJOIN = "rejoin"
    """The group rebalances, or its leader sees partitions that nobody reads."""
    LOST = "lost"
    """The coordinator does not know us any more, or has moved on without us."""
    STALLED = "stalled"
    """The loop has taken no message for max_poll_interval_ms, though one waits."""
    RELEASED = "released"
    """Nothing of the old assignment is handed out any more."""
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


def next_state(state: State, event: Event) -> State:
    """Where *event* leads from *state*. Raises RuntimeError for what the table does not know."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise RuntimeError(f"a group member in state {state} cannot meet {event}") from None
