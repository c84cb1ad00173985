"""Which requests a fault hits, and with which fault. A seed gives the same plan each time."""

import random
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from pyklient.protocol.schema import ApiMessage

__all__ = ["FAULTS", "Action", "Fault", "FaultPlan", "Place", "seeded_plan"]


class Place(Enum):
    """Where in an exchange a fault strikes."""

    REQUEST = "before the request"
    INSIDE_REQUEST = "inside the request"
    ANSWER = "before the answer"
    INSIDE_ANSWER = "inside the answer"


class Action(Enum):
    """What a fault does to the connection."""

    CUT = "close the connection"
    RESET = "reset the connection"
    HOLD = "hold the bytes back"
    DROP = "drop the answer"
    SILENCE = "drop the answer and all later ones"


class Fault(NamedTuple):
    """One fault: *action* at *place*; HOLD lasts *seconds*."""

    place: Place
    action: Action
    seconds: float = 0.0

    def __str__(self) -> str:
        duration = f" for {self.seconds:.2f} s" if self.action is Action.HOLD else ""
        return f"{self.action.value} {self.place.value}{duration}"


FAULTS = (
    *(Fault(place, action) for action in (Action.CUT, Action.RESET, Action.HOLD) for place in Place),
    Fault(Place.ANSWER, Action.DROP),
    Fault(Place.ANSWER, Action.SILENCE),
)
"""Every kind of fault; those that hold bytes without a duration."""


class FaultPlan:
    """Decides for each request which fault hits it. Used by one thread.

    ``faults`` gives for a kind of request pairs of a number n and a fault: the n-th request of that kind,
    counted from the one that the fault before has hit, gets the fault.
    """

    def __init__(self, faults: Mapping[type[ApiMessage], Iterable[tuple[int, Fault]]]) -> None:
        self._faults = {kind.api_key: iter(pairs) for kind, pairs in faults.items()}
        self._next = {key: next(pairs, None) for key, pairs in self._faults.items()}
        self._seen = dict.fromkeys(self._faults, 0)

    def take(self, api_key: int) -> Fault | None:
        """Count a request of kind *api_key*. Return the fault that it gets, None for none."""
        planned = self._next.get(api_key)
        if planned is None:
            return None
        self._seen[api_key] += 1
        after, fault = planned
        if self._seen[api_key] < after:
            return None
        self._seen[api_key] = 0
        self._next[api_key] = next(self._faults[api_key], None)
        return fault


def seeded_plan(seed: int, gaps: Mapping[type[ApiMessage], tuple[int, int]], longest: float) -> FaultPlan:
    """Return the endless plan of *seed*.

    For each kind of request, ``gaps`` gives the least and the greatest number of requests from one fault to
    the next. Bytes are held for at most *longest* seconds. One kind's faults do not depend on another's.
    """
    return FaultPlan({kind: _endless(f"{seed}/{kind.__name__}", gap, longest) for kind, gap in gaps.items()})


def _endless(seed: str, gap: tuple[int, int], longest: float) -> Iterator[tuple[int, Fault]]:
    dice = random.Random(seed)
    while True:
        fault = dice.choice(FAULTS)
        if fault.action is Action.HOLD:
            fault = fault._replace(seconds=dice.uniform(0, longest))
        yield dice.randint(*gap), fault
