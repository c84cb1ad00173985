"""The function ``read``, which reads the messages of topics between two points, and then ends."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar, Unpack

from pyklient import argument_checks
from pyklient.config import DEFAULT_SERVERS, NOT_READ, ConsumerConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.keyword_types import ReadOptions
from pyklient.consumer.commit.offset_storages.saved_positions import SavedPositions
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import ClosedError, ConfigurationError, OffsetOutOfRangeError
from pyklient.kernel import Lease, Message
from pyklient.net.dialogue import Dialogue
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.net.lookups.topic_partitions import partitions_of
from pyklient.net.network_client import NetworkClient
from pyklient.offset_stores.offset_store import OffsetStore, StoredPosition
from pyklient.serialization import Decoder, as_decoder
from pyklient.topic_partition import TopicPartition

__all__ = ["BoundedRead", "read"]

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table

_T = TypeVar("_T")
Point: TypeAlias = int | datetime
Bound: TypeAlias = Point | Mapping[TopicPartition, Point] | None

_CLOSE_TIMEOUT = 2.0
_UNKNOWN_TOPIC_TRIES = 4


def read(
    bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS,
    topics: str | Sequence[str] = (),
    *,
    start: Bound = None,
    end: Bound = None,
    key_decoder: Decoder | None = None,
    value_decoder: Decoder | None = None,
    offset_store: OffsetStore | None = None,
    group_id: str | None = None,
    **options: Unpack[ReadOptions],
) -> "BoundedRead":
    """Return a BoundedRead, which iterates over all messages of *topics* from *start* up to, but not
    including, *end*.

    *start* and *end* are each an offset, a datetime with a time zone (which means the first message at or
    after it), or a mapping from TopicPartition to such values. If *start* is None, or a partition is not in
    its mapping, reading begins at the first offset. If *end* is None, or a partition is not in its mapping,
    reading ends at the end of the log at the time of the call: the high watermark, or under
    ``read_committed`` the last stable offset. A later *end* is reduced to the end of the log. The offsets of
    *start* and *end* are looked up before this function returns.

    A read hands out each message once. If a loop is left, the next loop continues where that one stopped.
    After the end, a new loop raises ClosedError.

    With *offset_store*, a partition begins at the position that is stored for the group *group_id*. If none
    is stored, it begins at *start*, and this offset is stored. The program calls ``save_offsets`` of the
    returned object in the transaction that stores its results. The next read then begins after the messages
    of these results.

    Raises BrokerError for a topic that does not exist. Iteration raises OffsetOutOfRangeError if the log does
    not have the offset *start* or the stored position any more. It raises ConsumerTimeout when no message
    arrives for ``consumer_timeout_ms`` (by default ``default_api_timeout_ms``). The options are those of
    ``ConsumerConfig``.
    """
    config = _config(bootstrap_servers, options, offset_store, group_id)
    names = argument_checks.names(topics, "topics")
    if not names:
        raise ConfigurationError("read() needs topics; pass the name of at least one topic")
    times = _Times(start), _Times(end)
    decoding = Decoding(
        as_decoder(key_decoder, "key_decoder"),
        as_decoder(value_decoder, "value_decoder"),
        config.check_crcs,
        config.max_decompressed_bytes,
        on_corrupt=config.corrupt_handler,
    )
    client = NetworkClient(config)
    try:
        level = int(config.isolation_level == "read_committed")
        bounds = client.play(_bounds(names, *times, level), config.default_api_timeout_ms / 1000)
        stored = _Stored(client, config, bounds, *times)
    except BaseException:
        client.close()
        raise
    return BoundedRead(client, config, names, decoding, stored.bounds, exact=stored.exact, stored=stored)


def _config(
    bootstrap_servers: str | Sequence[str],
    options: ReadOptions,
    offset_store: OffsetStore | None,
    group_id: str | None,
) -> ConsumerConfig:
    """Return the config of a :func:`read`. Raises ConfigurationError for options that :func:`read` does not
    have."""
    given = by_option_name(ConsumerConfig, bootstrap_servers, options)
    taken = sorted(NOT_READ & given.keys())
    if offset_store is not None:
        given |= {"offset_store": offset_store, "group_id": group_id}
    elif group_id is not None:
        taken.append("group_id")
    if taken:
        raise ConfigurationError(
            f"read() belongs to no group and commits nothing; remove the options {', '.join(taken)}"
        )
    return ConsumerConfig.from_options(given)


class BoundedRead:
    """The messages of a :func:`read`.

    Iteration, :meth:`batches` and :meth:`arrow_batches` share one position. After the end, and after
    :meth:`close`, a new loop raises ClosedError.

    A BoundedRead closes itself when it has reached its end, when the program no longer refers to it, and at
    the end of a ``with`` block. It then closes the connections of *client* too. If *keeps_client* is true,
    the connections stay open, because another read still uses them. If *exact* returns True for a partition,
    the first offset to read must exist in the log of this partition. *stored* has the positions in the offset
    store, at which the partitions begin; None if there is no offset store.
    """

    def __init__(
        self,
        client: NetworkClient,
        config: ConsumerConfig,
        topics: Sequence[str],
        decoding: Decoding,
        bounds: Mapping[TopicPartition, tuple[int, int]],
        *,
        exact: Callable[[TopicPartition], bool],
        keeps_client: bool = False,
        stored: "_Stored | None" = None,
    ) -> None:
        self.bounds = dict(bounds)
        """The bounds of each partition: the offset at which reading begins, and the offset before which it
        ends."""
        self._client = client
        self._keeps_client = keeps_client
        self._fetchers = FetcherManager(client, config)
        timeout_ms = config.consumer_timeout_ms
        timeout = (config.default_api_timeout_ms if timeout_ms < 0 else timeout_ms) / 1000
        self._stream = StreamCore(topics, decoding, timeout, self._fetchers.restart, Lease())
        self._saved = None if stored is None else stored.begin(self._stream)
        self._cursors = [
            Cursor(
                OwnedPartition(each),
                position=first,
                reset="none" if exact(each) else "earliest",
                end=last,
            )
            for each, (first, last) in bounds.items()
            if first < last
        ]
        self._stream.end_with(self._cursors)
        self._started = False
        self._ended = False
        self._closed = False

    def __iter__(self) -> Iterator[Message]:
        self._check_open()
        return chain.from_iterable(self._to_the_end(self._stream.chunks()))

    def batches(self, max_records: int = 10_000) -> Iterator[list[Message]]:
        """Return an iterator over lists of 1 to *max_records* messages. The iterator waits only for the first
        message of each list."""
        most = argument_checks.whole(max_records, "max_records", low=1)
        self._check_open()
        return filter(None, self._to_the_end(self._stream.batches(most, None)))

    def arrow_batches(
        self,
        max_records: int = 100_000,
        headers: bool = False,
        columns: Iterable[str] | None = None,
    ) -> "Iterator[RecordBatch]":
        """Return an iterator of ``pyarrow.RecordBatch`` objects, each of up to *max_records* records of one
        partition.

        The batches are made as their records are fetched, and none is empty. If *headers* is true, there is
        also a column with the headers. *columns* names the columns to return, in their order; None means all
        of them. Raises ImportError if pyarrow is not installed, and ConfigurationError if keys or values have
        decoders or *columns* has a wrong name (see ``KafkaStream.arrow_batches``).
        """
        batches = self._stream.arrow_batches(max_records, None, headers, columns)
        self._check_open()
        return self._to_the_end(batches)

    def to_arrow(self, headers: bool = False, columns: Iterable[str] | None = None) -> "Table":
        """Return one ``pyarrow.Table`` in memory with all records that are still to be read. If *headers* is
        true, there is also a column with the headers. *columns* names the columns to return, in their order;
        None means all of them. Errors are those of :meth:`arrow_batches`."""
        from pyklient.consumer.stream.arrow_batches import column_names, table

        names = column_names(columns, headers=headers)
        batches = self.arrow_batches(headers=headers, columns=None if columns is None else names)
        return table(batches, names)

    def save_offsets(self, transaction: Any) -> None:
        """Save the positions of this read in its offset store, in *transaction*, such as a connection to the
        database. The positions include the message or batch that the loop is handling.

        Call this method once in each transaction, in the thread that reads. The transaction must contain the
        results of all messages that were handed out since the last save. It may contain the whole read: this
        method also works after the end, and after :meth:`close`. If the transaction was rolled back, the
        program may repeat it as a whole, as long as the loop has not asked for the next message.

        Raises OffsetStoreFencedError if these results must not be stored, because another read or connector
        has acquired the partitions: let the error roll the transaction back, then call :func:`read` again.
        Raises ConfigurationError if the read has no ``offset_store``.
        """
        if self._saved is None:
            raise ConfigurationError(
                "this read has no offset store: pass offset_store=… and group_id=… to read()"
            )
        self._stream.check_not_forked()
        self._stream.check_not_read_elsewhere()
        self._saved.save(transaction, self._stream)

    def close(self) -> None:
        """Stop reading, and close the connections. Further calls do nothing."""
        self._close(_CLOSE_TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._close(0)

    def __repr__(self) -> str:
        return f"<read of {self._stream.name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "the result of read() cannot be pickled; call read() in the process that uses the messages"
        )

    def _check_open(self) -> None:
        if self._closed:
            state = "has come to its end" if self._ended else "has been closed"
            raise ClosedError(f"this result of read() {state}; call read() again")

    def _to_the_end(self, parts: Iterator[_T]) -> Iterator[_T]:
        """Yield the items of *parts*, and close this BoundedRead after the last item. Until then, this
        generator keeps the BoundedRead alive."""
        if not self._started:
            self._started = True
            self._fetchers.start()
            self._fetchers.add([(cursor, self._stream.queue) for cursor in self._cursors])
        yield from parts
        self._ended = not self._closed
        self.close()

    def _close(self, timeout: float) -> None:
        if not self._closed:
            self._closed = True
            if self._stream.forked:
                return  # the threads are the parent's, and the locks as they happened to be
            self._stream.end()
            self._fetchers.close(0)
            if not self._keeps_client:
                self._client.close()
            self._fetchers.close(timeout)


class _Stored:
    """The stored positions at which a read begins, if *config* has an offset store.

    *bounds* are the bounds that the read would have without an offset store. If a partition has no stored
    position, its first offset in *bounds* is stored. *start* and *end* are arguments of :func:`read`.
    """

    def __init__(
        self,
        client: NetworkClient,
        config: ConsumerConfig,
        bounds: Mapping[TopicPartition, tuple[int, int]],
        start: "_Times",
        end: "_Times",
    ) -> None:
        self._found = bounds
        self._start = start
        self.bounds = dict(bounds)
        """The bounds of each partition: the stored position, and the offset before which reading ends."""
        self._saved: SavedPositions | None = None
        self._positions: dict[TopicPartition, StoredPosition] = {}
        if config.offset_store is None or config.group_id is None:
            return
        self._saved = SavedPositions(config.offset_store, config.group_id)
        self._positions = self._saved.acquire({each: first for each, (first, _) in bounds.items()})
        after_end = []
        for each, (offset, _) in self._positions.items():
            assert offset is not None, "an offset was given"
            last = bounds[each][1]
            if offset > last and end.point(each) is None:
                after_end.append(each)
            self.bounds[each] = offset, last
        if not after_end:
            return
        # Since the ends were looked up, another program may have stored positions after them.
        lookup = list_offsets(
            dict.fromkeys(after_end, LATEST), int(config.isolation_level == "read_committed")
        )
        ends = client.play(lookup, config.default_api_timeout_ms / 1000)
        for each in after_end:
            offset, last = self.bounds[each][0], ends[each].offset
            if offset > last:
                raise OffsetOutOfRangeError(
                    f"the stored position {offset} of {each} is after the end of the partition (offset "
                    f"{last}), perhaps because the topic was created again; call reset() of the offset store"
                )
            self.bounds[each] = (offset, last)

    def exact(self, partition: TopicPartition) -> bool:
        """Return True if the first offset to read must exist in the log, because it is a stored position or
        the caller has named it."""
        return self._start.is_offset(partition) or self.bounds[partition] != self._found[partition]

    def begin(self, stream: StreamCore) -> SavedPositions | None:
        """Return the object that saves the positions of *stream*, or None if there is no offset store."""
        if self._saved is not None:
            self._saved.begin(stream, self._positions)
        return self._saved


class _Times:
    """The argument ``start`` or ``end`` of :func:`read`, as the user gave it."""

    def __init__(self, bound: Bound) -> None:
        self._points = bound if isinstance(bound, Mapping) else None
        self._all = None if isinstance(bound, Mapping) else bound
        for point in [*(self._points or {}).values(), *([] if self._all is None else [self._all])]:
            _check(point)

    def point(self, partition: TopicPartition) -> Point | None:
        """Return the bound of *partition*. None stands for the beginning or the end of the log."""
        return self._all if self._points is None else self._points.get(partition)

    def reject_unknown(self, partitions: Sequence[TopicPartition]) -> None:
        """Raise ConfigurationError if a bound was given for a partition that is not one of *partitions*."""
        known = set(partitions)
        for key in self._points or ():
            if key not in known:
                raise ConfigurationError(
                    f"start or end has the key {key!r}, which is not a partition of the topics to read; "
                    f"use only keys such as {partitions[0]!r}"
                )

    def is_offset(self, partition: TopicPartition) -> bool:
        """Return True if the bound of *partition* is an offset. Return False if it is a time or if there is
        no bound."""
        return isinstance(self.point(partition), int)


def _check(point: object) -> None:
    if isinstance(point, datetime):
        if point.tzinfo is None:
            raise ConfigurationError(
                f"{point!r} has no time zone; give start and end a time zone, e.g. timezone.utc"
            )
    elif isinstance(point, bool) or not isinstance(point, int) or point < 0:
        raise ConfigurationError(
            f"start or end cannot be {point!r}: pass an offset of 0 or more, a datetime with a time zone, or "
            "a mapping from partitions to these; omit start to begin at the first record, and end to read to "
            "the end of the log"
        )


def _bounds(
    topics: Sequence[str], start: _Times, end: _Times, isolation_level: int
) -> Dialogue[dict[TopicPartition, tuple[int, int]]]:
    """Return the bounds of each partition of *topics*: the offset at which reading begins (*start*), and the
    offset before which it ends (*end*, or the end of the log if that is smaller)."""
    partitions = yield from partitions_of(topics, tries=_UNKNOWN_TOPIC_TRIES)
    for bound in (start, end):
        bound.reject_unknown(partitions)
    ends = yield from list_offsets(dict.fromkeys(partitions, LATEST), isolation_level)
    high = {each: ends[each].offset for each in partitions}
    first = yield from _resolve(partitions, start, dict.fromkeys(partitions, EARLIEST), high, by_segment=True)
    last = yield from _resolve(partitions, end, {}, high, by_segment=False)
    return {each: (first[each], min(last[each], high[each])) for each in partitions}


def _resolve(
    partitions: Sequence[TopicPartition],
    bound: _Times,
    open_ends: Mapping[TopicPartition, int],
    high: Mapping[TopicPartition, int],
    *,
    by_segment: bool,
) -> Dialogue[dict[TopicPartition, int]]:
    """Return the offset that *bound*, the start or the end of a read, means in each of *partitions*.

    For a partition without a bound, the result is the offset of its timestamp in *open_ends*, such as
    EARLIEST. *high* has the offset after the last record that may be read: the result if a partition has
    neither a bound nor a timestamp in *open_ends*, or if its bound is a time after all its records. If
    *by_segment* is true, brokers that do not know the times of records may return the offset of an earlier
    record.
    """
    found = dict(high)
    asked = dict(open_ends)
    for each in partitions:
        point = bound.point(each)
        if isinstance(point, datetime):
            asked[each] = int(point.timestamp() * 1000)
        elif point is not None:
            found[each] = point
            asked.pop(each, None)
    if asked:
        listed = yield from list_offsets(asked, by_segment=by_segment)
        found.update((each, at.offset) for each, at in listed.items() if at.offset >= 0)
    return found
