"""The record loops in Python: the reference that a compiled kernel is held to.

Functions over buffers and two small classes, nothing else: no sockets, no retries, no threads. Loops keep
to local variables, read one- and two-byte varints inline and check each record once, at its end: a length
that lies cannot end where its record ends.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import lt
from struct import unpack_from
from typing import Any, Final

from crc32c import crc32c

from pyklient.errors import CorruptRecordError
from pyklient.protocol.records._message_py import Chunk, Draft, Message, finish
from pyklient.protocol.records.aborted import AbortedTransactions
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED, compression_of, decompress
from pyklient.protocol.records.layout import (
    ABORT,
    ATTRIBUTES_AT,
    BATCH,
    BATCH_SIZE,
    CONTROL_BIT,
    CREATE_TIME,
    INT64_MAX,
    INT64_MIN,
    LOG_APPEND_TIME,
    MAGIC_AT,
    RECORD_LEAST,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Buffer,
    Columns,
    Headers,
    HeaderTuple,
    batch_end,
)
from pyklient.protocol.records.message_set import parse_entry
from pyklient.protocol.records.varints import SHORT, SHORT_END, encode_signed, read_folded, unfold

__all__ = ["Chunk", "Message", "decode", "encode_record", "encode_records", "murmur2", "parse_records"]

_ENOUGH_MESSAGES: Final = 10_000
_ENOUGH_BYTES: Final = 4 << 20
"""A chunk is closed after the batch that reaches one of these, so that it stays small beside its frame."""

_HASH_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """The hash of Kafka's default partitioner, as the Java client computes it; 0 … 2³¹-1."""
    length = len(data)
    value = 0x9747B28C ^ length
    whole = length & ~3
    for word in unpack_from(f"<{length >> 2}I", data):
        word = word * _HASH_MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _HASH_MULTIPLIER & _MASK
        value = value * _HASH_MULTIPLIER & _MASK ^ word
    if length & 3:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _HASH_MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _HASH_MULTIPLIER & _MASK
    return (value ^ value >> 15) & 0x7FFFFFFF


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> bytes:
    """One record of format 2, with its length in front. Deltas count from the batch's base."""
    short = SHORT
    time = short[timestamp_delta] if 0 <= timestamp_delta < SHORT_END else encode_signed(timestamp_delta)
    place = short[offset_delta] if 0 <= offset_delta < SHORT_END else encode_signed(offset_delta)
    size = 2 + len(time) + len(place)
    if key is None:
        key_size, key = b"\x01", b""
    else:
        length = len(key)
        key_size = short[length] if length < SHORT_END else encode_signed(length)
        size += length
    if value is None:
        value_size, value = b"\x01", b""
    else:
        length = len(value)
        value_size = short[length] if length < SHORT_END else encode_signed(length)
        size += length
    tail = b"\x00"
    if headers:
        tail = encode_headers(headers)
        size += len(tail) - 1
    size += len(key_size) + len(value_size)
    front = short[size] if size < SHORT_END else encode_signed(size)
    return b"".join((front, b"\x00", time, place, key_size, key, value_size, value, tail))


def encode_headers(headers: Headers) -> bytes:
    """The headers of one record, with their count in front. A header's value may be None, its name not."""
    parts = [encode_signed(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        if value is None:
            parts += (encode_signed(len(encoded)), encoded, b"\x01")
        else:
            parts += (encode_signed(len(encoded)), encoded, encode_signed(len(value)), value)
    return b"".join(parts)


def encode_records(
    records: Iterable[tuple[int, bytes | None, bytes | None, Headers]],
    base_timestamp: int,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """A run of ``(timestamp_ms, key, value, headers)`` as the records section of a format-2 batch.

    Offsets count 0, 1, 2 … unless *offset_deltas* says otherwise.
    """
    encode = encode_record
    if offset_deltas is None:
        return b"".join(
            [
                encode(timestamp - base_timestamp, index, key, value, headers)
                for index, (timestamp, key, value, headers) in enumerate(records)
            ]
        )
    return b"".join(
        [
            encode(timestamp - base_timestamp, delta, key, value, headers)
            for delta, (timestamp, key, value, headers) in zip(offset_deltas, records, strict=True)
        ]
    )


def parse_records(data: bytes, count: int, base_offset: int, last_delta: int, base_timestamp: int) -> Columns:
    """The records section of a format-2 batch, decompressed, field by field.

    Raises CorruptRecordError unless *data* is exactly *count* well-formed records, with offsets that rise
    within 0 … *last_delta*.
    """
    if not 0 <= count * RECORD_LEAST <= len(data):
        raise CorruptRecordError(f"a batch says it holds {count} records in {len(data)} bytes")
    try:
        columns, end = _parse(data, count, base_timestamp)
    except IndexError:
        raise CorruptRecordError("a batch ends in the middle of a record") from None
    if end != len(data):
        raise CorruptRecordError(f"{len(data) - end} bytes follow the last of {count} records")
    deltas, timestamps = columns.offsets, columns.timestamps
    if deltas:
        if deltas[-1] > last_delta or not all(map(lt, deltas, islice(deltas, 1, None))):
            raise CorruptRecordError(f"the offsets of a batch do not rise within 0 … {last_delta}")
        if base_offset:
            deltas[:] = [base_offset + delta for delta in deltas]
        if (
            base_timestamp.bit_length() > 62
            and not INT64_MIN <= min(timestamps) <= max(timestamps) <= INT64_MAX
        ):
            raise CorruptRecordError("a timestamp does not fit 64 bits")
    return columns


def _parse(  # noqa: C901 - a call per field would cost as much as the field
    data: bytes, count: int, base_timestamp: int
) -> tuple[Columns, int]:
    """The columns, with offsets still relative, and where the last record ends. IndexError past the end."""
    deltas: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: dict[int, HeaderTuple] = {}
    position = 0
    for index in range(count):
        # length
        low = data[position]
        position += 1
        if low >= 0x80:
            if (high := data[position]) < 0x80:
                low = low & 0x7F | high << 7
                position += 1
            else:
                low, position = read_folded(data, position - 1)
        end = position + (low >> 1)
        if low & 1:
            raise CorruptRecordError("a record has a negative length")
        # one byte of attributes, unused so far; timestamp delta
        low = data[position + 1]
        position += 2
        if low >= 0x80:
            if (high := data[position]) < 0x80:
                low = low & 0x7F | high << 7
                position += 1
            else:
                low, position = read_folded(data, position - 1, 64)
                if low >> 62:
                    unfolded = base_timestamp + unfold(low)
                    if not INT64_MIN <= unfolded <= INT64_MAX:
                        raise CorruptRecordError("a timestamp does not fit 64 bits")
        timestamps.append(base_timestamp + (low >> 1 ^ -(low & 1)))
        # offset delta
        low = data[position]
        position += 1
        if low >= 0x80:
            if (high := data[position]) < 0x80:
                low = low & 0x7F | high << 7
                position += 1
            else:
                low, position = read_folded(data, position - 1)
        if low & 1:
            raise CorruptRecordError("a record has a negative offset delta")
        deltas.append(low >> 1)
        # key
        low = data[position]
        position += 1
        if low == 1:
            keys.append(None)
        else:
            if low >= 0x80:
                low, position = read_folded(data, position - 1)
            if low & 1:
                raise CorruptRecordError("a key has a negative length")
            keys.append(data[position : position + (low >> 1)])
            position += low >> 1
        # value
        low = data[position]
        position += 1
        if low == 1:
            values.append(None)
        else:
            if low >= 0x80:
                if (high := data[position]) < 0x80:
                    low = low & 0x7F | high << 7
                    position += 1
                else:
                    low, position = read_folded(data, position - 1)
            if low & 1:
                raise CorruptRecordError("a value has a negative length")
            values.append(data[position : position + (low >> 1)])
            position += low >> 1
        # headers
        if data[position]:
            headers[index], position = _parse_headers(data, position)
        else:
            position += 1
        if position != end:
            raise CorruptRecordError(f"a record ends at byte {position} of its batch, its length says {end}")
    return Columns(deltas, timestamps, keys, values, headers), position


def _parse_headers(data: bytes, position: int) -> tuple[HeaderTuple, int]:
    count = data[position]
    position += 1
    if count >= 0x80:
        count, position = read_folded(data, position - 1)
    if count & 1:
        raise CorruptRecordError("a record has a negative number of headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count >> 1):
        size = data[position]
        position += 1
        if size >= 0x80:
            size, position = read_folded(data, position - 1)
        if size & 1:
            raise CorruptRecordError("a header's name has a negative length")
        # as the Java client does: a name that is not UTF-8 must not make the record unreadable
        name = data[position : position + (size >> 1)].decode("utf-8", "replace")
        position += size >> 1
        size = data[position]
        position += 1
        if size == 1:
            headers.append((name, None))
            continue
        if size >= 0x80:
            size, position = read_folded(data, position - 1)
        if size & 1:
            raise CorruptRecordError("a header's value has a negative length")
        headers.append((name, data[position : position + (size >> 1)]))
        position += size >> 1
    # past the end, if a length lied: then this is not where the record ends
    return tuple(headers), position


def decode(
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
    reader = _Reader(topic, partition, start_offset)
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

    def __init__(self, topic: str, partition: int, start_offset: int) -> None:
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
            payload = batch[BATCH_SIZE:]
            data = decompress(compression_of(attributes, 2), payload, 2, self.max_decompressed)
            columns = parse_records(data, count, base, last_delta, base_timestamp)
            kind = CREATE_TIME
            if attributes & TIMESTAMP_TYPE_BIT:
                kind = LOG_APPEND_TIME
                columns.timestamps[:] = [max_timestamp] * count
            self.nbytes += len(data)
            self._take(columns, kind)
        self.next_offset = last + 1

    def _pass_control(self, batch: memoryview, producer_id: int, offset: int) -> None:
        if self.aborted is not None and control_type(batch) == ABORT:
            self.aborted.end(producer_id, offset)

    def _is_aborted(self, producer_id: int, last_offset: int) -> bool:
        return self.aborted is not None and self.aborted.covers(producer_id, last_offset)

    def _take(self, columns: Columns, kind: int) -> None:
        """Make messages of the records from ``next_offset`` on."""
        offsets, timestamps, keys, values, headers = columns
        first = bisect_left(offsets, self.next_offset)
        if first:
            offsets, timestamps = offsets[first:], timestamps[first:]
            keys, values = keys[first:], values[first:]
        keys, key_failure = _decoded(keys, self.key_decoder)
        if key_failure:
            values = values[: len(keys)]
        values, value_failure = _decoded(values, self.value_decoder)
        topic, partition = self.topic, self.partition
        drafts = [
            Draft(topic, partition, offset, timestamp, kind, key, value)
            for offset, timestamp, key, value in zip(offsets, timestamps, keys, values, strict=False)
        ]
        whole = len(drafts)
        for index, of_one in headers.items():
            if first <= index < first + whole:
                drafts[index - first].headers = of_one
        self.messages += finish(drafts)
        failure = value_failure or key_failure
        if failure:
            self.next_offset = offsets[whole]
            what = "value" if value_failure else "key"
            failure.add_note(f"while decoding the {what} of {topic}-{partition} at offset {offsets[whole]}")
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


def control_type(batch: Buffer) -> int:
    """What a control batch says: 0 abort, 1 commit; others are the brokers' own affair."""
    base, _, _, _, _, _, last_delta, base_timestamp, _, _, _, _, count = BATCH.unpack_from(batch)
    columns = parse_records(bytes(batch[BATCH_SIZE:]), count, base, last_delta, base_timestamp)
    key = columns.keys[0] if columns.keys else None
    if key is None or len(key) < 4:
        raise CorruptRecordError(f"the control batch at offset {base} has no type")
    return int.from_bytes(key[2:4], "big", signed=True)
