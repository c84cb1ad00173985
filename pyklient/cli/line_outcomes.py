"""Counts the lines of an input that were stored, and those that failed."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.kernel import Delivery

__all__ = ["Delivered"]

_KEPT: Final = 100_000
_SHOWN: Final = 8


class Delivered:
    """Counts the lines of an input that were stored, and the lines that failed, from their deliveries.

    It keeps a limited number of deliveries that are not done. When there are more, ``add`` waits for the
    oldest delivery.
    """

    def __init__(self) -> None:
        self.stored = 0
        """The number of lines that the brokers have confirmed."""
        self.error: KafkaError | None = None
        """The error of the first line that failed. None if no line has failed."""
        self._unconfirmed: list[int] = []
        self._waiting: deque[Delivery] = deque()

    @property
    def sent(self) -> int:
        """The number of lines that were sent."""
        return self.stored + len(self._unconfirmed) + len(self._waiting)

    def add(self, delivery: Delivery) -> bool:
        """Add the delivery of the next line. Return False if a line has already failed."""
        waiting = self._waiting
        waiting.append(delivery)
        while waiting and (waiting[0].done() or len(waiting) > _KEPT):
            self._count(waiting[0], None)
        return self.error is None

    def count_others(self) -> None:
        """Count all lines that are not counted yet. A line whose outcome is not known counts as failed."""
        while self._waiting:
            self._count(self._waiting[0], 0)

    def summary(self, problem: str | None = None) -> str:
        """Return a sentence that begins with *problem* (if given). It also names the first line that failed
        and its error, the number of lines that are stored, and the numbers of all lines that failed."""
        lines = {0: "no line is", 1: "1 line is"}.get(self.stored, f"{self.stored:,} lines are")
        parts = [problem] if problem else []
        if self.error is not None:
            parts.append(f"line {self._unconfirmed[0]}: {self.error}")
        missing = f", not confirmed: {_ranges(self._unconfirmed)}" if self._unconfirmed else ""
        return "; ".join([*parts, f"{lines} stored{missing}"])

    def _count(self, delivery: Delivery, timeout: float | None) -> None:
        try:
            error = delivery.exception(timeout)
        except KafkaTimeoutError as unknown:
            error = unknown
        number = self.stored + len(self._unconfirmed) + 1
        self._waiting.popleft()
        if error is None:
            self.stored += 1
        else:
            self._unconfirmed.append(number)
            self.error = self.error or error


def _ranges(numbers: Iterable[int]) -> str:
    """Return ascending *numbers* as text such as ``1, 3-5``, shortened if there are many."""
    found = list(islice(_runs(numbers), _SHOWN + 1))
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found[:_SHOWN])
    return f"{shown} and more" if len(found) > _SHOWN else shown


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = 0
    for number in numbers:
        if first and number == last + 1:
            last = number
            continue
        if first:
            yield first, last
        first = last = number
    if first:
        yield first, last
