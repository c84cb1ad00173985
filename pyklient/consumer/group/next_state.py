"""Finds the next state of a group member in a table of transitions.

The tables are in ``classic/states.py`` and ``zookeeper/states.py``. A pair of state and event that is not in
a table cannot happen. If such a pair does happen, that is a bug of pyklient, and an error is raised.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

__all__ = ["next_state"]

_State = TypeVar("_State", bound=StrEnum)
_Event = TypeVar("_Event", bound=StrEnum)


def next_state(transitions: Mapping[tuple[_State, _Event], _State], state: _State, event: _Event) -> _State:
    """Return the state that follows *state* after *event*. Raise RuntimeError if *transitions* does not have
    this pair of state and event."""
    try:
        return transitions[state, event]
    except KeyError:
        raise RuntimeError(
            f"the event {event} cannot happen in the state {state} of a member of a group; this is a bug of "
            "pyklient"
        ) from None
