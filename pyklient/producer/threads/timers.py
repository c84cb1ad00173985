"""Timers of the sender. Each timer calls a method of its object at the time that was set."""

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from typing import Final, TypeAlias

__all__ = ["NEVER", "Timed", "Timers"]

NEVER: Final = float("inf")
_FEW_TIMERS: Final = 1024


class Timed(ABC):
    """An object that has one timer. Only ``Timers`` sets its two attributes."""

    timer: float = NEVER
    """The time when the timer fires."""
    alarm: float = NEVER
    """The time of this object's entry in the heap of ``Timers``; never later than ``timer``. When a timer is
    postponed, only ``timer`` changes, which is fast. The entry moves when its own time has come."""

    @abstractmethod
    def on_timer(self) -> None:
        """Do the work for which the timer was set. The sender takes its next step right after this call."""


_Alarm: TypeAlias = tuple[float, int, Timed]
"""The time of an alarm, a serial number that orders alarms of the same time, and the object that has the
timer."""


class Timers:
    """The timers of the sender, as a heap of alarms. Times are ``time.monotonic`` seconds.

    The caller of each method must hold the sender lock.
    """

    def __init__(self) -> None:
        self._alarms: list[_Alarm] = []
        self._too_many = _FEW_TIMERS
        self._serial = itertools.count()

    def __len__(self) -> int:
        return len(self._alarms)

    def next_due(self) -> float:
        """Return the time of the earliest alarm."""
        return self._alarms[0][0] if self._alarms else NEVER

    def set(self, target: Timed, when: float) -> None:
        """Set the timer of *target* to *when*. A time that was set before is replaced."""
        target.timer = when
        if when < target.alarm:
            self._set_alarm(target, when)
            if len(self._alarms) > self._too_many:
                self._drop_stale_alarms()

    def fire_due(self) -> None:
        """Call ``on_timer`` of every object whose timer is due."""
        now = time.monotonic()
        while self._alarms and self._alarms[0][0] <= now:
            when, _, target = heapq.heappop(self._alarms)
            if when != target.alarm:  # replaced by an earlier alarm
                continue
            target.alarm = NEVER
            if target.timer <= now:
                target.timer = NEVER
                target.on_timer()
            elif target.timer < NEVER:
                self._set_alarm(target, target.timer)

    def _set_alarm(self, target: Timed, when: float) -> None:
        target.alarm = when
        heapq.heappush(self._alarms, (when, next(self._serial), target))

    def _drop_stale_alarms(self) -> None:
        """Remove alarms that were replaced. Otherwise they would stay in the heap until their time has
        come."""
        live = {alarm[2]: alarm for alarm in self._alarms if alarm[0] == alarm[2].alarm}
        self._alarms = list(live.values())
        heapq.heapify(self._alarms)
        self._too_many = max(_FEW_TIMERS, 2 * len(self._alarms))
