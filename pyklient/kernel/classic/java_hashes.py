"""The hash codes of Java for text and for arrays of bytes, in Python. ``java_hashes.pxi`` must behave exactly
as this module."""

from typing import Final

__all__ = ["array_hash", "string_hash"]

_MASK: Final = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Return Java's hash of *text* (``String.hashCode``), as a signed number of 32 bits.

    >>> string_hash("[beta,0]"), string_hash("[alpha,0]")
    (-535395666, 650873494)
    """
    if not isinstance(text, str):
        raise TypeError(f"string_hash takes a str, not {type(text).__name__}")
    units = str.encode(text, "utf-16-be", "surrogatepass")
    found = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (found * 31 + (high << 8 | low)) & _MASK
    return _signed(found)


def array_hash(data: bytes | bytearray | memoryview) -> int:
    """Return Java's hash of an array of bytes (``Arrays.hashCode``), as a signed number of 32 bits.

    >>> array_hash(b"hello"), array_hash(b""), array_hash(b"\\xff")
    (127791473, 1, 30)
    """
    found = 1
    for byte in bytes(data):
        found = (found * 31 + (byte - 256 if byte > 127 else byte)) & _MASK
    return _signed(found)


def _signed(unsigned: int) -> int:
    return unsigned - (unsigned >> 31 << 32)
