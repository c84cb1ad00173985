import pytest

from pyklient.consumer.group.zookeeper.states import TRANSITIONS, Event, State, next_state


def test_every_state_is_reached_from_outside_and_leads_to_closed() -> None:
    def reachable(begin: State) -> set[State]:
        found, left = {begin}, [begin]
        while left:
            here = left.pop()
            for (state, _), after in TRANSITIONS.items():
                if state is here and after not in found:
                    found.add(after)
                    left.append(after)
        return found

    assert reachable(State.OUTSIDE) == set(State)
    for state in State:
        assert State.CLOSED in reachable(state)


def test_every_event_is_in_the_table() -> None:
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_an_event_that_cannot_happen_says_so() -> None:
    with pytest.raises(RuntimeError, match="owned cannot happen in the state closed"):
        next_state(State.CLOSED, Event.OWNED)
