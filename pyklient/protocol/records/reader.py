"""From a fetched buffer to messages, batch by batch: what both kernels have in common.

Nothing here runs once per record. What does is the kernel's own: its :class:`Loops`.
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crc32c import crc32c

from pyklient.errors import CorruptRecordError
from pyklient.protocol.records.aborted import AbortedTransactions
from pyklient.protocol.records.chunk import Chunk
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED, compression_of, decompress
from pyklient.protocol.records.layout import (
    ABORT,
    ATTRIBUTES_AT,
    BATCH,
    BATCH_SIZE,
    CONTROL_BIT,
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
    from pyklient.protocol.records.kernel import Message

__all__ = ["Loops", "control_type", "decode"]

_ENOUGH_MESSAGES: Final = 10_000
_ENOUGH_BYTES: Final = 4 << 20
"""A chunk is closed after the batch that reaches one of these, so that it stays small beside its frame."""


class Loops(NamedTuple):
    """What a kernel does for each record: three functions of it."""

    parse_records: Callable[[Buffer, int, int, int, int], Columns]
    parse_messages: Callable[[Buffer, int, int, int, int, int | None, str, int, int], "list[Message]"]
    make_messages: Callable[[str, int, int, Columns], "list[Message]"]


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

    Whole batches are decoded until the chunk has enough of them; go on at ``position + chunk.nbytes`` with
    ``chunk.next_offset`` and the same *aborted*. A chunk without messages and with ``nbytes`` 0 is the end:
    what is left of the buffer is an incomplete batch. Control batches, and those that *aborted* covers,
    are passed over; without *aborted* everything is read (``read_uncommitted``).

    Raises CorruptRecordError, UnsupportedCodecError or MessageTooLargeError for bad bytes, and whatever a
    decoder raises, with a note of the place; always only once the messages before it have been returned.
    """
    reader = _Reader(loops, topic, partition, start_offset)
    reader.check_crcs = check_crcs
    reader.aborted = aborted
    reader.key_decoder = key_decoder
    reader.value_decoder = value_decoder
    reader.max_decompressed = max_decompressed
    view = memoryview(buffer)
    start = position
    try:
        while (end := batch_end(view, position)) and reader.wants_more:
            reader.read(view[position:end])
            position = end
    except Exception:
        # a later call meets it again, first thing
        if not reader.messages:
            raise
    return Chunk(topic, partition, reader.messages, reader.next_offset, position - start)


class _Reader:
    """One call of :func:`decode` under way."""

    check_crcs: bool
    aborted: AbortedTransactions | None
    key_decoder: Callable[[bytes | None], Any] | None
    value_decoder: Callable[[bytes | None], Any] | None
    max_decompressed: int

    def __init__(self, loops: Loops, topic: str, partition: int, start_offset: int) -> None:
        self.loops = loops
        self.topic = topic
        self.partition = partition
        self.next_offset = start_offset
        self.messages: list[Message] = []
        self.nbytes = 0

    @property
    def wants_more(self) -> bool:
        return len(self.messages) < _ENOUGH_MESSAGES and self.nbytes < _ENOUGH_BYTES

    def read(self, batch: memoryview) -> None:
        """Take in one whole batch or entry."""
        if batch[MAGIC_AT] == 2:
            self._read_batch(batch)
        else:
            columns, kind = parse_entry(
                batch, check_crcs=self.check_crcs, max_decompressed=self.max_decompressed
            )
            offsets = columns.offsets
            if (
                offsets[0] < 0
                or offsets[-1] >= INT64_MAX
                or not all(map(lt, offsets, islice(offsets, 1, None)))
            ):
                raise CorruptRecordError(f"the offsets of the message set at {offsets[-1]} do not rise")
            self.nbytes += sum(map(len, filter(None, columns.values)))
            if offsets[-1] >= self.next_offset:
                self._take(columns, kind)
                self.next_offset = offsets[-1] + 1

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
        if self.check_crcs and crc32c(batch[ATTRIBUTES_AT:]) != crc:
            raise CorruptRecordError(f"the checksum of the batch at offset {base} does not match its bytes")
        if attributes & CONTROL_BIT:
            self._pass_control(batch, producer_id, last)
        elif count and not (attributes & TRANSACTIONAL_BIT and self._is_aborted(producer_id, last)):
            data: Buffer = batch[BATCH_SIZE:]
            codec = compression_of(attributes, 2)
            if codec:
                data = decompress(codec, data, 2, self.max_decompressed)
            append_time = max_timestamp if attributes & TIMESTAMP_TYPE_BIT else None
            if self.key_decoder is None and self.value_decoder is None:
                self.messages += self.loops.parse_messages(
                    data,
                    count,
                    base,
                    last_delta,
                    base_timestamp,
                    append_time,
                    self.topic,
                    self.partition,
                    self.next_offset,
                )
            else:
                columns = self.loops.parse_records(data, count, base, last_delta, base_timestamp)
                if append_time is not None:
                    columns.timestamps[:] = [append_time] * count
                self._take(columns, CREATE_TIME if append_time is None else LOG_APPEND_TIME)
            self.nbytes += len(data)
        self.next_offset = last + 1

    def _pass_control(self, batch: memoryview, producer_id: int, offset: int) -> None:
        if self.aborted is not None and control_type(self.loops, batch) == ABORT:
            self.aborted.end(producer_id, offset)

    def _is_aborted(self, producer_id: int, last_offset: int) -> bool:
        return self.aborted is not None and self.aborted.covers(producer_id, last_offset)

    def _take(self, columns: Columns, kind: int) -> None:
        """Make messages of the records from ``next_offset`` on."""
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


def control_type(loops: Loops, batch: Buffer) -> int:
    """What a control batch says: 0 abort, 1 commit; others are the brokers' own affair."""
    base, _, _, _, _, _, last_delta, base_timestamp, _, _, _, _, count = BATCH.unpack_from(batch)
    columns = loops.parse_records(batch[BATCH_SIZE:], count, base, last_delta, base_timestamp)
    key = columns.keys[0] if columns.keys else None
    if key is None or len(key) < 4:
        raise CorruptRecordError(f"the control batch at offset {base} has no type")
    return int.from_bytes(key[2:4], "big", signed=True)
