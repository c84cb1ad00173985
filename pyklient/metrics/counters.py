"""The counters behind the metrics: throughput with its rate, durations with their quantiles, and errors.

A counter belongs to the object whose work it counts. One thread at a time adds to it, and any thread may read
it without a lock. Nothing is counted per record: the thread adds once for each batch, each group of messages
that are read together, or each request.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from pyklient import metrics
from pyklient.error_codes import error_facts

__all__ = ["DurationHistogram", "Meter", "add_errors", "count_error"]

_WINDOW: Final = 30.0
"""The number of seconds over which a rate is averaged. Recent durations are kept for at least this time."""
_PERIOD: Final = 5.0
"""The number of seconds after which a Meter stores its totals again (as a mark)."""
_MARKS: Final = int(_WINDOW / _PERIOD) + 2
_SHORTEST: Final = 1.0
"""The smallest number of seconds by which a rate is divided, so that a single batch right after the start
does not give a huge rate."""

_LEAST_EXPONENT: Final = -17
"""The first octave of buckets has the durations from 2 ** (_LEAST_EXPONENT - 1) to 2 ** _LEAST_EXPONENT
seconds, which are about 4 to 8 microseconds."""
_OCTAVES: Final = 28
_PER_OCTAVE: Final = 8
_BUCKETS: Final = _OCTAVES * _PER_OCTAVE
_STARTS: Final = [
    2.0 ** (octave + _LEAST_EXPONENT - 1) * (1 + part / _PER_OCTAVE)
    for octave in range(_OCTAVES)
    for part in range(_PER_OCTAVE)
]
"""The duration in seconds at which each bucket begins. The first bucket also has all shorter durations, and
the last bucket all longer ones."""


class Meter:
    """Counts batches, records and bytes since the start, and computes their rates.

    *began* is the time of the start, in monotonic seconds. To compute rates, a Meter stores its totals every
    few seconds. Such a copy of the totals is called a mark, and only the last few marks are kept.
    """

    __slots__ = ("_began", "_marks", "_next_mark", "batches", "bytes", "records")

    def __init__(self, began: float) -> None:
        self.batches = 0
        self.records = 0
        self.bytes = 0
        self._began = began
        self._next_mark = began
        self._marks: tuple[_Mark, ...] = ()

    def add(self, records: int, size: int, now: float, batches: int = 1) -> None:
        """Count *batches* batches at the time *now*, which have *records* records and *size* bytes."""
        if now >= self._next_mark:
            self._next_mark = now + _PERIOD
            mark = _Mark(now, self.batches, self.records, self.bytes)
            self._marks = (*self._marks[1 - _MARKS :], mark)
        self.batches += batches
        self.records += records
        self.bytes += size

    def add_evenly(self, records: int, size: int, since: float, now: float) -> None:
        """Count records that were handled at an even pace from the time *since* to the time *now*.

        *records* is the number of records. *size* is the size of their batch in bytes, or 0 if the batch has
        been counted already. If *size* is not 0, count one more batch.
        """
        batches, span = self.batches + (size > 0), now - since
        if span <= _PERIOD:
            self.add(records, size, since)
        else:
            # Each part counts at the time at which it began to pass, so no mark includes what came later.
            moments = [since, *(at for part in range(_MARKS, 0, -1) if (at := now - part * _PERIOD) > since)]
            passed = passed_size = 0
            for begins, ends in pairwise([*moments, now]):
                share = (ends - since) / span if ends < now else 1.0
                part, part_size = int(records * share) - passed, int(size * share) - passed_size
                self.add(part, part_size, begins)
                passed, passed_size = passed + part, passed_size + part_size
        self.batches = batches

    def add_total(self, other: "Meter") -> None:
        """Add the totals of *other*, without its rates."""
        self.batches += other.batches
        self.records += other.records
        self.bytes += other.bytes

    def snapshot(self, now: float) -> "metrics.Throughput":
        """Return the totals and rates at the time *now*."""
        marks = self._marks  # before the totals: a total that grows meanwhile never makes a rate negative
        total = _Mark(now, self.batches, self.records, self.bytes)
        start = _start_of_window(marks, self._began, total)
        seconds = max(now - start.time, _SHORTEST)
        return metrics.Throughput(
            batches=total.batches,
            records=total.records,
            bytes=total.bytes,
            batches_per_second=(total.batches - start.batches) / seconds,
            records_per_second=(total.records - start.records) / seconds,
            bytes_per_second=(total.bytes - start.bytes) / seconds,
        )


class _Mark(NamedTuple):
    """The totals of a Meter at the time *time*."""

    time: float
    batches: int
    records: int
    bytes: int


def _start_of_window(marks: tuple[_Mark, ...], began: float, total: _Mark) -> _Mark:
    """Return the totals at the start of the window, the time over which rates are averaged. *total* has the
    present totals.

    The window is the last 30 to 35 seconds, or the time since *began* if that is shorter. At *began*, all
    totals were 0. If *marks* has no mark of 30 to 35 seconds ago, nothing was counted between that time and
    the next mark. The result then is the totals of the next mark.
    """
    start = total.time - _WINDOW
    if began >= start:
        return _Mark(began, 0, 0, 0)
    earlier = next((mark for mark in reversed(marks) if start - _PERIOD <= mark.time <= start), None)
    if earlier is not None:
        return earlier
    later = next((mark for mark in marks if mark.time > start), total)
    return later._replace(time=start)


class DurationHistogram:
    """A fixed number of buckets that count durations, to compute quantiles of the last 30 to 60 seconds. A
    quantile is off by 6 % at most.

    A set of buckets is filled for 30 seconds, and then kept for another 30 seconds.
    """

    __slots__ = ("_before", "_buckets", "_ends", "_max", "_max_before", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._buckets = [0] * _BUCKETS
        self._before: list[int] | None = None
        self._max = self._max_before = 0.0
        self._ends = 0.0
        """The time at which the present set of buckets ends and a new set begins."""

    def add(self, seconds: float, now: float) -> None:
        """Count a duration that has ended at the time *now*."""
        if now >= self._ends:
            self._begin(now)
        self.count += 1
        self.total += seconds
        if seconds > self._max:
            self._max = seconds
        self._buckets[bisect_right(_STARTS, seconds, 1) - 1] += 1

    def add_all(self, durations: list[float], now: float) -> None:
        """Count durations that have ended at the time *now*. Takes less time than a call of ``add`` for each
        of them."""
        if len(durations) == 1:  # a frequent case, in which this is faster
            self.add(durations[0], now)
            return
        if now >= self._ends:
            self._begin(now)
        buckets = self._buckets
        for seconds in durations:
            self.total += seconds
            buckets[bisect_right(_STARTS, seconds, 1) - 1] += 1
        self.count += len(durations)
        self._max = max(self._max, max(durations, default=0.0))

    def _begin(self, now: float) -> None:
        recent = now < self._ends + _WINDOW
        self._before, self._max_before = (self._buckets, self._max) if recent else (None, 0.0)
        self._buckets, self._max = [0] * _BUCKETS, 0.0
        self._ends = now + _WINDOW

    def recent(self, now: float) -> tuple[list[list[int]], float]:
        """Return the sets of buckets with the durations of the last 30 to 60 seconds before the time *now*,
        and the longest of these durations."""
        if now < self._ends:
            sets = [self._buckets] if self._before is None else [self._buckets, self._before]
            return sets, max(self._max, self._max_before)
        return ([self._buckets], self._max) if now < self._ends + _WINDOW else ([], 0.0)

    @staticmethod
    def snapshot(histograms: "Iterable[DurationHistogram]", now: float) -> "metrics.Durations":
        """Return the durations of all *histograms* together at the time *now*."""
        count, total, longest = 0, 0.0, 0.0
        sets: list[list[int]] = []
        for each in histograms:
            count += each.count
            total += each.total
            recent, most = each.recent(now)
            sets += recent
            longest = max(longest, most)
        summed = [sum(counts) for counts in zip(*sets, strict=True)]
        values = sum(summed)
        if not values:
            return metrics.Durations(count=count, total=total)
        return metrics.Durations(
            count=count,
            total=total,
            p50=min(_quantile(summed, values, 0.5), longest),
            p99=min(_quantile(summed, values, 0.99), longest),
            max=longest,
        )


def _quantile(buckets: list[int], values: int, share: float) -> float:
    """Return the middle of the bucket that contains the quantile *share*, such as 0.99. *values* is the
    number of all values in *buckets*."""
    index = bisect_left(list(accumulate(buckets)), share * values)
    octave, part = divmod(index, _PER_OCTAVE)
    return float(2.0 ** (octave + _LEAST_EXPONENT - 1) * (1 + (part + 0.5) / _PER_OCTAVE))


def count_error(errors: dict[str, int], code: int, times: int = 1) -> None:
    """Count the error *code* of a response in *errors*, under its name."""
    name = error_facts(code).name
    errors[name] = errors.get(name, 0) + times


def add_errors(counted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of several counts of errors."""
    found: dict[str, int] = {}
    for each in counted:
        for name, times in list(each.items()):
            found[name] = found.get(name, 0) + times
    return found
