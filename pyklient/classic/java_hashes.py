"""The hash codes of Java, by which classic producers choose partitions."""

from typing import Any, Final

__all__ = ["array_hash", "java_hash", "safe_abs", "string_hash"]

_MASK: Final = 0xFFFFFFFF
_INT_MIN: Final = -(2**31)


def string_hash(text: str) -> int:
    """Return Java's hash of *text*, as a signed number of 32 bits.

    >>> string_hash("[beta,0]"), string_hash("[alpha,0]")
    (-535395666, 650873494)
    """
    units = text.encode("utf-16-be", "surrogatepass")
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


def java_hash(key: Any) -> int | None:
    """Return the hash that Java computes for an object like *key*; None if Java has no such object.

    A str is hashed like a String, a whole number like an Integer or, if it is larger, a Long, a bool like a
    Boolean, and bytes like the contents of an array.

    >>> java_hash("hello"), java_hash(17), java_hash(2**40), java_hash(True), java_hash(3.0)
    (99162322, 17, 256, 1231, None)
    """
    match key:
        case str():
            return string_hash(key)
        case bytes() | bytearray() | memoryview():
            return array_hash(key)
        case bool():
            return 1231 if key else 1237
        case int() if -(2**31) <= key < 2**31:
            return key
        case int() if -(2**63) <= key < 2**63:
            return _signed((key ^ (key >> 32)) & _MASK)
        case _:
            return None


def safe_abs(number: int) -> int:
    """Return the absolute value of a number of 32 bits; 0 for the smallest number, whose absolute value needs
    more bits."""
    return 0 if number == _INT_MIN else abs(number)


def _signed(unsigned: int) -> int:
    return unsigned - (unsigned >> 31 << 32)
