"""Decides how long the reader thread of a busy broker pauses, so that it then handles several responses
together.

If a broker is slower than the users' threads, its responses arrive one at a time, milliseconds apart. A
thread that wakes for each of them finds the caches of the processor cold, and needs about twice the CPU time
for the same work. While memory is short, no record is stored later because of a pause, because the broker
always has requests to handle.
"""

from typing import Final

__all__ = ["ResponsePauses"]

_KEEP: Final = 2
"""The number of requests that are meant to be in flight at the end of a pause: one that the broker handles,
and the next one."""
_SHORTEST: Final = 0.001
"""The shortest pause in seconds. If a broker answers faster, waking costs less than the pause."""
_LONGEST: Final = 0.02
"""The longest pause in seconds."""
_WEIGHT: Final = 0.25
"""The weight of the last burst in the estimate of the time that the broker needs for a request."""
_HASTE: Final = 0.7
"""The factor of this estimate after a burst that left the broker without requests."""


class ResponsePauses:
    """The pauses of the thread that reads the responses of one broker.

    A *burst* is the responses that the thread handles between two pauses. Without pauses, each response is a
    burst. Times are in seconds.
    """

    def __init__(self) -> None:
        self._service = 0.0
        """The estimate of the time that the broker needs for a request."""
        self._burst_began = 0.0
        self._elapsed = 0.0
        """The time between the beginnings of the last burst and the burst before it."""
        self._awaited = 0
        """The number of requests in flight when the last burst began."""
        self._in_flight = 0
        self._handled = 0

    def begin_burst(self, now: float) -> None:
        """Learn from the last burst how fast the broker is. Call this before ``after_response`` is called for
        the first response of the next burst."""
        if self._handled:
            if self._handled < self._awaited:
                self._service += _WEIGHT * (min(self._elapsed / self._handled, _LONGEST) - self._service)
            else:
                self._service *= _HASTE  # the broker had nothing to do for a part of the time
        self._elapsed, self._burst_began = now - self._burst_began, now
        self._awaited, self._handled = self._in_flight, 0

    def after_response(self, in_flight: int) -> float:
        """Return the time to pause when all responses that have arrived are handled; 0 for no pause.

        *in_flight* is the number of requests that are in flight now.
        """
        self._handled += 1
        self._in_flight = in_flight
        pause = (in_flight - _KEEP) * self._service
        return min(pause, _LONGEST) if pause >= _SHORTEST else 0.0
