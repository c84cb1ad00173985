"""A clock that tests move by hand."""

import heapq
from collections.abc import Callable
from itertools import count


class Alarm:
    """A timer that has been set."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandClock:
    """The ``Timers`` of a group. ``advance`` runs the timers that become due, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._alarms: list[tuple[float, int, Alarm]] = []

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Alarm:
        alarm = Alarm(callback)
        heapq.heappush(self._alarms, (self.now + delay, next(self._order), alarm))
        return alarm

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._alarms and self._alarms[0][0] <= end:
            self.now, _, alarm = heapq.heappop(self._alarms)
            callback, alarm.callback = alarm.callback, None
            if callback is not None:
                callback()
        self.now = end

    @property
    def waiting(self) -> int:
        return sum(alarm.callback is not None for _, _, alarm in self._alarms)
