"""Encodes and decodes zigzag varints: the numbers in records of format 2.

A signed number is *folded* (0, -1, 1, -2 → 0, 1, 2, 3), then divided into groups of seven bits, the lowest
first. Loops over many records handle short varints themselves, and call these functions for long ones.
"""

from typing import Final

from pyklient.errors import CorruptRecordError

__all__ = ["SHORT", "SHORT_END", "encode_signed", "read_folded", "unfold"]

_MASK: Final = (1 << 64) - 1


def _encode(folded: int) -> bytes:
    out = bytearray()
    while folded >= 0x80:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    out.append(folded)
    return bytes(out)


SHORT_END: Final = 8192
SHORT: Final = tuple(_encode(value << 1) for value in range(SHORT_END))
"""The varints of the numbers 0 … 8191, which take one or two bytes each."""


def encode_signed(value: int) -> bytes:
    """Return *value* as a zigzag varint of at most 64 bits.

    A value that needs more bits wraps around, as in Java. A batch stores differences from its base offset and
    base timestamp. Even if a difference wraps around, a reader that adds it to the base gets the right
    number.
    """
    if 0 <= value < SHORT_END:
        return SHORT[value]
    low = value & _MASK
    return _encode((low << 1 & _MASK) ^ (_MASK if low >> 63 else 0))


def unfold(folded: int) -> int:
    """Return the signed number that zigzag encoding turns into the unsigned number *folded*. The numbers 0,
    1, 2, 3 stand for 0, -1, 1, -2."""
    return folded >> 1 ^ -(folded & 1)


def read_folded(data: bytes, position: int, bits: int = 32) -> tuple[int, int]:
    """Return the varint at *position* as an unsigned number, and the position after the varint. ``unfold``
    turns the unsigned number into the signed one.

    Raises CorruptRecordError if the varint is cut off or needs more than *bits* bits.
    """
    folded = shift = 0
    while shift < bits:
        if position >= len(data):
            raise CorruptRecordError("a batch ends in the middle of a record")
        byte = data[position]
        position += 1
        folded |= (byte & 0x7F) << shift
        if byte < 0x80:
            if folded >> bits:
                break
            return folded, position
        shift += 7
    raise CorruptRecordError(f"a number in a record does not fit into {bits} bits")
