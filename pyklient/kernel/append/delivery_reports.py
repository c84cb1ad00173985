"""Stores the results of the records in a batch (delivery reports), collects callbacks, and lets callers wait.

Both kernels share this part of a batch, but the compiled kernel has its own ``__init__`` and ``report``,
which do the same. The code does not run once per record, except for records that fail or for which callers
wait one by one.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

from pyklient.errors import KafkaError, KafkaTimeoutError, for_another
from pyklient.topic_partition import RecordMetadata

__all__ = ["DeliveryReport", "DeliveryState", "Tracker", "Untracked"]


class Tracker(Protocol):
    """The part of a producer that lets callers wait for batches, and counts the failed records that the user
    has not heard of yet."""

    lock: AbstractContextManager[Any]

    def wait(self, batch: Any, timeout: float | None) -> bool:
        """Wait until ``batch.done`` is True, for at most *timeout* seconds if *timeout* is not None. Return
        ``batch.done``."""

    def unseen(self, batch: Any, change: int, error: KafkaError) -> None:
        """Add *change* to the number of failed records of *batch* whose failure the user has not seen.
        *change* may be negative. The records failed with *error*."""


class Untracked:
    """The tracker of batches that were restored from a pickle.

    These batches are done, and another process reports their failures.
    """

    lock: AbstractContextManager[Any] = nullcontext()

    def wait(self, batch: Any, timeout: float | None) -> bool:
        """Return True at once, because a batch from a pickle is done."""
        return True

    def unseen(self, batch: Any, change: int, error: KafkaError) -> None:
        """Count nothing: only the producer that sent the batch counts its failed records."""


class DeliveryReport(NamedTuple):
    """The result for the records *first* to *stop* - 1 of a batch.

    ``base_offset`` is the offset of record *first*, -1 if unknown. ``timestamp_ms`` is the broker's time, -1
    if the records keep their own timestamps. ``error`` is None if the records are stored.
    """

    first: int
    stop: int
    base_offset: int
    timestamp_ms: int
    error: KafkaError | None


class DeliveryState(ABC):
    """The part of a Batch that stores the results of its records. Each kernel has a subclass that stores the
    records.

    A batch is done when every record has a result. ``created`` is the time at which the batch was begun, in
    seconds of the accumulator's monotonic clock.
    """

    def __init__(self, tracker: Tracker, topic: str, partition: int, created: float) -> None:
        self.topic = topic
        self.partition = partition
        self.created = created
        self.sealed = False
        self.done = False
        self.waiters: list[Callable[[], object]] = []
        """Functions that wake the callers that wait for this batch. Only the tracker adds and removes
        them."""
        self.failure_round = 0
        """The number of the round in which the tracker has counted the failures of this batch. A round ends
        when the tracker has reported all failures to the user, and they do not count any more."""
        self._tracker = tracker
        self._reports: list[DeliveryReport] = []
        # Each delivery is followed by its callback: a flat list saves an object per pair.
        self._callbacks: list[Any] = []
        self._unreported = -1
        self._has_failures = False
        self._seen: set[int] = set()

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of records in the batch."""

    @abstractmethod
    def release_records(self) -> None:
        """Free the memory of a sealed batch's records. Bytes that ``payload`` has returned stay valid."""

    def report(
        self, first: int, stop: int, base_offset: int, timestamp_ms: int, error: KafkaError | None
    ) -> list[Any] | None:
        """Store the result of the records *first* to *stop* - 1. Each record gets exactly one report.

        The call that stores the last report completes the batch: it wakes waiting callers, and returns the
        list of callbacks for ``call_back``. Earlier calls return None.
        """
        with self._tracker.lock:
            if self._unreported < 0:
                self._unreported = self.count
            self._reports.append(DeliveryReport(first, stop, base_offset, timestamp_ms, error))
            self._has_failures |= error is not None
            self._unreported -= stop - first
            if self._unreported:
                return None
            self._reports.sort()
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
            if self._has_failures:
                self._count_unseen(callbacks)
            waiters, self.waiters = self.waiters, []
        self.release_records()
        for wake in waiters:
            wake()
        return callbacks

    def fail_unreported(self, error: KafkaError) -> list[Any]:
        """Store *error* as the result of every record that has no result yet. The batch must be sealed.

        Returns the list of callbacks for ``call_back``, which the caller must call.
        """
        reported = sorted((report.first, report.stop) for report in self._reports)
        callbacks: list[Any] | None = None
        position = 0
        for first, stop in [*reported, (self.count, self.count)]:
            if position < first or not reported:
                callbacks = self.report(position, first, -1, -1, error)
            position = stop
        return callbacks or []

    def report_of(self, index: int) -> DeliveryReport:
        """Return the report on record *index*. The batch must be done."""
        reports = self._reports
        if len(reports) == 1:
            return reports[0]
        return reports[bisect_right(reports, index, key=_first_of) - 1]

    def reports(self, first: int, stop: int) -> Iterator[DeliveryReport]:
        """Yield reports for the records *first* to *stop* - 1, in order. The batch must be done."""
        for report in self._reports:
            start, end = max(first, report.first), min(stop, report.stop)
            if start < end:
                offset = report.base_offset
                yield DeliveryReport(
                    start,
                    end,
                    offset if offset < 0 else offset + start - report.first,
                    report.timestamp_ms,
                    report.error,
                )

    def exception(self, index: int, timeout: float | None) -> KafkaError | None:
        """Wait until record *index* has a result. Return its error; None if the record is stored.

        Raises KafkaTimeoutError if there is no result after *timeout* seconds.
        """
        if not self.done and not self.wait(index, index + 1, timeout):
            raise KafkaTimeoutError(
                f"a record to {self.topic}-{self.partition} was not confirmed within {timeout or 0:.3g} s; "
                "it may still be delivered"
            )
        error = self.report_of(index).error
        if error is None:
            return None
        self.mark_seen(index, index + 1)
        return for_another(error)

    def result(self, index: int, timestamp_ms: int, timeout: float | None) -> RecordMetadata:
        """Wait until record *index* has a result, and return its metadata. *timestamp_ms* is the record's own
        timestamp.

        Raises the error of the record if it failed, and KafkaTimeoutError if there is no result after
        *timeout* seconds.
        """
        error = self.exception(index, timeout)
        if error is not None:
            raise error
        report = self.report_of(index)
        offset = report.base_offset
        return RecordMetadata(
            self.topic,
            self.partition,
            offset if offset < 0 else offset + index - report.first,
            timestamp_ms if report.timestamp_ms < 0 else report.timestamp_ms,
        )

    def stored_metadata(self, index: int, timestamp_ms: int) -> RecordMetadata | None:
        """Return the metadata of record *index* if it is stored at a known offset; otherwise None. Does not
        wait. *timestamp_ms* is the record's own timestamp."""
        if not self.done:
            return None
        report = self.report_of(index)
        if report.error is not None or report.base_offset < 0:
            return None
        return self.result(index, timestamp_ms, 0)

    def pickled_report(self, index: int) -> tuple[Any, ...]:
        """Return the report on record *index* in a form that can be pickled. Raises TypeError if there is no
        report yet."""
        if not self.done:
            raise TypeError("a Delivery without a result cannot be pickled; call its result() first")
        report = self.report_of(index)
        offset = report.base_offset
        return index, index + 1, offset if offset < 0 else offset + index - report.first, *report[3:]

    def restore_report(self, report: tuple[Any, ...]) -> None:
        """Mark this batch as done. Its only report is *report*, which :meth:`pickled_report` has returned."""
        self.done = True
        self._reports = [DeliveryReport(*report)]

    def describe(self, index: int) -> str:
        """Return the text that ``repr`` shows for the Delivery of record *index*."""
        state = "under way"
        if self.done:
            report = self.report_of(index)
            if report.error is not None:
                state = f"failed: {report.error}"
            elif report.base_offset < 0:
                state = "sent, offset unknown"
            else:
                state = f"stored at offset {report.base_offset + index - report.first}"
        return f"<Delivery to {self.topic}-{self.partition}, {state}>"

    def wait(self, first: int, stop: int, timeout: float | None) -> bool:
        """Wait until the batch is done, for at most *timeout* seconds. Return True if it is done.

        In that case, the failures of the records *first* to *stop* - 1 count as seen by the user.
        """
        indexes = range(first, stop)
        with self._tracker.lock:
            if self.done:
                return True
            self._seen.update(indexes)
        try:
            return self._tracker.wait(self, timeout) or not self._stop_watching(indexes)
        except BaseException:
            self._stop_watching(indexes)
            raise

    def _stop_watching(self, indexes: range) -> bool:
        """Remember that a caller no longer waits for the records with *indexes*, and will not see their
        failures. Return True. If the batch is done, do nothing and return False."""
        with self._tracker.lock:
            if not self.done:
                self._seen.difference_update(indexes)
            return not self.done

    def mark_seen(self, first: int, stop: int) -> None:
        """Remember that the user has seen the failures of the records *first* to *stop* - 1. The batch must
        be done."""
        with self._tracker.lock:
            for report in self.reports(first, stop):
                if report.error is not None:
                    fresh = set(range(report.first, report.stop)) - self._seen
                    self._seen |= fresh
                    if fresh:
                        self._tracker.unseen(self, -len(fresh), report.error)

    def add_callback(self, delivery: Any, callback: Callable[[Any], object]) -> bool:
        """Store a callback, so that ``callback(delivery)`` is called when the batch is done. Return False if
        the batch is done already."""
        with self._tracker.lock:
            if not self.done:
                self._callbacks.extend((delivery, callback))
            return not self.done

    def _count_unseen(self, callbacks: list[Any]) -> None:
        """Tell the tracker how many failures neither a callback nor a waiting caller will see. *callbacks* is
        the list [delivery, callback, …] of the callbacks that will be called."""
        failed = [report for report in self._reports if report.error is not None]
        self._seen.update([delivery.batch_and_index[1] for delivery in callbacks[::2]])
        for report in failed:
            seen = sum(report.first <= index < report.stop for index in self._seen)
            if report.error is not None and report.stop - report.first > seen:
                self._tracker.unseen(self, report.stop - report.first - seen, report.error)


def _first_of(report: DeliveryReport) -> int:
    return report.first
