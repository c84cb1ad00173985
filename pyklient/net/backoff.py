"""Computes how long to pause before a new attempt after a failure (back-off)."""

import random

__all__ = ["Backoff"]

_JITTER = 0.2


class Backoff:
    """Pauses between attempts, which double from *first* to *longest* seconds.

    Each pause is up to 20 % longer or shorter at random (KIP-144, KIP-580). So if many clients fail at the
    same time, their next attempts are at different times.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = max(first, longest)

    def pause(self, failures: int) -> float:
        """Return how many seconds to wait after *failures* failures in a row (1 or more)."""
        doubled = self._first * 2.0 ** min(failures - 1, 30)
        return float(min(doubled, self._longest) * random.uniform(1 - _JITTER, 1 + _JITTER))
