"""The tables of states of members, of groups that Kafka or ZooKeeper coordinates."""

from collections.abc import Mapping
from enum import StrEnum

import pytest

from pyklient.consumer.group.classic import states as classic
from pyklient.consumer.group.next_state import next_state
from pyklient.consumer.group.zookeeper import states as zookeeper

Table = Mapping[tuple[StrEnum, StrEnum], StrEnum]

TABLES = pytest.mark.parametrize(
    ("table", "states", "events"),
    [
        (classic.TRANSITIONS, classic.State, classic.Event),
        (zookeeper.TRANSITIONS, zookeeper.State, zookeeper.Event),
    ],
    ids=["kafka", "zookeeper"],
)


@TABLES
def test_every_state_is_reached_from_outside_and_leads_to_closed(
    table: Table, states: type[StrEnum], events: type[StrEnum]
) -> None:
    def reachable(begin: StrEnum) -> set[StrEnum]:
        found, left = {begin}, [begin]
        while left:
            here = left.pop()
            for (state, _), after in table.items():
                if state is here and after not in found:
                    found.add(after)
                    left.append(after)
        return found

    assert reachable(states("outside")) == set(states)
    for state in states:
        assert states("closed") in reachable(state)


@TABLES
def test_every_event_is_in_the_table(table: Table, states: type[StrEnum], events: type[StrEnum]) -> None:
    assert {event for _, event in table} == set(events)


def test_an_event_that_cannot_happen_says_so() -> None:
    with pytest.raises(RuntimeError, match="joined cannot happen in the state closed of a member"):
        next_state(classic.TRANSITIONS, classic.State.CLOSED, classic.Event.JOINED)
