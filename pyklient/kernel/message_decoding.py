"""Along a fetched buffer, batch by batch, and to messages: what both kernels have in common.

Nothing here runs once per record. What does is the kernel's own: its :class:`Loops`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crc32c import crc32c

from pyklient.errors import CorruptRecordError
from pyklient.kernel.decoded_messages import Chunk, Run, RunChunk
from pyklient.protocol.records.aborted import AbortedTransactions
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED, compression_of, decompress
from pyklient.protocol.records.layout import (
    ABORT,
    ATTRIBUTES_AT,
    BATCH,
    BATCH_SIZE,
    CONTROL_BIT,
    COUNT_AT,
    CREATE_TIME,
    INT64_MAX,
    LOG_APPEND_TIME,
    MAGIC_AT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Buffer,
    Columns,
    batch_end,
)
from pyklient.protocol.records.message_set import parse_entry

if TYPE_CHECKING:
    from pyklient.kernel._message_py import Message

__all__ = ["ENOUGH_BYTES", "Loops", "Reader", "control_type", "decode", "size_of"]

_ENOUGH_MESSAGES: Final = 1_000
ENOUGH_BYTES: Final = 4 << 20
"""A chunk is closed after the batch that reaches one of these, so that it stays small beside its frame."""


class Loops(NamedTuple):
    """What a kernel does for each record."""

    parse_records: Callable[[Buffer, int, int, int, int], Columns]
    parse_messages: Callable[[Buffer, int, int, int, int, int | None, str, int, int], "list[Message]"]
    make_messages: Callable[[str, int, int, Columns], "list[Message]"]
    parse_run: Callable[[Buffer, int, int, int, int, int | None, str, int, int], Run] | None = None
    """``parse_messages``, but for a batch of so many that they are better made one at a time."""


def decode(
    loops: Loops,
    buffer: Buffer,
    topic: str,
    partition: int,
    start_offset: int,
    *,
    position: int = 0,
    check_crcs: bool = True,
    aborted: AbortedTransactions | None = None,
    key_decoder: Callable[[bytes | None], Any] | None = None,
    value_decoder: Callable[[bytes | None], Any] | None = None,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
) -> Chunk:
    """The next messages of a fetched *buffer*, from byte *position* on, at *start_offset* and above.

    Whole batches are decoded until the chunk has enough of them, and *buffer* must not change until the
    chunk's messages have been handed out; go on at ``position + chunk.nbytes`` with
    ``chunk.next_offset`` and the same *aborted*. A chunk without messages and with ``nbytes`` 0 is the end:
    what is left of the buffer is an incomplete batch. Control batches, and those that *aborted* covers,
    are passed over; without *aborted* everything is read (``read_uncommitted``).

    Raises CorruptRecordError, UnsupportedCodecError or MessageTooLargeError for bad bytes, and whatever a
    decoder raises, with a note of the place; always only once the messages before it have been returned.
    """
    reader = _MessageReader(loops, start_offset, check_crcs, aborted, max_decompressed)
    reader.topic = topic
    reader.partition = partition
    reader.key_decoder = key_decoder
    reader.value_decoder = value_decoder
    nbytes = reader.read(buffer, position)
    if reader.run is not None:
        return RunChunk(topic, partition, reader.run, reader.next_offset, nbytes)
    return Chunk(topic, partition, reader.messages, reader.next_offset, nbytes)


class Reader(ABC):
    """Goes along the batches of a buffer; what becomes of their records is for those who derive from it."""

    def __init__(
        self,
        loops: Loops,
        start_offset: int,
        check_crcs: bool,
        aborted: AbortedTransactions | None,
        max_decompressed: int,
    ) -> None:
        self.loops = loops
        self.next_offset = start_offset
        self.nbytes = 0
        """Bytes of records taken in, decompressed."""
        self._check_crcs = check_crcs
        self._aborted = aborted
        self._max_decompressed = max_decompressed

    @property
    @abstractmethod
    def count(self) -> int:
        """Records taken in so far."""

    @abstractmethod
    def wants(self, batch: memoryview) -> bool:
        """Whether to go on to *batch*."""

    @abstractmethod
    def take_batch(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        """Take in the records from ``next_offset`` on of a batch of format 2 with the section *data*."""

    @abstractmethod
    def take_entry(self, columns: Columns, kind: int) -> None:
        """Take in the records from ``next_offset`` on of an entry of format 0 or 1."""

    def read(self, buffer: Buffer, position: int) -> int:
        """Take in whole batches from byte *position* on. → the bytes that they take up in *buffer*.

        What is wrong with a batch is raised only if it is the first, and nothing of it has been taken in:
        otherwise what comes before is returned, if only to be passed over, and a later call begins there.
        """
        view = memoryview(buffer)
        start = position
        try:
            while (end := batch_end(view, position)) and self.wants(batch := view[position:end]):
                self._read(batch)
                position = end
        except Exception:
            if position == start and not self.count:
                raise
        return position - start

    def _read(self, batch: memoryview) -> None:
        """One whole batch or entry."""
        if batch[MAGIC_AT] == 2:
            self._read_batch(batch)
            return
        columns, kind = parse_entry(
            batch, check_crcs=self._check_crcs, max_decompressed=self._max_decompressed
        )
        offsets = columns.offsets
        if offsets[0] < 0 or offsets[-1] >= INT64_MAX or not all(map(lt, offsets, islice(offsets, 1, None))):
            raise CorruptRecordError(f"the offsets of the message set at {offsets[-1]} do not rise")
        if offsets[-1] >= self.next_offset:
            self.take_entry(columns, kind)
            self.next_offset = offsets[-1] + 1
        self.nbytes += size_of(columns)

    def _read_batch(self, batch: memoryview) -> None:
        (
            base,
            _,
            _,
            _,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            _,
            _,
            count,
        ) = BATCH.unpack_from(batch)
        last = base + last_delta
        if base < 0 or last_delta < 0 or last >= INT64_MAX or count < 0:
            raise CorruptRecordError(f"a batch cannot span the offsets {base} … {last} with {count} records")
        if last < self.next_offset:
            return
        if self._check_crcs and crc32c(batch[ATTRIBUTES_AT:]) != crc:
            raise CorruptRecordError(f"the checksum of the batch at offset {base} does not match its bytes")
        if attributes & CONTROL_BIT:
            self._pass_control(batch, producer_id, last)
        elif count and not (attributes & TRANSACTIONAL_BIT and self._is_aborted(producer_id, last)):
            data: Buffer = batch[BATCH_SIZE:]
            codec = compression_of(attributes, 2)
            if codec:
                data = decompress(codec, data, 2, self._max_decompressed)
            append_time = max_timestamp if attributes & TIMESTAMP_TYPE_BIT else None
            self.take_batch(data, count, base, last_delta, base_timestamp, append_time)
            self.nbytes += len(data)
        self.next_offset = last + 1

    def _pass_control(self, batch: memoryview, producer_id: int, offset: int) -> None:
        if self._aborted is not None and control_type(self.loops, batch) == ABORT:
            self._aborted.end(producer_id, offset)

    def _is_aborted(self, producer_id: int, last_offset: int) -> bool:
        return self._aborted is not None and self._aborted.covers(producer_id, last_offset)


def size_of(columns: Columns) -> int:
    """Bytes of keys and values."""
    return sum(map(len, filter(None, columns.keys))) + sum(map(len, filter(None, columns.values)))


class _MessageReader(Reader):
    """One call of :func:`decode` under way."""

    topic: str
    partition: int
    key_decoder: Callable[[bytes | None], Any] | None
    value_decoder: Callable[[bytes | None], Any] | None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.messages: list[Message] = []
        self.run: Run | None = None
        """All there is, in place of ``messages``."""
        self._alone = False

    @property
    def count(self) -> int:
        return len(self.messages) if self.run is None else self.run.count

    def wants(self, batch: memoryview) -> bool:
        count = self.count
        if count >= _ENOUGH_MESSAGES or self.nbytes >= ENOUGH_BYTES:
            return False
        # a batch that is enough by itself has a chunk to itself
        return not (count and (self._alone or _is_enough(batch)))

    def take_batch(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        self._alone = count >= _ENOUGH_MESSAGES
        if self.key_decoder is None and self.value_decoder is None:
            section = data, count, base_offset, last_delta, base_timestamp, append_time
            place = self.topic, self.partition, self.next_offset
            if self._alone and self.loops.parse_run is not None:
                run = self.loops.parse_run(*section, *place)
                # without a message it must not end the chunk
                self.run = run if run.count else None
            else:
                self.messages += self.loops.parse_messages(*section, *place)
            return
        columns = self.loops.parse_records(data, count, base_offset, last_delta, base_timestamp)
        if append_time is not None:
            columns.timestamps[:] = [append_time] * count
        self.take_entry(columns, CREATE_TIME if append_time is None else LOG_APPEND_TIME)

    def take_entry(self, columns: Columns, kind: int) -> None:
        columns = columns.since(bisect_left(columns.offsets, self.next_offset))
        offsets, timestamps, keys, values, headers = columns
        keys, key_failure = _decoded(keys, self.key_decoder)
        values, value_failure = _decoded(values[: len(keys)], self.value_decoder)
        whole = len(values)
        self.messages += self.loops.make_messages(
            self.topic, self.partition, kind, Columns(offsets[:whole], timestamps, keys, values, headers)
        )
        failure = value_failure or key_failure
        if failure:
            self.next_offset = offsets[whole]
            what = "value" if value_failure else "key"
            failure.add_note(
                f"while decoding the {what} of {self.topic}-{self.partition} at offset {offsets[whole]}"
            )
            raise failure


def _is_enough(batch: memoryview) -> bool:
    return batch[MAGIC_AT] == 2 and int.from_bytes(batch[COUNT_AT:BATCH_SIZE]) >= _ENOUGH_MESSAGES


def _decoded(
    column: list[bytes | None], decoder: Callable[[bytes | None], Any] | None
) -> tuple[list[Any], Exception | None]:
    """What the decoder makes of each, up to the first that it fails on, and that failure."""
    if decoder is None:
        return column, None
    decoded: list[Any] = []
    try:
        decoded.extend(map(decoder, column))
    except Exception as error:
        return decoded, error
    if len(decoded) < len(column):
        return decoded, RuntimeError("a decoder raised StopIteration")
    return decoded, None


def control_type(loops: Loops, batch: Buffer) -> int | None:
    """What a control batch says: 0 abort, 1 commit; others are the brokers' own affair. None if it has no
    records: the log cleaner leaves such batches where markers were, and they mark nothing.

    Raises CorruptRecordError, naming the batch's offset, where it does not say.
    """
    base, _, _, _, _, _, last_delta, base_timestamp, _, _, _, _, count = BATCH.unpack_from(batch)
    if not count:
        return None
    try:
        columns = loops.parse_records(batch[BATCH_SIZE:], count, base, last_delta, base_timestamp)
    except CorruptRecordError as error:
        raise CorruptRecordError(f"the control batch at offset {base}: {error}") from None
    key = columns.keys[0]
    if key is None or len(key) < 4:
        raise CorruptRecordError(f"the control batch at offset {base} has no type")
    return int.from_bytes(key[2:4], "big", signed=True)
