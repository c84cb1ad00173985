"""Sends the records of one call of ``Producer.send_many``."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.kernel import Appender, Delivery
from pyklient.producer.bulk_delivery import BulkDelivery

__all__ = ["send_many"]

_AT_ONCE: Final = 1_000
"""The number of values that are read from the user's iterable before they are appended to batches."""

_END: Final = object()


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
    """Send many records, for ``Producer.send_many``, which describes the arguments and errors.

    *appender* is the producer's Appender. *send* is the producer's method ``send``, which sends the records
    that the kernel cannot append.
    """
    bulk = BulkDelivery()
    try:
        if keys is None and headers is None and timestamps_ms is None:
            for chunk in _chunks(values):
                _send_chunk(bulk, appender, send, topic, chunk, partition)
        else:
            for value, key, pairs, timestamp_ms in _rows(values, keys, headers, timestamps_ms):
                batch, index = send(topic, value, key, partition, timestamp_ms, pairs).batch_and_index
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
            batch, index = send(topic, chunk[done], None, partition).batch_and_index
            run = (batch, index, index + 1)
        bulk.add(*run)
        done += run[2] - run[1]


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the items of *values* in lists. If *values* raises an exception, yield the items that it has
    returned so far, and then raise the exception."""
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
    """Yield tuples that contain one item of *values* and one item of each of *others*. If one of *others* is
    None, its items are None.

    Raises ConfigurationError if the iterables differ in length.
    """
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
