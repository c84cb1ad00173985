"""The checksum in the header of LZ4 frames: the standard one, and the wrong one of the first Java producers.

A frame starts with a magic number of four bytes and a descriptor. The next byte is a checksum of the
descriptor. Producers of record format 0 included the magic number in that checksum by mistake, and brokers
and consumers of that format expect it. Format 1 and later follow the LZ4 specification.
"""

from typing import Final

from pyklient.protocol.records.layout import Buffer

__all__ = ["with_classic_checksum", "with_standard_checksum", "xxh32"]

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_HAS_CONTENT_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01

_MASK: Final = 0xFFFFFFFF
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393


def with_classic_checksum(frame: Buffer) -> bytes:
    """Return the LZ4 *frame* with the checksum that readers of record format 0 expect. Other data is returned
    unchanged."""
    return _with_checksum(frame, since=0)


def with_standard_checksum(frame: Buffer) -> bytes:
    """Return the LZ4 *frame* with the checksum of the LZ4 specification, in place of the checksum that it
    has."""
    return _with_checksum(frame, since=len(_FRAME_MAGIC))


def _with_checksum(frame: Buffer, since: int) -> bytes:
    data = bytearray(frame)
    end = _descriptor_end(data)
    if data[:4] == _FRAME_MAGIC and end < len(data):
        data[end] = xxh32(bytes(data[since:end])) >> 8 & 0xFF
    return bytes(data)


def _descriptor_end(data: bytearray) -> int:
    flags = data[4] if len(data) > 4 else 0
    return 6 + (8 if flags & _HAS_CONTENT_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)


def xxh32(data: bytes) -> int:
    """Return the XXH32 checksum of *data* with seed 0. *data* must have fewer than 16 bytes.

    No LZ4 frame that Kafka accepts has a longer header.
    """
    value = _PRIME_5 + len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * _PRIME_3 & _MASK
        value = (value << 17 | value >> 15) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        value = value + byte * _PRIME_5 & _MASK
        value = (value << 11 | value >> 21) * 2654435761 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16
