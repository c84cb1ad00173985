"""Many records in one call, and one object for what becomes of them."""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from typing import Any, Final

from pyklient import argument_checks
from pyklient.errors import ConfigurationError, DeliveryError, KafkaError, KafkaTimeoutError
from pyklient.protocol.records.kernel import Appender, Batch, Delivery
from pyklient.topic_partition import TopicPartition

__all__ = ["BulkDelivery", "send_many"]

_AT_ONCE: Final = 1_000
"""Values taken from the user's iterable before they are appended."""

_END: Final = object()

_Run = tuple[Batch, int, int]
"""A batch, and the first and last + 1 of the places of records in it."""


class BulkDelivery:
    """What becomes of the records of one ``send_many`` or ``send_arrow``. Light: it knows runs only."""

    def __init__(self) -> None:
        self.count = 0
        """How many records they are."""
        self._runs: list[_Run] = []
        # Of each partition the last run, by its place: records may alternate between partitions.
        self._last: dict[int, int] = {}

    def __repr__(self) -> str:
        state = "done" if self.done() else "under way"
        return f"<BulkDelivery of {self.count} records, {state}>"

    def done(self) -> bool:
        """Whether the outcome of every record is known."""
        return all(batch.done for batch, _, _ in self._runs)

    def result(self, timeout: float | None = None) -> dict[TopicPartition, list[range]]:
        """The offsets of the records, as ranges by partition, once all are known.

        There is no range where offsets are not known, as with ``acks=0``. Raises what ``exception``
        returns, and KafkaTimeoutError after *timeout* seconds: the records may still be delivered.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        ranges: dict[TopicPartition, list[range]] = {}
        for batch, first, stop in self._runs:
            found = ranges.setdefault(TopicPartition(batch.topic, batch.partition), [])
            for outcome in batch.outcomes(first, stop):
                start, end = outcome.base_offset, outcome.base_offset + outcome.stop - outcome.first
                if found and found[-1].stop == start:
                    found[-1] = range(found[-1].start, end)
                elif start >= 0:
                    found.append(range(start, end))
        return ranges

    def exception(self, timeout: float | None = None) -> DeliveryError | None:
        """A DeliveryError for the records that have failed, once all outcomes are known; None if all were
        delivered. Times out as ``result`` does."""
        patience = argument_checks.patience(timeout, "timeout")
        deadline = None if patience is None else time.monotonic() + patience
        for batch, first, stop in self._runs:
            left = None if deadline is None else deadline - time.monotonic()
            if not batch.wait(first, stop, left):
                raise KafkaTimeoutError(
                    f"not all of {self.count:,} records were confirmed within {timeout:.3g} s; "
                    "they may still be delivered"
                )
        failed: KafkaError | None = None
        count = 0
        for batch, first, stop in self._runs:
            batch.see(first, stop)
            for outcome in batch.outcomes(first, stop):
                if outcome.error is not None:
                    failed = failed or outcome.error
                    count += outcome.stop - outcome.first
        if failed is None:
            return None
        topic = self._runs[0][0].topic
        error = DeliveryError(
            f"{count:,} of {self.count:,} records for {topic} were not delivered, the first because {failed}",
            count,
            {topic: failed},
        )
        error.__cause__ = failed
        return error

    def note_on(self, error: BaseException, call: str) -> None:
        """Note on *error*, which ends *call* early, how many records went before."""
        sent = f"{self.count:,} record{' was' if self.count == 1 else 's were'}"
        error.add_note(f"{sent} sent by this {call} before the error")

    def add(self, batch: Batch, first: int, stop: int) -> None:
        """More records, in the order in which they were sent."""
        self.count += stop - first
        place = self._last.get(batch.partition)
        if place is not None:
            last, start, end = self._runs[place]
            if last is batch and end == first:
                self._runs[place] = (batch, start, stop)
                return
        self._last[batch.partition] = len(self._runs)
        self._runs.append((batch, first, stop))


def send_many(
    appender: Appender,
    send: Callable[..., Delivery],
    topic: str,
    values: Iterable[Any],
    keys: Iterable[Any] | None,
    headers: Iterable[Any] | None,
    partition: int | None,
    timestamps_ms: Iterable[int | None] | None,
) -> BulkDelivery:
    """See Producer.send_many. *send* is the producer's."""
    bulk = BulkDelivery()
    try:
        if keys is None and headers is None and timestamps_ms is None:
            for chunk in _chunks(values):
                _send_chunk(bulk, appender, send, topic, chunk, partition)
        else:
            for value, key, pairs, timestamp_ms in _rows(values, keys, headers, timestamps_ms):
                batch, index = send(topic, value, key, partition, timestamp_ms, pairs).place
                bulk.add(batch, index, index + 1)
    except BaseException as error:
        bulk.note_on(error, "send_many")
        raise
    return bulk


def _send_chunk(
    bulk: BulkDelivery,
    appender: Appender,
    send: Callable[..., Delivery],
    topic: str,
    chunk: list[Any],
    partition: int | None,
) -> None:
    done = 0
    while done < len(chunk):
        run = appender.append_many(topic, partition, chunk, done)
        if run is None:
            batch, index = send(topic, chunk[done], None, partition).place
            run = (batch, index, index + 1)
        bulk.add(*run)
        done += run[2] - run[1]


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """*values* in lists; if it raises, what it gave before comes first."""
    iterator = iter(values)
    while True:
        chunk: list[Any] = []
        try:
            chunk.extend(islice(iterator, _AT_ONCE))
        except BaseException:
            yield chunk
            raise
        if not chunk:
            return
        yield chunk


def _rows(values: Iterable[Any], *others: Iterable[Any] | None) -> Iterator[tuple[Any, ...]]:
    """*values* side by side with the others, None where there are none; a ConfigurationError where they
    are not as many."""
    iterators = [repeat(None) if other is None else iter(other) for other in others]
    given = [iterator for iterator, other in zip(iterators, others, strict=True) if other is not None]
    for value in values:
        row = [next(iterator, _END) for iterator in iterators]
        if _END in row:
            break
        yield (value, *row)
    else:
        if all(next(iterator, _END) is _END for iterator in given):
            return
    raise ConfigurationError("keys, headers and timestamps_ms must each have as many items as values")
