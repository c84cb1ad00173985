"""The record loops in Python: the reference that the compiled kernel is held to.

Functions over buffers, nothing else: no sockets, no retries, no threads. Loops keep to local variables,
read one- and two-byte varints inline and check each record once, at its end: a length that lies cannot end
where its record ends.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from operator import lt
from struct import unpack_from
from typing import Final

from pyklient.errors import CorruptRecordError
from pyklient.protocol.records import reader
from pyklient.protocol.records._message_py import Draft, Message, finish
from pyklient.protocol.records.layout import (
    CREATE_TIME,
    INT64_MAX,
    INT64_MIN,
    LOG_APPEND_TIME,
    RECORD_LEAST,
    Buffer,
    Columns,
    Headers,
    HeaderTuple,
)
from pyklient.protocol.records.varints import SHORT, SHORT_END, encode_signed, read_folded, unfold

__all__ = [
    "Message",
    "control_type",
    "decode",
    "encode_record",
    "encode_records",
    "make_messages",
    "murmur2",
    "parse_messages",
    "parse_records",
]

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


def parse_records(
    data: Buffer, count: int, base_offset: int, last_delta: int, base_timestamp: int
) -> Columns:
    """The records section of a format-2 batch, decompressed, field by field.

    Raises CorruptRecordError unless *data* is exactly *count* well-formed records, with offsets that rise
    within 0 … *last_delta*.
    """
    if not 0 <= count * RECORD_LEAST <= len(data):
        raise CorruptRecordError(f"a batch says it holds {count} records in {len(data)} bytes")
    try:
        columns, end = _parse(bytes(data), count, base_timestamp)
    except IndexError:
        raise CorruptRecordError("a batch ends in the middle of a record") from None
    if end != len(data):
        raise CorruptRecordError(f"{len(data) - end} bytes follow the last of {count} records")
    deltas, timestamps = columns.offsets, columns.timestamps
    if deltas:
        if deltas[-1] > last_delta or not all(map(lt, deltas, islice(deltas, 1, None))):
            raise CorruptRecordError(f"the offsets of a batch do not rise within 0 … {last_delta}")
        if base_offset + deltas[-1] > INT64_MAX:
            raise CorruptRecordError(f"the offsets of a batch from {base_offset} on do not fit 64 bits")
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
    if position > len(data):
        raise IndexError
    return tuple(headers), position


def parse_messages(
    data: Buffer,
    count: int,
    base_offset: int,
    last_delta: int,
    base_timestamp: int,
    append_time: int | None,
    topic: str,
    partition: int,
    start_offset: int,
) -> list[Message]:
    """The messages at *start_offset* and above in the records section of a format-2 batch, decompressed.

    *append_time* is what all timestamps are where the broker has set them, else None. Raises as
    :func:`parse_records`.
    """
    columns = parse_records(data, count, base_offset, last_delta, base_timestamp)
    columns = columns.since(bisect_left(columns.offsets, start_offset))
    if append_time is None:
        return make_messages(topic, partition, CREATE_TIME, columns)
    columns.timestamps[:] = [append_time] * len(columns.timestamps)
    return make_messages(topic, partition, LOG_APPEND_TIME, columns)


def make_messages(topic: str, partition: int, timestamp_type: int, columns: Columns) -> list[Message]:
    """Messages of records that have been parsed, or decoded. As many as there are offsets."""
    offsets, timestamps, keys, values, headers = columns
    drafts = [
        Draft(topic, partition, offset, timestamp, timestamp_type, key, value)
        for offset, timestamp, key, value in zip(offsets, timestamps, keys, values, strict=False)
    ]
    for index, of_one in headers.items():
        if index < len(drafts):
            drafts[index].headers = of_one
    return finish(drafts)


LOOPS: Final = reader.Loops(parse_records, parse_messages, make_messages)
decode = partial(reader.decode, LOOPS)
control_type = partial(reader.control_type, LOOPS)
