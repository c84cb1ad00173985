"""The outcomes of the records that one call of ``send_many`` or ``send_arrow`` has sent."""

import time
from typing import TypeAlias

from pyklient import argument_checks
from pyklient.counted import counted
from pyklient.errors import DeliveryError, KafkaError, KafkaTimeoutError
from pyklient.kernel import Batch
from pyklient.topic_partition import TopicPartition

__all__ = ["BulkDelivery"]

_Run: TypeAlias = tuple[Batch, int, int]
"""Consecutive records of a batch: the batch, the index of the first record, and the index after the last
record."""


class BulkDelivery:
    """A handle on the outcomes of the records that one ``send_many`` or ``send_arrow`` has sent.

    A BulkDelivery needs little memory, because it stores consecutive records of a batch as one pair of
    indexes.
    """

    def __init__(self) -> None:
        self.count = 0
        """The number of records that were sent."""
        self._runs: list[_Run] = []
        self._last: dict[int, int] = {}
        """For each partition, the index of its last entry in ``_runs``. If the next records follow in the
        same batch, ``add`` extends this entry."""

    def __repr__(self) -> str:
        state = "done" if self.done() else "under way"
        return f"<BulkDelivery of {counted(self.count, 'record')}, {state}>"

    def done(self) -> bool:
        """Return True if the outcome of every record is known."""
        return all(batch.done for batch, _, _ in self._runs)

    def result(self, timeout: float | None = None) -> dict[TopicPartition, list[range]]:
        """Wait for the outcomes of all records. Return the offsets of the records, as ranges by partition.

        Offsets that are not known are left out; with ``acks=0``, none is known. Raises DeliveryError if
        records have failed. Raises KafkaTimeoutError if not all outcomes are known after *timeout* seconds:
        the records may still be delivered.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        ranges: dict[TopicPartition, list[range]] = {}
        for batch, first, stop in self._runs:
            found = ranges.setdefault(TopicPartition(batch.topic, batch.partition), [])
            for outcome in batch.reports(first, stop):
                start, end = outcome.base_offset, outcome.base_offset + outcome.stop - outcome.first
                if found and found[-1].stop == start:
                    found[-1] = range(found[-1].start, end)
                elif start >= 0:
                    found.append(range(start, end))
        return ranges

    def exception(self, timeout: float | None = None) -> DeliveryError | None:
        """Wait for the outcomes of all records. Return a DeliveryError if records have failed, or None.

        Raises KafkaTimeoutError if not all outcomes are known after *timeout* seconds.
        """
        seconds = argument_checks.seconds_or_none(timeout, "timeout")
        deadline = None if seconds is None else time.monotonic() + seconds
        # The newest first, as in DeliveryTracker.wait_for_all.
        for batch, first, stop in reversed(self._runs):
            left = None if deadline is None else deadline - time.monotonic()
            if not batch.wait(first, stop, left):
                unconfirmed = (
                    "1 record was not" if self.count == 1 else f"not all of {self.count:,} records were"
                )
                raise KafkaTimeoutError(
                    f"{unconfirmed} confirmed within {timeout:.3g} s; unconfirmed records may still be "
                    "delivered"
                )
        failed: KafkaError | None = None
        count = 0
        for batch, first, stop in self._runs:
            batch.mark_seen(first, stop)
            for outcome in batch.reports(first, stop):
                if outcome.error is not None:
                    failed = failed or outcome.error
                    count += outcome.stop - outcome.first
        if failed is None:
            return None
        topic = self._runs[0][0].topic
        error = DeliveryError(
            f"{count:,} of {counted(self.count, 'record')} for {topic} {'was' if count == 1 else 'were'} not "
            f"delivered, {'' if count == 1 else 'the first '}because {failed}",
            count,
            {topic: failed},
        )
        error.__cause__ = failed
        return error

    def note_on(self, error: BaseException, call: str) -> None:
        """Add a note to *error*, which a call of ``send_many`` or ``send_arrow`` raises. The note says how
        many records were sent before the error. *call* is the name of the method."""
        sent = f"{self.count:,} record{' was' if self.count == 1 else 's were'}"
        error.add_note(f"{sent} sent by this {call} before the error")

    def add(self, batch: Batch, first: int, stop: int) -> None:
        """Add the records *first* to *stop* - 1 of *batch*. The caller adds records in the order in which
        they were sent."""
        self.count += stop - first
        index = self._last.get(batch.partition)
        if index is not None:
            last, start, end = self._runs[index]
            if last is batch and end == first:
                self._runs[index] = (batch, start, stop)
                return
        self._last[batch.partition] = len(self._runs)
        self._runs.append((batch, first, stop))
