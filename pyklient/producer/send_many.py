"""Sends the records of one call of ``Producer.send_many``.

The records are read, encoded and appended in groups of up to 1,000. Such a group is a chunk, and each list of
a chunk has one item for each of its records. If an iterable or a function of the user raises an exception for
a record, the earlier records are sent first.
"""

import operator
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.kernel import UserFunctions, append_many, checked_partition, encoded_bytes
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.bulk_delivery import BulkDelivery

__all__ = ["send_many"]

_AT_ONCE: Final = 1_000
"""The largest number of records that are read, encoded and appended together (a chunk)."""

_END: Final = object()


def send_many(
    accumulator: RecordAccumulator,
    topic: str,
    values: Iterable[Any],
    keys: Iterable[Any] | None,
    headers: Iterable[Any] | None,
    partition: int | None,
    timestamps_ms: Iterable[int | None] | None,
) -> BulkDelivery:
    """Send many records. ``Producer.send_many`` describes the arguments and errors."""
    if partition is not None and not isinstance(partition, bool):
        with suppress(TypeError):  # a wrong type is an error of the first record
            partition = operator.index(partition)
    bulk = BulkDelivery()
    try:
        for chunk in _chunks(values, keys, headers, timestamps_ms):
            chunk.encode(accumulator.functions)
            if partition is None:
                chunk.choose_partitions(accumulator, topic)
            _send_chunk(bulk, accumulator, topic, partition, chunk)
            if chunk.error is not None:
                raise chunk.error
    except BaseException as error:
        bulk.note_on(error, "send_many")
        raise
    return bulk


class _Chunk:
    """Records that were read together. ``error`` is the exception to raise after they are sent."""

    def __init__(self) -> None:
        self.count = _AT_ONCE
        self.error: BaseException | None = None
        self.values: list[Any] = []
        self.keys: list[Any] | None = None
        self.headers: list[Any] | None = None
        self.timestamps_ms: list[Any] | None = None
        self.chosen: list[int | None] | None = None
        """The partitions that the user's partitioner has chosen, or None if there is no partitioner. The
        partition of a record whose key is not bytes is not chosen yet, and is None."""

    def read(self, items: Iterator[Any]) -> list[Any]:
        """Return the next items of *items*, one for each record of the chunk. If *items* ends early or raises
        an exception, shorten the chunk to the records whose items were read."""
        items_read: list[Any] = []
        try:
            items_read.extend(islice(items, self.count))
        except BaseException as error:
            self.error = error
        self.count = len(items_read)
        return items_read

    def read_beside(self, items: Iterator[Any] | None) -> list[Any] | None:
        """Do the same as ``read`` for *items* that belong to the values, such as keys. If *items* ends early,
        set ``error``. Return None if *items* is None."""
        if items is None:
            return None
        count, before = self.count, self.error
        items_read = self.read(items)
        if len(items_read) < count and self.error is before:
            self.error = _different_lengths()
        return items_read

    def encode(self, functions: UserFunctions) -> None:
        """Replace the keys and values by the results of the user's encoders."""
        if functions.key_encoder is not None:
            keys = [None] * self.count if self.keys is None else self.keys
            self.keys = self.read(_encoded("key", functions.key_encoder, keys))
        if functions.value_encoder is not None:
            self.values = self.read(_encoded("value", functions.value_encoder, self.values))

    def choose_partitions(self, accumulator: RecordAccumulator, topic: str) -> None:
        """Call the user's partitioner, if there is one, for each record. Wait for the metadata of *topic* if
        needed."""
        partitioner = accumulator.functions.partitioner
        if partitioner is not None and self.count:
            accumulator.raise_if_held()
            accumulator.start()
            count = accumulator.choice.partition_count(topic, accumulator.deadline())
            keys = [None] * self.count if self.keys is None else self.keys
            self.chosen = self.read(_choices(partitioner, topic, keys, count))


def _send_chunk(
    bulk: BulkDelivery, accumulator: RecordAccumulator, topic: str, partition: int | None, chunk: _Chunk
) -> None:
    values, keys, headers, times, chosen = (
        chunk.values,
        chunk.keys,
        chunk.headers,
        chunk.timestamps_ms,
        chunk.chosen,
    )
    partitions = partition if chosen is None else chosen
    done = 0
    while done < chunk.count:
        appended, runs = append_many(
            accumulator.appender, topic, done, values, keys, headers, times, partitions
        )
        if not appended:
            delivery = accumulator.append_slowly(
                topic,
                values[done],
                None if keys is None else keys[done],
                partition,
                None if times is None else times[done],
                None if headers is None else headers[done],
                encoded=True,
                chosen=None if chosen is None else chosen[done],
            )
            batch, index = delivery.batch_and_index
            appended, runs = 1, [(batch, index, index + 1)]
        for run in runs:
            bulk.add(*run)
        done += appended


def _chunks(values: Iterable[Any], *others: Iterable[Any] | None) -> Iterator[_Chunk]:
    """Yield *values* in chunks, together with the keys, the headers and the timestamps in *others*.

    Raises ConfigurationError if the iterables differ in length.
    """
    keys, headers, timestamps_ms = [None if other is None else iter(other) for other in others]
    iterator = iter(values)
    is_last = False
    while not is_last:
        chunk = _Chunk()
        chunk.values = chunk.read(iterator)
        is_last = chunk.count < _AT_ONCE
        chunk.keys = chunk.read_beside(keys)
        chunk.headers = chunk.read_beside(headers)
        chunk.timestamps_ms = chunk.read_beside(timestamps_ms)
        yield chunk
    if not all(each is None or next(each, _END) is _END for each in (keys, headers, timestamps_ms)):
        raise _different_lengths()


def _different_lengths() -> ConfigurationError:
    return ConfigurationError("keys, headers and timestamps_ms must each have as many items as values")


def _encoded(what: str, encoder: Any, given: list[Any]) -> Iterator[bytes | None]:
    """Yield the result of *encoder* for each of *given*, which are keys or values. *what* is "key" or
    "value"."""
    for each in given:
        data = encoder(each)
        yield data if data is None or data.__class__ is bytes else encoded_bytes(what, each, data)


def _choices(partitioner: Any, topic: str, keys: list[Any], count: int) -> Iterator[int | None]:
    """Yield the partition that *partitioner* chooses for each of *keys*, or None for a key that is not
    bytes."""
    for key in keys:
        if key is not None and key.__class__ is not bytes:
            yield None
        else:
            number = partitioner(topic, key, count)
            is_plain = number.__class__ is int and 0 <= number < count
            yield number if is_plain else checked_partition(topic, number, count)
