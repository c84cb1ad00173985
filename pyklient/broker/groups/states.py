"""The states of a group, and the events that lead from one state to the next::

Empty ──change──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──assigned──▶ Stable
  ▲                  │        ▲                              │                           │
  └────all left──────┘        └───────────change─────────────┴───────────change──────────┘

A *change* is a member that joins, leaves, or joins again with other protocols. *Assigned* means that the
leader of the group has sent the assignments.
"""

from enum import Enum, StrEnum

__all__ = ["TRANSITIONS", "Event", "GroupState"]


class GroupState(StrEnum):
    """The states of a group, with the names that DescribeGroups and ListGroups use for them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """The events that change the state of a group."""

    CHANGE = "a member joined, left, or joined again with other protocols"
    ALL_JOINED = "every member has joined again, or the time for it is over"
    ALL_LEFT = "no member is left"
    ASSIGNED = "the leader has sent the assignments"
    DELETED = "an administrator has deleted the group"


TRANSITIONS: dict[tuple[GroupState, Event], GroupState] = {
    (GroupState.EMPTY, Event.CHANGE): GroupState.PREPARING,
    (GroupState.STABLE, Event.CHANGE): GroupState.PREPARING,
    (GroupState.COMPLETING, Event.CHANGE): GroupState.PREPARING,
    (GroupState.PREPARING, Event.ALL_JOINED): GroupState.COMPLETING,
    (GroupState.PREPARING, Event.ALL_LEFT): GroupState.EMPTY,
    (GroupState.COMPLETING, Event.ASSIGNED): GroupState.STABLE,
    (GroupState.EMPTY, Event.DELETED): GroupState.DEAD,
}
