"""Record formats 0 and 1: entries, and compressed sets, which are the value of an entry called the wrapper.

A wrapper's offset is the offset of its last inner record. Inner offsets are absolute in format 0. In format 1
they are relative to the first record of the set, so that a broker does not have to rewrite them.
"""

import zlib
from collections.abc import Sequence
from struct import Struct
from typing import Final

from pyklient.errors import CorruptRecordError
from pyklient.protocol.records.compression import (
    DEFAULT_MAX_DECOMPRESSED,
    Compression,
    compress,
    compression_of,
    decompress,
)
from pyklient.protocol.records.layout import (
    CODEC_BITS,
    CREATE_TIME,
    ENTRY_CRC_FROM,
    INT64_MAX,
    INT64_MIN,
    LEAD,
    LEAD_SIZE,
    LEAST,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    Buffer,
    Columns,
)

__all__ = ["encode_entry", "encode_set", "entry_facts", "parse_entry", "verify_entry"]

_AFTER_CRC: Final = (Struct(">bB"), Struct(">bBq"))
_CRC: Final = Struct(">I")
_TIMESTAMP: Final = Struct(">q")
_SIZE: Final = Struct(">i")
_OFFSET_AND_SIZE: Final = Struct(">qi")
_NULL: Final = b"\xff\xff\xff\xff"


def encode_entry(
    magic: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    attributes: int = 0,
) -> bytes:
    """Encode one record as an entry of format *magic* (0 or 1): its offset, length, checksum and fields.
    Format 0 has no timestamps, so it ignores *timestamp*."""
    form = _AFTER_CRC[magic]
    parts = (
        form.pack(magic, attributes, timestamp) if magic else form.pack(magic, attributes),
        _NULL if key is None else _SIZE.pack(len(key)),
        key or b"",
        _NULL if value is None else _SIZE.pack(len(value)),
        value or b"",
    )
    body = b"".join(parts)
    return b"".join((_OFFSET_AND_SIZE.pack(offset, len(body) + 4), _CRC.pack(zlib.crc32(body)), body))


def encode_set(
    records: Sequence[tuple[int, bytes | None, bytes | None]],
    offsets: Sequence[int],
    magic: int,
    compression: Compression = Compression.NONE,
    timestamp_type: int = CREATE_TIME,
) -> bytes:
    """Encode *records*, which are (timestamp_ms, key, value), as a message set of format *magic* (0 or 1).
    *offsets* has their offsets.

    If *compression* is given, the set is compressed and becomes the value of a single entry. Raises
    UnsupportedCodecError for zstd.
    """
    attributes = TIMESTAMP_TYPE_BIT if magic and timestamp_type == LOG_APPEND_TIME else 0
    first = offsets[0] if magic and compression and offsets else 0
    entries = b"".join(
        [
            encode_entry(magic, offset - first, timestamp, key, value, attributes)
            for offset, (timestamp, key, value) in zip(offsets, records, strict=True)
        ]
    )
    if not compression or not records:
        return entries
    latest = max(timestamp for timestamp, _, _ in records)
    payload = compress(compression, entries, magic)
    return encode_entry(magic, offsets[-1], latest, None, payload, attributes | compression)


def verify_entry(entry: Buffer) -> None:
    """Raise CorruptRecordError if the checksum of *entry*, a message of format 0 or 1, does not match."""
    offset, _, crc, _ = LEAD.unpack_from(entry)
    if zlib.crc32(memoryview(entry)[ENTRY_CRC_FROM:]) != crc:
        raise CorruptRecordError(f"the checksum of the message at offset {offset} does not match its bytes")


def entry_facts(entry: Buffer) -> tuple[int, int, int]:
    """Return the offset, the attributes and the timestamp (-1 in format 0) of *entry*, a message of format 0
    or 1, without reading its other fields."""
    offset, _, _, magic = LEAD.unpack_from(entry)
    timestamp = _TIMESTAMP.unpack_from(entry, LEAD_SIZE + 1)[0] if magic else NO_TIMESTAMP
    return offset, entry[LEAD_SIZE], timestamp


def parse_entry(
    entry: Buffer, *, check_crcs: bool = True, max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
) -> tuple[Columns, int]:
    """Return the records of an entry of format 0 or 1, and their timestamp type. An entry is one record, or a
    wrapper, whose value is a compressed set of records.

    Raises CorruptRecordError for a wrong checksum or layout, UnsupportedCodecError for an unknown codec, and
    MessageTooLargeError if a wrapper decompresses to more than *max_decompressed* bytes.
    """
    if check_crcs:
        verify_entry(entry)
    data = bytes(entry)
    offset, _, _, magic = LEAD.unpack_from(data)
    attributes, timestamp, key, value = _fields(data, 0, len(data), magic)
    kind = _timestamp_type(magic, attributes)
    codec = compression_of(attributes, magic)
    if not codec:
        return Columns([offset], [timestamp], [key], [value], {}), kind
    if value is None:
        raise CorruptRecordError(f"the compressed message at offset {offset} has no value")
    columns = _parse_inner(decompress(codec, value, magic, max_decompressed), magic, check_crcs)
    if not columns.offsets:
        raise CorruptRecordError(f"the compressed message at offset {offset} holds no messages")
    if magic:
        # Some old producers sent wrappers with offset 0 instead of the last offset.
        base = offset - columns.offsets[-1] if offset else 0
        columns.offsets[:] = [base + relative for relative in columns.offsets]
        if not INT64_MIN <= min(columns.offsets) <= max(columns.offsets) <= INT64_MAX:
            raise CorruptRecordError(f"the compressed message at offset {offset} has invalid inner offsets")
        if kind == LOG_APPEND_TIME:
            columns.timestamps[:] = [timestamp] * len(columns.timestamps)
    return columns, kind


def _parse_inner(data: bytes, magic: int, check_crcs: bool) -> Columns:
    columns = Columns([], [], [], [], {})
    position = 0
    while position < len(data):
        if len(data) - position < LEAD_SIZE:
            raise CorruptRecordError("a compressed message set ends in the middle of a message")
        offset, length, crc, inner_magic = LEAD.unpack_from(data, position)
        end = position + OVERHEAD + length
        if inner_magic != magic:
            raise CorruptRecordError(
                f"a compressed message set of format {magic} holds a message of format {inner_magic}"
            )
        if length < LEAST[magic] - OVERHEAD or end > len(data):
            raise CorruptRecordError(f"a message in a compressed message set has the invalid length {length}")
        if check_crcs and zlib.crc32(data[position + ENTRY_CRC_FROM : end]) != crc:
            raise CorruptRecordError(
                f"the checksum of message {offset} in a compressed message set does not match its bytes"
            )
        attributes, timestamp, key, value = _fields(data, position, end, magic)
        if attributes & CODEC_BITS:
            raise CorruptRecordError(
                "a compressed message set holds another compressed message set, which is not allowed"
            )
        columns.offsets.append(offset)
        columns.timestamps.append(timestamp)
        columns.keys.append(key)
        columns.values.append(value)
        position = end
    return columns


def _fields(data: bytes, start: int, end: int, magic: int) -> tuple[int, int, bytes | None, bytes | None]:
    """Return attributes, timestamp, key and value of the entry in ``data[start:end]``."""
    attributes = data[start + LEAD_SIZE]
    position = start + LEAD_SIZE + 1
    timestamp = NO_TIMESTAMP
    if magic:
        timestamp = _TIMESTAMP.unpack_from(data, position)[0]
        position += 8
    key, position = _bytes(data, position, end)
    value, position = _bytes(data, position, end)
    if position != end:
        raise CorruptRecordError(
            f"the key and value of a message end {end - position} bytes before the message ends"
        )
    return attributes, timestamp, key, value


def _bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    start = position + 4
    if start > end:
        raise CorruptRecordError("a message ends before its key or value begins")
    size = _SIZE.unpack_from(data, position)[0]
    if size == -1:
        return None, start
    stop = start + size
    if size < 0 or stop > end:
        raise CorruptRecordError(
            f"a key or value has {size} bytes, but only {end - start} bytes of its message are left"
        )
    return data[start:stop], stop


def _timestamp_type(magic: int, attributes: int) -> int:
    if not magic:
        return NO_TIMESTAMP_TYPE
    return LOG_APPEND_TIME if attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME
