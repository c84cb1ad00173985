"""Encodes records and hashes their keys, in Python. ``record_encoding.pxi`` must behave exactly as this
module."""

from collections.abc import Iterable, Sequence
from itertools import chain
from struct import unpack_from
from typing import Final

from pyklient.protocol.records.layout import Headers
from pyklient.protocol.records.varints import SHORT, SHORT_END, encode_signed

__all__ = ["encode_record", "encode_records", "murmur2"]

_HASH_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """Return the hash of *data* that Java's default partitioner uses for keys: a number from 0 to 2³¹ - 1."""
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
    """Encode one record of format 2, with its length in front.

    *timestamp_delta* and *offset_delta* are the distances of the record from the base timestamp and the base
    offset of its batch.
    """
    short = SHORT
    time = short[timestamp_delta] if 0 <= timestamp_delta < SHORT_END else encode_signed(timestamp_delta)
    offset = short[offset_delta] if 0 <= offset_delta < SHORT_END else encode_signed(offset_delta)
    size = 2 + len(time) + len(offset)
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
    return b"".join((front, b"\x00", time, offset, key_size, key, value_size, value, tail))


def encode_headers(headers: Headers) -> bytes:
    """Encode the headers of one record, with their count in front. The value of a header may be None, but not
    its name."""
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
    """Encode records, each given as (timestamp_ms, key, value, headers). Return the bytes that follow the
    header in a batch of format 2.

    *base_timestamp* is that of the batch, in milliseconds since 1970. The offset deltas are 0, 1, 2 … unless
    *offset_deltas* is given.
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


def encode_values(values: list[bytes | None], keys: list[bytes | None] | None = None) -> bytes:
    """Encode records without headers that all have the timestamp of their batch. Return the bytes that follow
    the header in a batch of format 2.

    *keys* are in the order of *values*; None if no record has a key.
    """
    all_keys = [None] * len(values) if keys is None else keys
    if len(all_keys) != len(values):
        raise ValueError(f"there are {len(values)} values, but {len(all_keys)} keys")
    for data in chain.from_iterable(zip(values, all_keys, strict=True)):
        if data is not None and not isinstance(data, bytes):
            raise TypeError(f"a key or value must be bytes or None, not {type(data).__name__}")
    return b"".join(
        [
            encode_record(0, index, key, value)
            for index, (key, value) in enumerate(zip(all_keys, values, strict=True))
        ]
    )
