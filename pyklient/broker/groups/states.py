"""The states of a group, and what leads from one to the next::

Empty ──change──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──assigned──▶ Stable
  ▲                  │        ▲                              │                           │
  └────all left──────┘        └───────────change─────────────┴───────────change──────────┘
"""

from enum import Enum, StrEnum

__all__ = ["TRANSITIONS", "Event", "GroupState"]


class GroupState(StrEnum):
    """The words that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """What moves a group."""

    CHANGE = "a member came, went, or changed its mind"
    ALL_JOINED = "every member has joined, or the time for it is over"
    ALL_LEFT = "nobody is left"
    ASSIGNED = "the leader has sent the assignment"
    DELETED = "deleted by an administrator"


TRANSITIONS: dict[tuple[GroupState, Event], GroupState] = {
    (GroupState.EMPTY, Event.CHANGE): GroupState.PREPARING,
    (GroupState.STABLE, Event.CHANGE): GroupState.PREPARING,
    (GroupState.COMPLETING, Event.CHANGE): GroupState.PREPARING,
    (GroupState.PREPARING, Event.ALL_JOINED): GroupState.COMPLETING,
    (GroupState.PREPARING, Event.ALL_LEFT): GroupState.EMPTY,
    (GroupState.COMPLETING, Event.ASSIGNED): GroupState.STABLE,
    (GroupState.EMPTY, Event.DELETED): GroupState.DEAD,
}
