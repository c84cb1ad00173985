"""The layout of record batches in all three formats, and records before encoding and after decoding.

Format 2 (a *batch*)::

    0 base offset 8 | 8 length 4 | 12 leader epoch 4 | 16 magic 1 | 17 CRC-32C 4 | 21 attributes 2
    23 last offset delta 4 | 27 base timestamp 8 | 35 max timestamp 8 | 43 producer id 8
    51 producer epoch 2 | 53 base sequence 4 | 57 record count 4 | 61 records …

Formats 0 and 1 (an *entry*; a compressed set is one entry, the *wrapper*, with a set as its value)::

    0 offset 8 | 8 length 4 | 12 CRC-32 4 | 16 magic 1 | 17 attributes 1 | format 1: 18 timestamp 8
    key length 4 | key | value length 4 | value

The magic is at byte 16 in every format, and *length* counts the bytes after its own field.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from pyklient.errors import CorruptRecordError

__all__ = [
    "Buffer",
    "DecodedRecord",
    "Headers",
    "HeaderTuple",
    "NewRecord",
    "NO_TIMESTAMP",
    "NO_TIMESTAMP_TYPE",
    "CREATE_TIME",
    "LOG_APPEND_TIME",
    "NO_PRODUCER_ID",
]

Buffer: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
HeaderTuple: TypeAlias = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1

NO_TIMESTAMP_TYPE: Final = -1
"""The timestamp type of records of format 0, which have no timestamps."""
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

LEAD: Final = Struct(">qiIb")
"""The layout of the first 17 bytes of a batch or entry in every format: offset, length, CRC (formats 0, 1) or
leader epoch (2), magic."""
LEAD_SIZE: Final = 17
OVERHEAD: Final = 12
"""The number of bytes of an entry or batch that its length field does not count."""

BATCH: Final = Struct(">qiibIhiqqqhii")
BATCH_SIZE: Final = 61
BATCH_LEAD: Final = Struct(">qiibI")
"""The layout of the first fields in the header of a batch, which the checksum does not cover. BATCH_AFTER_CRC
has the other fields."""
BATCH_AFTER_CRC: Final = Struct(">hiqqqhii")
MAGIC_AT: Final = 16
"""The position of the magic byte, which is the same in every format."""
ATTRIBUTES_AT: Final = 21
COUNT_AT: Final = 57
CRC_AT: Final = 17
LEADER_EPOCH_AT: Final = 12
MAX_TIMESTAMP_AT: Final = 35

ENTRY_CRC_FROM: Final = 16
LEAST: Final = (26, 34, 61)
"""For each format, the smallest size in bytes. Formats 0 and 1: of a message without key and value. Format 2:
of a batch without records."""

CODEC_BITS: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

ABORT: Final = 0
"""The type of the control record that ends an aborted transaction."""

RECORD_LEAST: Final = 7
"""The size in bytes of the smallest record of format 2: seven fields of one byte each."""

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)


class NewRecord(NamedTuple):
    """A record that is to be encoded. *timestamp_ms* is in milliseconds since 1970; -1 means no timestamp."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class DecodedRecord(NamedTuple):
    """A record that was decoded from a batch. *timestamp_type* is 0 for CreateTime and 1 for LogAppendTime.
    It is -1 in format 0, which has no timestamps."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: HeaderTuple


class Columns(NamedTuple):
    """The records of a batch as one list per field. *headers* has the headers of the records that have some,
    by the index of the record."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: dict[int, HeaderTuple]

    def since(self, first: int) -> "Columns":
        """Return the columns without the records before the index *first*."""
        if not first:
            return self
        offsets, timestamps, keys, values, headers = self
        moved = {index - first: of_one for index, of_one in headers.items() if index >= first}
        return Columns(offsets[first:], timestamps[first:], keys[first:], values[first:], moved)


def batch_end(view: memoryview, position: int) -> int:
    """Return the position after the batch (format 2) or entry (formats 0 and 1) that begins at *position*, or
    0 if *view* contains only a part of it.

    Raises CorruptRecordError if the bytes are neither a batch nor an entry.
    """
    if len(view) - position < LEAD_SIZE:
        return 0
    _, length, _, magic = LEAD.unpack_from(view, position)
    end: int = position + OVERHEAD + length
    if end > len(view):
        return 0
    if not 0 <= magic <= 2 or length < LEAST[magic] - OVERHEAD:
        raise not_a_batch(magic, length)
    return end


def not_a_batch(magic: int, length: int) -> CorruptRecordError:
    """Return the error for bytes whose header has a *magic* or *length* that no batch or entry has."""
    return CorruptRecordError(
        "the bytes are not a batch: by their header, the record format is "
        f"{magic} and the length {length} bytes"
    )
