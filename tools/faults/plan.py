"""Plans of faults: the requests that they hit, and the fault for each. A seed always gives the same plan."""

import random
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from pyklient.protocol.schema import ApiMessage

__all__ = ["FAULTS", "Action", "Fault", "FaultPlan", "Place", "seeded_plan"]


class Place(Enum):
    """The point of a request and its response at which a fault occurs."""

    REQUEST = "before the request"
    INSIDE_REQUEST = "inside the request"
    ANSWER = "before the answer"
    INSIDE_ANSWER = "inside the answer"


class Action(Enum):
    """The effect of a fault on the connection."""

    CUT = "close the connection"
    RESET = "reset the connection"
    HOLD = "hold the bytes back"
    DROP = "drop the answer"
    SILENCE = "drop the answer and all later ones"


class Fault(NamedTuple):
    """One fault: *action* at *place*. HOLD lasts for *seconds*."""

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
"""Every kind of fault. Those that hold bytes have no duration yet."""


class FaultPlan:
    """Decides which fault hits a request. Not thread-safe.

    ``faults`` has (n, fault) pairs for each kind of request: the fault hits the n-th request of that kind,
    counted from the one that the previous fault has hit.
    """

    def __init__(self, faults: Mapping[type[ApiMessage], Iterable[tuple[int, Fault]]]) -> None:
        self._faults = {kind.api_key: iter(pairs) for kind, pairs in faults.items()}
        self._next = {key: next(pairs, None) for key, pairs in self._faults.items()}
        self._seen = dict.fromkeys(self._faults, 0)

    def take(self, api_key: int) -> Fault | None:
        """Count a request of kind *api_key*. Return the fault that hits it, or None."""
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
    the next. Bytes are held for at most *longest* seconds. The faults of one kind of request do not depend on
    other kinds.
    """
    return FaultPlan({kind: _endless(f"{seed}/{kind.__name__}", gap, longest) for kind, gap in gaps.items()})


def _endless(seed: str, gap: tuple[int, int], longest: float) -> Iterator[tuple[int, Fault]]:
    dice = random.Random(seed)
    while True:
        fault = dice.choice(FAULTS)
        if fault.action is Action.HOLD:
            fault = fault._replace(seconds=dice.uniform(0, longest))
        yield dice.randint(*gap), fault
